//! Stalled backends: they get no claims while another backend can serve.

use crate::stage::{Stage, backend, ms, options};
use carom_core::pick::Pick;
use carom_core::pool::{Options, Outcome};

fn set_stalled(stage: &mut Stage, number: u16, stalled: bool) {
    stage.machine.set_stalled(stage.now, &backend(number), stalled);
    stage.go();
}

fn shown(stage: &Stage) -> Vec<u16> {
    let backends = stage.machine.snapshot().backends.into_iter();
    backends.filter(|seen| seen.stalled).map(|seen| seen.backend.port()).collect()
}

#[test]
fn stalled_backend_gets_no_claims_until_it_recovers() {
    for pick in [Pick::LeastLoaded, Pick::Fifo, Pick::Lifo] {
        let mut stage = Stage::connected(Options { pick, ..options(3, 3) }, &[1, 2, 3]);
        set_stalled(&mut stage, 1, true);
        assert_eq!(shown(&stage), [1]);
        let claims = [stage.take(), stage.take()];
        assert!(claims.iter().all(|&claim| stage.lent_from(claim) != 1), "{pick:?}");
        let waiter = stage.wait(ms(60_000));
        assert_eq!(stage.granted(waiter), None, "others can serve: {pick:?}");
        set_stalled(&mut stage, 1, false);
        let slot = stage.granted(waiter).expect("it is idle");
        assert_eq!((stage.lent_from(slot), shown(&stage)), (1, vec![]), "{pick:?}");
    }
}

#[test]
fn claim_that_waits_gets_a_connection_of_another_backend() {
    let mut stage = Stage::connected(options(2, 2), &[1, 2]);
    set_stalled(&mut stage, 1, true);
    let held = stage.take();
    let waiter = stage.wait(ms(60_000));
    stage.release(held, Outcome::Open);
    let slot = stage.granted(waiter).expect("it came back");
    assert_eq!(stage.lent_from(slot), 2);
}

#[test]
fn stalled_backends_serve_when_all_are_stalled() {
    let mut stage = Stage::connected(options(2, 2), &[1, 2]);
    (1..=2).for_each(|number| set_stalled(&mut stage, number, true));
    let mut ports = [stage.take(), stage.take()].map(|claim| stage.lent_from(claim));
    ports.sort_unstable();
    assert_eq!(ports, [1, 2]);
}

#[test]
fn stalled_backend_serves_when_the_others_are_dead() {
    let mut stage = Stage::connected(options(2, 2), &[1, 2]);
    set_stalled(&mut stage, 1, true);
    let held = stage.take();
    assert_eq!(stage.lent_from(held), 2);
    let waiter = stage.wait(ms(60_000));
    stage.release(held, Outcome::Failed);
    stage.pass_until(|stage| stage.granted(waiter).is_some() || stage.dialling(2) > 0);
    while stage.granted(waiter).is_none() {
        if stage.dialling(2) > 0 {
            stage.refuse(2);
        }
        stage.pass(ms(100));
    }
    let slot = stage.granted(waiter).expect("nothing else can serve");
    assert_eq!(stage.lent_from(slot), 1);
}

#[test]
fn backend_that_is_removed_and_comes_back_is_not_stalled() {
    let mut stage = Stage::connected(options(2, 2), &[1, 2]);
    set_stalled(&mut stage, 1, true);
    stage.backends(&[2]);
    stage.backends(&[1, 2]);
    stage.accept_all();
    assert!(shown(&stage).is_empty());
}
