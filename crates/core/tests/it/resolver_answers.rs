//! What each answer to each kind of question leads to: one test for each cell of the table at the top of the resolver.
//!
//! Waits are exact here (no spread); `resolver_rules.rs` has the spread, and everything that is not in the table.

use crate::resolver_stage::*;
use carom_core::resolver::{Answer, Options, State};
use std::time::Duration;

/// The service worked: `a` at port 1, with one address, good for 300 s; SRV good for 200 s.
fn worked() -> Stage {
    let mut stage = Stage::new(service_v4());
    stage.answer(SRV, targets(&["a:1"], 200));
    stage.answer("A a", addresses(&["10.0.0.1"], 300));
    assert_eq!((stage.backends(), stage.stale_since()), (vec!["a (10.0.0.1:1)".to_owned()], None));
    assert_eq!(stage.next_ask(SRV), secs(200));
    stage
}

/// The domain has an address of each family, both good for 30 s and asked for again.
fn both_families() -> Stage {
    let mut stage = Stage::new(options());
    stage.answer(AAAA, addresses(&["::1"], 30));
    stage.answer(A, addresses(&["10.0.0.1"], 30));
    assert_eq!(stage.backends(), ["svc ([::1]:80)", "svc (10.0.0.1:80)"]);
    stage.pass(secs(30));
    assert_eq!(stage.asking(), [AAAA, A]);
    stage
}

/// The domain has IPv4 addresses only, good for so long, which were asked for again.
fn v4_only(ttl: u64) -> Stage {
    let mut stage = Stage::new(domain_v4());
    stage.answer(A, addresses(&["10.0.0.1"], ttl));
    assert_eq!(stage.next_ask(A), secs(ttl));
    stage
}

/// SRV is not there: whose addresses are asked for at once, and when SRV is asked for again.
fn falls_back_for(answer: Answer, again: Duration) {
    let mut stage = Stage::new(service());
    stage.answer(SRV, answer.clone());
    assert_eq!(stage.asking(), [AAAA, A], "at once");
    assert_eq!(stage.next_ask(SRV), again);

    let mut stage = worked();
    stage.answer(SRV, answer);
    assert_eq!(stage.asking(), [A], "even if SRV has worked");
    assert_eq!(stage.backends(), ["a (10.0.0.1:1)"], "until there is something better");
    stage.answer(A, addresses(&["10.0.0.9"], 86_000));
    assert_eq!((stage.backends(), stage.stale_since()), (vec!["svc (10.0.0.9:80)".to_owned()], None));
    assert_eq!(stage.troubles(), [""; 0]);
    assert_eq!(stage.next_ask(SRV), again);
}

/// SRV stays silent: what has worked is kept, else the domain serves.
fn fails(fail: fn(&mut Stage)) {
    let mut stage = Stage::new(service_v4());
    fail(&mut stage);
    assert_eq!((stage.asking(), stage.resolution().state), (vec![A], State::Starting));
    stage.answer(A, addresses(&["10.0.0.9"], 86_000));
    assert_eq!((stage.backends(), stage.stale_since()), (vec!["svc (10.0.0.9:80)".to_owned()], None));
    assert_eq!((stage.resolution().state, stage.troubles()), (State::Running, vec![SRV.to_owned()]));
    assert_eq!(stage.next_ask(SRV), secs(60));
    fail(&mut stage);
    assert_eq!(stage.next_ask(SRV), secs(900), "there are addresses to live on");

    let mut stage = worked();
    fail(&mut stage);
    let failed = stage.now;
    assert_eq!(stage.asking(), [""; 0], "no fallback: it has worked");
    assert_eq!((stage.backends(), stage.troubles()), (vec!["a (10.0.0.1:1)".to_owned()], vec![SRV.to_owned()]));
    assert_eq!(stage.stale_since(), Some(failed - stage.start));
    assert_eq!(stage.next_ask("A a") + (failed - stage.start), secs(300), "its targets are still followed");
    stage.answer("A a", addresses(&["10.0.0.2"], 300));
    assert_eq!(stage.backends(), ["a (10.0.0.2:1)"]);
    stage.next_ask(SRV);
    assert_eq!(stage.now - failed, secs(200));
    stage.answer(SRV, targets(&["a:1"], 200));
    assert_eq!((stage.stale_since(), stage.troubles()), (None, vec![]));
}

#[test]
fn srv_records() {
    let mut stage = Stage::new(service());
    assert_eq!(stage.asking(), [SRV]);
    stage.answer(SRV, targets(&["b:2", "a:1"], 50));
    assert_eq!(stage.asking(), ["AAAA a", "A a", "AAAA b", "A b"], "and not those of the domain");
    assert_eq!(stage.next_ask(SRV), secs(50));
    stage.answer(SRV, targets(&["b:2", "a:1"], 70));
    assert_eq!(stage.next_ask(SRV), secs(70));
}

#[test]
fn srv_nxdomain() {
    falls_back_for(nxdomain(None), secs(60));
    falls_back_for(nxdomain(Some(7)), secs(7));
}

#[test]
fn srv_no_data() {
    falls_back_for(nodata(None), secs(60));
    falls_back_for(nodata(Some(7_000)), secs(7_000));
    falls_back_for(targets(&[], 7), secs(60));
    falls_back_for(addresses(&["10.0.0.1"], 7), secs(60));
}

#[test]
fn srv_notimp() {
    falls_back_for(NOTIMP, secs(3_600));
}

#[test]
fn srv_refused() {
    fails(|stage| stage.answer(SRV, REFUSED));
}

#[test]
fn srv_failure_or_timeout() {
    fails(|stage| {
        assert_eq!(stage.ask(SRV).1, ms(400));
        stage.answer(SRV, SERVFAIL);
        assert_eq!(stage.next_ask(SRV), ms(50));
        assert_eq!(stage.ask(SRV).1, ms(800));
        stage.answer(SRV, SERVFAIL);
    });
}

/// A target of "." is an answer: there is no such service, and the domain's own addresses are not it.
#[test]
fn srv_not_offered() {
    let not_offered = Answer::NotOffered { ttl: secs(40) };
    let mut stage = Stage::new(service());
    stage.answer(SRV, not_offered.clone());
    assert_eq!((stage.asking(), stage.resolution().state), (vec![], State::Failed));
    assert_eq!(stage.troubles(), [SRV]);
    assert_eq!(stage.next_ask(SRV), secs(40));
    stage.exhaust(SRV, 2);
    assert_eq!(stage.asking(), [""; 0], "nor when it cannot be asked for any more");
    assert_eq!(stage.next_ask(SRV), secs(60));

    let mut stage = worked();
    stage.answer(SRV, not_offered.clone());
    assert_eq!((stage.backends(), stage.stale_since()), (vec!["a (10.0.0.1:1)".to_owned()], Some(secs(200))));
    assert_eq!((stage.asking(), stage.troubles()), (vec![], vec![SRV.to_owned()]));
    assert_eq!(stage.next_ask(SRV), secs(40));

    let mut stage = Stage::new(service_v4());
    stage.answer(SRV, nxdomain(None));
    stage.answer(A, addresses(&["10.0.0.9"], 86_000));
    stage.next_ask(SRV);
    stage.answer(SRV, not_offered);
    assert_eq!((stage.backends(), stage.stale_since()), (vec!["svc (10.0.0.9:80)".to_owned()], None));
}

#[test]
fn address_records() {
    let mut stage = Stage::new(options());
    assert_eq!(stage.asking(), [AAAA, A]);
    stage.answer(AAAA, addresses(&["::2", "::1"], 20));
    stage.answer(A, addresses(&["10.0.0.2", "10.0.0.1"], 30));
    let all = ["svc ([::1]:80)", "svc ([::2]:80)", "svc (10.0.0.1:80)", "svc (10.0.0.2:80)"];
    assert_eq!((stage.backends(), stage.resolution().state), (all.map(str::to_owned).to_vec(), State::Running));
    assert_eq!(stage.next_ask(AAAA), secs(20));
    assert_eq!(stage.next_ask(A), secs(10), "each after its own TTL");
    stage.answer(AAAA, addresses(&["::2"], 40));
    stage.answer(A, addresses(&["10.0.0.3"], 50));
    assert_eq!((stage.backends(), stage.stale_since()), (vec![all[1].to_owned(), "svc (10.0.0.3:80)".into()], None));
    assert_eq!((stage.next_ask(AAAA), stage.next_ask(A)), (secs(40), secs(10)));
}

/// What holds for one kind of address where there is none, the other being there: nothing is wrong, asked again in so long.
fn one_family_is_missing(missing: &str, other: &str, answer: Answer, again: u64) {
    let mut stage = Stage::new(options());
    let found = if other == A { "10.0.0.1" } else { "::1" };
    stage.answer(missing, answer.clone());
    stage.answer(other, addresses(&[found], 86_000));
    assert_eq!((stage.backends().len(), stage.resolution().state), (1, State::Running));
    assert_eq!((stage.stale_since(), stage.troubles()), (None, vec![]));
    assert_eq!(stage.next_ask(missing), secs(again));
    stage.answer(missing, answer);
    assert_eq!(stage.next_ask(missing), secs(again));
}

/// What holds for addresses that were there, and are said not to be: they stay, stale, until the other family is heard of.
fn one_family_goes(going: &str, other: &str, answer: Answer, again: u64) {
    let mut stage = both_families();
    stage.answer(other, REFUSED);
    stage.answer(going, answer.clone());
    assert_eq!((stage.backends().len(), stage.troubles()), (2, vec![AAAA.to_owned(), A.to_owned()]));
    assert_eq!(stage.stale_since(), Some(secs(30)));
    assert_eq!(stage.next_ask(other), secs(30));
    stage.answer(other, addresses(&[if other == A { "10.0.0.1" } else { "::1" }], 86_000));
    assert_eq!((stage.backends().len(), stage.stale_since(), stage.troubles()), (1, None, vec![]));
    assert_eq!(stage.next_ask(going) + secs(30), secs(again));

    let mut stage = both_families();
    stage.answer(going, answer);
    assert_eq!((stage.backends().len(), stage.stale_since(), stage.troubles()), (1, None, vec![]), "it was heard of");
}

/// The last addresses of a name are never given up.
fn the_last_are_kept(answer: Answer, again: u64) {
    let mut stage = v4_only(30);
    stage.answer(A, answer);
    assert_eq!((stage.backends().len(), stage.stale_since()), (1, Some(secs(30))));
    assert_eq!((stage.resolution().state, stage.troubles()), (State::Running, vec![A.to_owned()]));
    assert_eq!(stage.next_ask(A), secs(again));
    stage.answer(A, addresses(&["10.0.0.1"], 30));
    assert_eq!((stage.stale_since(), stage.troubles()), (None, vec![]));
}

#[test]
fn aaaa_no_data() {
    one_family_is_missing(AAAA, A, nodata(None), 60);
    one_family_is_missing(AAAA, A, nodata(Some(500)), 500);
    one_family_is_missing(AAAA, A, addresses(&[], 500), 60);
    one_family_is_missing(AAAA, A, targets(&["a:1"], 500), 60);
    one_family_is_missing(AAAA, A, Answer::NotOffered { ttl: secs(9) }, 60);
    one_family_goes(AAAA, A, nodata(None), 60);
    one_family_goes(AAAA, A, nodata(Some(500)), 500);
}

#[test]
fn aaaa_nxdomain() {
    one_family_is_missing(AAAA, A, nxdomain(None), 60);
    one_family_is_missing(AAAA, A, nxdomain(Some(5)), 5);
    let mut stage = both_families();
    stage.answer(A, addresses(&["10.0.0.1"], 30));
    stage.answer(AAAA, nxdomain(Some(5)));
    assert_eq!(stage.backends().len(), 2, "that the name is not there at all is no reason to believe it");
    assert_eq!((stage.stale_since(), stage.troubles()), (Some(secs(30)), vec![AAAA.to_owned()]));
    assert_eq!(stage.next_ask(AAAA), secs(5));
}

#[test]
fn aaaa_notimp() {
    one_family_is_missing(AAAA, A, NOTIMP, 60);
    one_family_goes(AAAA, A, NOTIMP, 60);
}

/// That it has no records shows that the nameservers answer AAAA.
#[test]
fn aaaa_that_fails_after_no_data_is_asked_again_within_a_minute() {
    for nothing in [nodata(Some(500)), nxdomain(Some(500))] {
        let mut stage = Stage::new(options());
        stage.answer(A, addresses(&["10.0.0.1"], 86_000));
        stage.answer(AAAA, nothing);
        assert_eq!(stage.next_ask(AAAA), secs(500));
        stage.answer(AAAA, REFUSED);
        assert_eq!(stage.next_ask(AAAA), secs(60));
    }
}

/// AAAA out of attempts, by `fail`.
fn aaaa_fails(fail: fn(&mut Stage)) {
    // Beside an A that works.
    let mut stage = Stage::new(options());
    stage.answer(A, addresses(&["10.0.0.1"], 86_000));
    fail(&mut stage);
    assert_eq!((stage.backends().len(), stage.stale_since()), (1, None));
    assert_eq!((stage.resolution().state, stage.troubles()), (State::Running, vec![AAAA.to_owned()]));
    assert_eq!(stage.next_ask(AAAA), secs(3_600));

    // Beside nothing.
    let mut stage = Stage::new(options());
    stage.answer(A, nodata(Some(86_000)));
    fail(&mut stage);
    assert_eq!((stage.resolution().state, stage.troubles()), (State::Failed, vec![AAAA.to_owned(), A.to_owned()]));
    assert_eq!(stage.next_ask(AAAA), secs(3), "the longest delay");

    // When it has worked.
    let mut stage = both_families();
    stage.answer(A, addresses(&["10.0.0.1"], 86_000));
    fail(&mut stage);
    let failed = stage.now - stage.start;
    assert_eq!((stage.backends().len(), stage.stale_since()), (2, Some(failed)));
    assert_eq!((stage.next_ask(AAAA), stage.troubles()), (secs(30), vec![AAAA.to_owned()]));
    fail(&mut stage);
    assert_eq!(stage.stale_since(), Some(failed), "still since then");
    stage.next_ask(AAAA);
    stage.answer(AAAA, addresses(&["::1"], 61));
    assert_eq!((stage.stale_since(), stage.next_ask(AAAA)), (None, secs(61)));
    fail(&mut stage);
    assert_eq!(stage.next_ask(AAAA), secs(60), "at the latest");
}

#[test]
fn aaaa_refused() {
    aaaa_fails(|stage| stage.answer(AAAA, REFUSED));
}

#[test]
fn aaaa_failure_or_timeout() {
    aaaa_fails(|stage| walk(stage, AAAA, &SERVFAIL));
}

#[test]
fn a_no_data() {
    one_family_is_missing(A, AAAA, nodata(None), 60);
    one_family_is_missing(A, AAAA, nodata(Some(500)), 500);
    one_family_goes(A, AAAA, nodata(None), 60);
    one_family_goes(A, AAAA, nodata(Some(500)), 500);
    the_last_are_kept(nodata(None), 60);
    the_last_are_kept(nodata(Some(9)), 9);
}

#[test]
fn a_nxdomain() {
    one_family_is_missing(A, AAAA, nxdomain(None), 60);
    the_last_are_kept(nxdomain(None), 60);
    the_last_are_kept(nxdomain(Some(9)), 9);
}

/// A out of attempts, by `fail`.
fn a_fails(fail: fn(&mut Stage)) {
    // Beside an AAAA that works, which is no reason to give up on it for long.
    let mut stage = Stage::new(options());
    stage.answer(AAAA, addresses(&["::1"], 86_000));
    fail(&mut stage);
    assert_eq!((stage.backends().len(), stage.stale_since(), stage.troubles()), (1, None, vec![A.to_owned()]));
    assert_eq!(stage.next_ask(A), secs(3), "the longest delay");

    // Beside nothing.
    let mut stage = Stage::new(domain_v4());
    fail(&mut stage);
    assert_eq!((stage.resolution().state, stage.troubles()), (State::Failed, vec![A.to_owned()]));
    assert_eq!((stage.stale_since(), stage.next_ask(A)), (None, secs(3)));

    // When it has worked.
    let mut stage = v4_only(30);
    fail(&mut stage);
    let failed = stage.now - stage.start;
    assert_eq!((stage.backends().len(), stage.stale_since()), (1, Some(failed)));
    assert_eq!((stage.resolution().state, stage.troubles()), (State::Running, vec![A.to_owned()]));
    assert_eq!(stage.next_ask(A), secs(30));
    let mut stage = v4_only(61);
    fail(&mut stage);
    assert_eq!(stage.next_ask(A), secs(60), "at the latest");
}

#[test]
fn a_notimp() {
    a_fails(|stage| walk(stage, A, &NOTIMP));
}

#[test]
fn a_refused() {
    a_fails(|stage| stage.answer(A, REFUSED));
}

#[test]
fn a_failure_or_timeout() {
    a_fails(|stage| walk(stage, A, &SERVFAIL));
}

/// The attempts of the policy, with their timeouts and delays.
fn walk(stage: &mut Stage, question: &str, answer: &Answer) {
    for (timeout, delay) in [(1_000, 100), (2_000, 200)] {
        assert_eq!(stage.ask(question).1, ms(timeout));
        stage.answer(question, answer.clone());
        assert_eq!(stage.next_ask(question), ms(delay));
    }
    assert_eq!(stage.ask(question).1, ms(2_000));
    stage.answer(question, answer.clone());
}

#[test]
fn without_caps_addresses_in_trouble_rest_as_long_as_attempts_have_doubled_the_delay() {
    let uncapped = policy().max_delay(None).delay(ms(300));
    let mut stage = Stage::new(Options { recovery: uncapped.into(), ..domain_v4() });
    stage.exhaust(A, 3);
    assert_eq!(stage.next_ask(A), ms(2_400));
}
