//! Cueball's DNS scenarios (D1 to D10), as they come out here. Questions for all targets go out together, so counts are
//! compared, not the order in which cueball asked one after the other.

use crate::resolver_stage::*;
use carom_core::resolver::{Answer, Options, State};

/// The default port of these scenarios.
const PORT: u16 = 112;

fn setting() -> Options {
    Options { default_port: PORT, ..service() }
}

/// Answers everything under way.
fn answer_all(stage: &mut Stage, answers: &[(&str, Answer)]) {
    for (question, answer) in answers {
        stage.answer(question, answer.clone());
    }
    assert_eq!(stage.asking(), [""; 0]);
}

/// One target with IPv4, one with IPv6.
fn one_of_each(srv_ttl: u64, aaaa_ttl: u64) -> Stage {
    let mut stage = Stage::new(setting());
    let answers = [
        (SRV, targets(&["a:111", "aaaa:111"], srv_ttl)),
        ("AAAA a", nodata(Some(3_600))),
        ("AAAA aaaa", addresses(&["1234:abcd::1"], aaaa_ttl)),
        ("A a", addresses(&["1.2.3.4"], 3_600)),
        ("A aaaa", nodata(Some(3_600))),
    ];
    answer_all(&mut stage, &answers);
    stage
}

#[test]
fn d1_a_target_of_each_family() {
    let mut stage = one_of_each(3_600, 3_600);
    assert_eq!(stage.newly_asked().len(), 5, "no data is not asked for again");
    assert_eq!(stage.backends(), ["a (1.2.3.4:111)", "aaaa ([1234:abcd::1]:111)"]);
    assert_eq!((stage.published, stage.troubles()), (1, vec![]));
}

#[test]
fn d2_no_srv_and_a_name_with_ipv4() {
    let mut stage = Stage::new(setting());
    answer_all(&mut stage, &[(SRV, nxdomain(None)), (AAAA, nodata(None)), (A, addresses(&["1.2.3.4"], 60))]);
    assert_eq!((stage.backends(), stage.asked.len()), (vec!["svc (1.2.3.4:112)".to_owned()], 3));
}

/// Unlike cueball's, NXDOMAIN for AAAA is as good as for A: it is not asked for again at once.
#[test]
fn d3_the_name_is_not_there_at_all() {
    let mut stage = Stage::new(setting());
    answer_all(&mut stage, &[(SRV, nxdomain(None)), (AAAA, nxdomain(None)), (A, nxdomain(None))]);
    assert_eq!((stage.resolution().state, stage.asked.len()), (State::Failed, 3));
    assert_eq!(stage.troubles(), [SRV, AAAA, A]);
}

#[test]
fn d4_nothing_is_implemented() {
    let mut stage = Stage::new(setting());
    answer_all(&mut stage, &[(SRV, NOTIMP), (AAAA, NOTIMP), (A, NOTIMP)]);
    for _ in 0..2 {
        assert_eq!(stage.resolution().state, State::Starting);
        stage.next_ask(A);
        stage.answer(A, NOTIMP);
    }
    assert_eq!(stage.resolution().state, State::Failed);
}

#[test]
fn d5_a_is_not_implemented() {
    let mut stage = Stage::new(setting());
    stage.answer(SRV, targets(&["a:111"], 3_600));
    stage.answer("AAAA a", nodata(None));
    for _ in 0..2 {
        stage.answer("A a", NOTIMP);
        stage.next_ask("A a");
    }
    stage.answer("A a", NOTIMP);
    assert_eq!((stage.resolution().state, stage.backends().len()), (State::Failed, 0));
}

#[test]
fn d6_a_short_ttl_is_asked_for_alone_and_changes_nothing() {
    let mut stage = Stage::new(setting());
    answer_all(
        &mut stage,
        &[(SRV, targets(&["a:111"], 3_600)), ("AAAA a", nxdomain(None)), ("A a", addresses(&["1.2.3.4"], 1))],
    );
    stage.newly_asked();
    stage.pass(ms(1_500));
    stage.answer("A a", addresses(&["1.2.3.4"], 1));
    assert_eq!((stage.newly_asked(), stage.published), (vec!["A a".to_owned()], 1));
}

/// Unlike cueball's, a negative answer holds as long as it says: the A of the other target is not asked for again.
#[test]
fn d7_one_target_of_three_has_a_short_ttl() {
    let mut stage = one_of_each(3_600, 1);
    stage.newly_asked();
    stage.pass(ms(1_500));
    assert_eq!(stage.newly_asked(), ["AAAA aaaa"]);
}

#[test]
fn d8_a_target_appears() {
    let mut stage = one_of_each(1, 3_600);
    stage.newly_asked();
    stage.pass(ms(1_500));
    let answers = [
        (SRV, targets(&["a:111", "aaaa:111", "new:111"], 3_600)),
        ("AAAA new", addresses(&["1234:abcd::2"], 3_600)),
        ("A new", addresses(&["1.2.3.5"], 3_600)),
    ];
    answer_all(&mut stage, &answers);
    assert_eq!(stage.newly_asked(), [SRV, "AAAA new", "A new"], "what is known is not asked for again");
    assert_eq!((stage.backends().len(), stage.published), (4, 2));
}

#[test]
fn d9_a_host_without_ipv6() {
    let mut stage = Stage::new(Options { ipv6: false, ..setting() });
    stage.answer(SRV, targets(&["a:111", "b:111"], 3_600));
    assert_eq!(stage.asked, [SRV, "A a", "A b"]);
}

#[test]
fn d10_duplicates_come_and_go() {
    let mut stage = Stage::new(Options { ipv6: false, ..setting() });
    stage.answer(SRV, targets(&["a:111", "a:111"], 1));
    stage.answer("A a", addresses(&["1.2.3.4", "1.2.3.4"], 3_600));
    for list in [&["a:111"][..], &["a:111", "a:111"]] {
        stage.next_ask(SRV);
        stage.answer(SRV, targets(list, 1));
    }
    assert_eq!((stage.backends(), stage.published), (vec!["a (1.2.3.4:111)".to_owned()], 1));
    assert_eq!(stage.asked, [SRV, "A a", SRV, SRV]);
}
