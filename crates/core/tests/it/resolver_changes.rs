//! How the resolver keeps its set while answers change: additional addresses, other targets, trouble, IPv6 that comes and goes.
//! Each test is named for its rule.

use crate::resolver_stage::*;
use carom_core::resolver::{Options, State, Via};

#[test]
fn additional_addresses_save_lookups() {
    let mut stage = Stage::new(service());
    stage.newly_asked();
    let along = [("a", "10.0.0.1"), ("a", "::1"), ("b", "10.0.0.2"), ("z", "10.0.0.9")];
    stage.answer(SRV, targets_with(&["a:1", "b:2"], &along, 50));
    assert_eq!(stage.backends(), ["a ([::1]:1)", "a (10.0.0.1:1)", "b (10.0.0.2:2)"]);
    assert_eq!((stage.resolution().state, stage.stale_since()), (State::Running, None));
    assert!(stage.resolution().complete && stage.troubles().is_empty());
    assert_eq!(stage.next_ask(SRV), secs(50));
    stage.answer(SRV, targets_with(&["a:1", "b:2"], &[("a", "10.0.0.1"), ("b", "10.0.0.3")], 50));
    assert_eq!(stage.backends(), ["a (10.0.0.1:1)", "b (10.0.0.3:2)"]);
    assert_eq!(stage.newly_asked(), [SRV], "nothing else was asked");
    assert!(stage.resolution().details.iter().all(|detail| detail.via == Via::Additional && detail.ttl == secs(50)));
}

#[test]
fn targets_without_additional_addresses_are_asked_for() {
    let mut stage = Stage::new(service());
    stage.answer(SRV, targets_with(&["a:1", "b:2"], &[("a", "10.0.0.1")], 50));
    assert_eq!((stage.asking(), stage.published), (vec!["AAAA b", "A b"], 0));
    stage.answer("AAAA b", nodata(None));
    stage.answer("A b", addresses(&["10.0.0.2"], 30));
    assert_eq!((stage.backends(), stage.published), (vec!["a (10.0.0.1:1)".to_owned(), "b (10.0.0.2:2)".into()], 1));
    let vias: Vec<_> = stage.resolution().details.iter().map(|detail| (detail.via, detail.ttl)).collect();
    assert_eq!(vias, [(Via::Additional, secs(50)), (Via::Srv, secs(30))]);
}

#[test]
fn a_family_that_had_no_room_to_come_along_is_asked_for() {
    let mut stage = Stage::new(service());
    stage.answer(SRV, targets_cut(&["a:1", "b:2"], &[("a", "10.0.0.1"), ("b", "::2"), ("b", "10.0.0.2")], 50));
    assert_eq!((stage.asking(), stage.published), (vec!["AAAA a"], 0), "the rest came along");
    stage.answer("AAAA a", addresses(&["::1"], 500));
    assert_eq!(stage.backends(), ["a ([::1]:1)", "a (10.0.0.1:1)", "b ([::2]:2)", "b (10.0.0.2:2)"]);
    // Next time it is another that has no room: nothing is taken away, and what came along is not asked for.
    stage.next_ask(SRV);
    stage.answer(SRV, targets_cut(&["a:1", "b:2"], &[("a", "::1"), ("b", "::2"), ("b", "10.0.0.2")], 50));
    assert_eq!((stage.asking(), stage.backends().len()), (vec!["A a"], 4));
    stage.answer("A a", nodata(Some(500)));
    assert_eq!(stage.backends(), ["a ([::1]:1)", "b ([::2]:2)", "b (10.0.0.2:2)"], "it has none any more");
}

#[test]
fn additional_addresses_that_stop_coming_are_asked_for_and_kept_meanwhile() {
    let mut stage = Stage::new(service());
    stage.answer(SRV, targets_with(&["a:1"], &[("a", "10.0.0.1")], 50));
    stage.next_ask(SRV);
    stage.answer(SRV, targets(&["a:1"], 86_000));
    assert_eq!((stage.asking(), stage.backends()), (vec!["AAAA a", "A a"], vec!["a (10.0.0.1:1)".to_owned()]));
    stage.answer("A a", REFUSED);
    assert_eq!((stage.backends().len(), stage.stale_since()), (1, Some(secs(50))));
    stage.next_ask("A a");
    stage.answer("A a", addresses(&["10.0.0.2"], 86_000));
    assert_eq!((stage.backends(), stage.stale_since()), (vec!["a (10.0.0.2:1)".to_owned()], None));
    // There has never been an IPv6 address: that it cannot be asked for leaves nothing stale, and no hurry.
    stage.answer("AAAA a", REFUSED);
    assert_eq!((stage.stale_since(), stage.troubles()), (None, vec!["AAAA a".to_owned()]));
    assert_eq!(stage.next_ask("AAAA a"), secs(3_600));
    stage.answer("AAAA a", nxdomain(None));
    assert_eq!((stage.stale_since(), stage.troubles()), (None, vec![]));
}

#[test]
fn additional_addresses_that_begin_to_come_end_the_asking() {
    let mut stage = Stage::new(service());
    stage.answer(SRV, targets(&["a:1"], 1));
    stage.answer("A a", addresses(&["10.0.0.1"], 10));
    stage.next_ask(SRV);
    stage.answer(SRV, targets_with(&["a:1"], &[("a", "10.0.0.2")], 86_000));
    assert_eq!(
        (stage.cancelled.as_slice(), stage.backends()),
        (&["AAAA a".to_owned()][..], vec!["a (10.0.0.2:1)".into()])
    );
    assert!(stage.resolution().complete);
    stage.newly_asked();
    stage.next_ask(SRV);
    assert_eq!(stage.newly_asked(), [SRV], "not even after the 10 s");
}

/// Else they would grow old for as long as SRV stays in trouble.
#[test]
fn additional_addresses_are_asked_for_while_srv_is_in_trouble() {
    let mut stage = Stage::new(service_v4());
    stage.answer(SRV, targets_with(&["a:1", "b:1"], &SERVICE, 50));
    stage.next_ask(SRV);
    stage.exhaust(SRV, 2);
    assert_eq!(stage.asking(), ["A a", "A b"]);
    stage.answer("A a", addresses(&["10.0.0.7"], 86_000));
    stage.answer("A b", REFUSED);
    assert_eq!(stage.backends(), ["a (10.0.0.7:1)", "b (10.0.0.2:1)"]);
    stage.next_ask(SRV);
    stage.answer(SRV, targets_with(&["a:1", "b:1"], &SERVICE, 50));
    assert_eq!(
        (stage.backends(), stage.stale_since()),
        (vec!["a (10.0.0.1:1)".to_owned(), "b (10.0.0.2:1)".into()], None)
    );
    stage.newly_asked();
    assert_eq!((stage.next_ask(SRV), stage.newly_asked()), (secs(50), vec![SRV.to_owned()]), "they come along again");
}

#[test]
fn the_domain_serves_until_there_are_srv_records_and_again_when_they_go() {
    let mut stage = Stage::new(service_v4());
    stage.answer(SRV, nxdomain(Some(10)));
    stage.answer(A, addresses(&["10.0.0.9"], 86_000));
    assert_eq!(stage.backends(), ["svc (10.0.0.9:80)"]);
    assert_eq!(stage.resolution().details[0].via, Via::Domain);
    stage.next_ask(SRV);
    stage.newly_asked();
    stage.answer(SRV, nodata(Some(10)));
    stage.next_ask(SRV);
    assert_eq!((stage.newly_asked(), stage.published), (vec![SRV.to_owned()], 1), "nothing has changed");
    stage.answer(SRV, targets(&["a:1"], 10));
    assert_eq!(stage.backends(), ["svc (10.0.0.9:80)"], "until the target was asked for");
    stage.answer("A a", addresses(&["10.0.0.1"], 86_000));
    assert_eq!(stage.backends(), ["a (10.0.0.1:1)"]);
    stage.next_ask(SRV);
    stage.answer(SRV, nodata(Some(10)));
    assert_eq!((stage.asking(), stage.backends()), (vec![A], vec!["a (10.0.0.1:1)".to_owned()]));
    stage.answer(A, REFUSED);
    assert_eq!((stage.backends(), stage.stale_since()), (vec!["a (10.0.0.1:1)".to_owned()], Some(secs(30))));
    assert_eq!(stage.troubles(), [SRV, A], "what the last of it came from is gone, and there is nothing new");
    stage.next_ask(A);
    stage.answer(A, addresses(&["10.0.0.9"], 86_000));
    assert_eq!((stage.backends(), stage.stale_since()), (vec!["svc (10.0.0.9:80)".to_owned()], None));
}

/// The domain itself may be a target; what is known of it is not asked for twice.
#[test]
fn a_target_that_is_the_domain_is_known_already() {
    let mut stage = Stage::new(service_v4());
    stage.answer(SRV, nxdomain(Some(10)));
    stage.answer(A, addresses(&["10.0.0.9"], 86_000));
    stage.next_ask(SRV);
    stage.answer(SRV, targets(&["svc:7"], 10));
    assert_eq!((stage.asking(), stage.backends()), (vec![], vec!["svc (10.0.0.9:7)".to_owned()]));
    stage.next_ask(SRV);
    stage.answer(SRV, targets_with(&["svc:7"], &[("svc", "10.0.0.9")], 10));
    stage.next_ask(SRV);
    stage.answer(SRV, nodata(None));
    assert_eq!((stage.asking(), stage.backends()), (vec![A], vec!["svc (10.0.0.9:80)".to_owned()]), "given no more");
}

#[test]
fn a_new_list_replaces_the_old_one_whole() {
    let mut stage = two_targets();
    stage.next_ask(SRV);
    stage.answer(SRV, targets(&["c:1", "d:1"], 200));
    stage.answer("A c", addresses(&["10.0.0.3"], 86_000));
    stage.pass(ms(999));
    assert_eq!((stage.backends().len(), stage.backends()[0].as_str()), (2, "a (10.0.0.1:1)"), "`d` has not been tried");
    stage.answer("A d", addresses(&["10.0.0.4"], 86_000));
    assert_eq!((stage.backends(), stage.published), (vec!["c (10.0.0.3:1)".to_owned(), "d (10.0.0.4:1)".into()], 2));
}

/// The policy's first `dns` timeout; not that of `dns_srv`.
#[test]
fn a_silent_target_holds_up_the_others_for_one_timeout_at_most() {
    let mut stage = two_targets();
    stage.next_ask(SRV);
    stage.answer(SRV, targets(&["b:1", "c:1", "d:1"], 200));
    stage.pass(ms(300));
    stage.answer("A c", addresses(&["10.0.0.3"], 86_000));
    stage.pass(ms(699));
    assert_eq!(stage.published, 1);
    stage.pass(ms(1));
    assert_eq!((stage.published, stage.backends()), (2, vec!["b (10.0.0.2:1)".to_owned(), "c (10.0.0.3:1)".into()]));
    assert!(!stage.resolution().complete && stage.is_asking("A d"));
    stage.answer("A d", SERVFAIL);
    assert_eq!(stage.published, 3, "it has been tried: that is all there is for now");
    assert!(stage.resolution().complete);
}

/// Each list has another silent target, before the silence of the last was long enough.
#[test]
fn silent_targets_that_keep_changing_hold_up_the_others_for_one_timeout_at_most() {
    let mut stage = Stage::new(Options { min_ttl: ms(300), ..service_v4() });
    for round in 0..4 {
        stage.next_ask(SRV);
        let silent = format!("silent-{round}:1");
        stage.answer(SRV, targets_with(&["a:1", "b:1", &silent], &SERVICE, 0));
        assert_eq!(stage.published, 0, "in round {round}");
    }
    stage.pass(ms(100));
    assert_eq!((stage.now - stage.start, stage.backends().len()), (secs(1), 2));
}

#[test]
fn an_attempt_that_failed_holds_up_nothing() {
    let mut stage = two_targets();
    stage.next_ask(SRV);
    stage.answer(SRV, targets(&["a:1", "c:1"], 200));
    assert_eq!((stage.backends().len(), stage.published), (2, 1));
    stage.answer("A c", SERVFAIL);
    assert_eq!((stage.backends(), stage.published), (vec!["a (10.0.0.1:1)".to_owned()], 2));
    stage.next_ask("A c");
    stage.answer("A c", addresses(&["10.0.0.3"], 86_000));
    assert_eq!(stage.backends(), ["a (10.0.0.1:1)", "c (10.0.0.3:1)"]);
}

#[test]
fn targets_that_cannot_be_asked_for_do_not_empty_the_set() {
    let mut stage = two_targets();
    stage.next_ask(SRV);
    stage.answer(SRV, targets(&["c:1"], 200));
    stage.pass(secs(2));
    assert_eq!((stage.backends().len(), stage.stale_since()), (2, Some(secs(201))), "kept, and said to be so");
    stage.answer("A c", nxdomain(Some(50)));
    assert_eq!((stage.backends().len(), stage.resolution().state), (2, State::Running));
    assert_eq!((stage.stale_since(), stage.troubles()), (Some(secs(201)), vec!["A c".to_owned()]));
    assert_eq!(stage.resolution().details.len(), 2);
    stage.next_ask("A c");
    stage.answer("A c", addresses(&["10.0.0.3"], 86_000));
    assert_eq!((stage.backends(), stage.stale_since()), (vec!["c (10.0.0.3:1)".to_owned()], None));
}

#[test]
fn the_set_is_stale_since_the_first_of_its_troubles_that_lasts() {
    let mut stage = both_names_due();
    stage.answer("A a", REFUSED);
    stage.pass(secs(5));
    stage.answer("A b", REFUSED);
    assert_eq!((stage.stale_since(), stage.troubles()), (Some(secs(10)), vec!["A a".to_owned(), "A b".into()]));
    stage.next_ask("A a");
    stage.answer("A a", addresses(&["10.0.0.1"], 500));
    assert_eq!((stage.stale_since(), stage.troubles()), (Some(secs(15)), vec!["A b".to_owned()]));
    stage.next_ask("A b");
    stage.answer("A b", addresses(&["10.0.0.2"], 500));
    assert_eq!((stage.stale_since(), stage.troubles(), stage.backends().len()), (None, vec![], 2));
}

/// Two targets; the addresses of both were good for 10 s and are asked for again.
fn both_names_due() -> Stage {
    let mut stage = Stage::new(service_v4());
    stage.answer(SRV, targets(&["a:1", "b:1"], 86_000));
    for (name, address) in SERVICE {
        stage.answer(&format!("A {name}"), addresses(&[address], 10));
    }
    stage.next_ask("A b");
    stage
}

#[test]
fn a_target_in_trouble_keeps_its_addresses_beside_one_that_answers() {
    let mut stage = both_names_due();
    stage.answer("A a", addresses(&["10.0.0.7"], 10));
    stage.exhaust("A b", 3);
    assert_eq!(stage.backends(), ["a (10.0.0.7:1)", "b (10.0.0.2:1)"]);
    stage.next_ask(SRV);
    stage.answer(SRV, targets(&["a:1"], 86_000));
    assert_eq!(
        (stage.backends(), stage.stale_since()),
        (vec!["a (10.0.0.7:1)".to_owned()], None),
        "gone with its target"
    );
}

#[test]
fn where_ipv6_is_of_no_use_nobody_asks_for_it() {
    let mut stage = Stage::new(service_v4());
    stage.answer(SRV, targets_with(&["a:1", "b:1"], &[("a", "10.0.0.1"), ("a", "::1"), ("b", "::2")], 50));
    assert_eq!(stage.asking(), ["A b"], "an address of no use saves nothing");
    stage.answer("A b", nodata(None));
    assert_eq!((stage.backends(), stage.troubles()), (vec!["a (10.0.0.1:1)".to_owned()], vec!["A b".to_owned()]));
}

#[test]
fn ipv6_that_is_of_use_again_is_asked_for() {
    let mut stage = Stage::new(service_v4());
    stage.answer(SRV, targets_with(&["a:1", "b:1"], &[("a", "10.0.0.1"), ("a", "::1")], 5_000));
    stage.answer("A b", addresses(&["10.0.0.2"], 5_000));
    stage.ipv6(true);
    assert_eq!(stage.asking(), ["AAAA a", "AAAA b"], "also of those whose addresses came along");
    stage.ipv6(true);
    stage.answer("AAAA a", addresses(&["::1"], 5_000));
    stage.answer("AAAA b", addresses(&["::2"], 5_000));
    assert_eq!(stage.backends(), ["a ([::1]:1)", "a (10.0.0.1:1)", "b ([::2]:1)", "b (10.0.0.2:1)"]);
}

#[test]
fn ipv6_that_is_of_no_use_any_more_goes() {
    let mut stage = Stage::new(service());
    stage.answer(SRV, targets_with(&["a:1", "b:1", "c:1"], &[("a", "10.0.0.1"), ("a", "::1")], 5_000));
    stage.answer("A b", addresses(&["10.0.0.2"], 5_000));
    stage.answer("AAAA b", addresses(&["::2"], 5_000));
    stage.answer("A c", addresses(&["10.0.0.3"], 5_000));
    stage.ipv6(false);
    assert_eq!(stage.cancelled, ["AAAA c"]);
    assert_eq!(stage.backends(), ["a (10.0.0.1:1)", "b (10.0.0.2:1)", "c (10.0.0.3:1)"]);
    assert!(stage.resolution().complete);
    stage.pass(secs(4_999));
    assert_eq!(stage.asking(), [""; 0]);

    let mut stage = Stage::new(options());
    stage.answer(A, nodata(None));
    stage.answer(AAAA, addresses(&["::1"], 10));
    stage.ipv6(false);
    assert_eq!((stage.backends().len(), stage.stale_since()), (1, Some(secs(0))), "but not the last of it");
}

#[test]
fn the_trouble_of_ipv6_ends_with_its_use() {
    let mut stage = Stage::new(options());
    stage.answer(A, addresses(&["10.0.0.1"], 86_000));
    stage.answer(AAAA, REFUSED);
    assert_eq!(stage.troubles(), [AAAA]);
    stage.ipv6(false);
    assert_eq!((stage.troubles(), stage.published), (vec![], 2));
    stage.restored();
    assert_eq!(stage.asking(), [""; 0], "nor is it asked for when nameservers are back");
}
