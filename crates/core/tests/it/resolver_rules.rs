//! How the resolver asks and when it has something to say: waits, duplicates, order, bounds, states. Each test is named for its
//! rule. What each single answer leads to is in `resolver_answers.rs`, how a set changes in `resolver_changes.rs`.

use crate::resolver_stage::*;
use carom_core::recovery::Recovery;
use carom_core::resolver::{Options, State};
use std::collections::BTreeMap;

#[test]
fn a_ttl_of_zero_does_not_spin() {
    let mut stage = Stage::new(service_v4());
    for _ in 0..5 {
        stage.answer(SRV, targets_with(&["a:1"], &SERVICE, 0));
        assert_eq!(stage.next_ask(SRV), secs(1));
    }
    let mut stage = Stage::new(Options { min_ttl: secs(5), ..domain_v4() });
    for answer in [addresses(&["10.0.0.1"], 0), nodata(Some(0)), nxdomain(Some(4)), addresses(&["10.0.0.1"], 5)] {
        stage.answer(A, answer);
        assert_eq!(stage.next_ask(A), secs(5));
    }
    stage.answer(A, addresses(&["10.0.0.1"], 0));
    stage.next_ask(A);
    stage.answer(A, REFUSED);
    assert_eq!(stage.next_ask(A), secs(5), "and not in trouble either");
}

#[test]
fn a_ttl_without_end_is_cut_off() {
    let mut stage = Stage::new(Options { max_ttl: secs(50), ..service_v4() });
    for answer in [targets_with(&["a:1"], &SERVICE, 4_000_000_000), nodata(Some(4_000_000_000)), NOTIMP] {
        stage.answer(SRV, answer);
        assert_eq!(stage.next_ask(SRV), secs(50));
    }
    let mut stage = Stage::new(domain_v4());
    stage.answer(A, addresses(&["10.0.0.1"], u64::MAX));
    assert_eq!(stage.next_ask(A), secs(86_400), "a day, when nothing is said");
}

/// Forward only, by up to `spread` of the kind's own policy.
#[test]
fn waits_are_spread_forward() {
    let recovery = Recovery::default().dns(policy().spread(0.2)).dns_srv(srv_policy().spread(0.6));
    let (mut srv, mut a) = (Vec::new(), Vec::new());
    for seed in 0..200 {
        let mut stage = Stage::seeded(Options { recovery: recovery.clone(), ..service_v4() }, seed);
        stage.answer(SRV, targets(&["a:1"], 100));
        stage.answer("A a", addresses(&["10.0.0.1"], 1_000));
        srv.push(stage.next_ask(SRV));
        a.push(stage.now + stage.next_ask("A a") - stage.start);
    }
    for (waits, base, spread) in [(srv, secs(100), secs(60)), (a, secs(1_000), secs(200))] {
        let (least, most) = (*waits.iter().min().unwrap(), *waits.iter().max().unwrap());
        assert!(least >= base && most <= base + spread, "{least:?} {most:?}");
        assert!(least < base + spread / 10 && most > base + spread * 9 / 10, "{least:?} {most:?}");
    }
}

#[test]
fn duplicates_collapse() {
    let mut stage = Stage::new(service_v4());
    stage.answer(SRV, targets(&["a:1/5/1", "a:2", "a:1/3/9", "a:1/3/7", "a:1/3/9"], 50));
    assert_eq!(stage.asking(), ["A a"]);
    stage.answer("A a", addresses(&["10.0.0.1", "10.0.0.2", "10.0.0.1"], 50));
    let all = ["a (10.0.0.1:2)", "a (10.0.0.2:2)", "a (10.0.0.1:1)", "a (10.0.0.2:1)"];
    assert_eq!(stage.backends(), all, "two ports are two places");
    let figures: Vec<_> = stage.resolution().backends.iter().map(|one| (one.priority(), one.weight())).collect();
    assert_eq!(figures, [(0, 0), (0, 0), (3, 7), (3, 7)], "once, at its best priority");
    let mut stage = Stage::new(service_v4());
    stage.answer(SRV, targets_with(&["a:1"], &[("a", "10.0.0.1"), ("a", "10.0.0.1")], 50));
    assert_eq!(stage.backends(), ["a (10.0.0.1:1)"]);
}

#[test]
fn backends_come_by_priority_and_a_change_of_weight_or_priority_alone_is_published() {
    let mut stage = Stage::new(service_v4());
    let said = |stage: &mut Stage, list: &[&str], published: usize| -> Vec<String> {
        stage.answer(SRV, targets_with(list, &SERVICE, 50));
        stage.next_ask(SRV);
        assert_eq!(stage.published, published);
        let backends = stage.resolution().backends.iter();
        backends.map(|one| format!("{} {} {}", one.name(), one.priority(), one.weight())).collect()
    };
    assert_eq!(said(&mut stage, &["a:1/20/1", "b:1/10/1"], 1), ["b 10 1", "a 20 1"]);
    assert_eq!(said(&mut stage, &["b:1/10/1", "a:1/20/1"], 1), ["b 10 1", "a 20 1"], "the order says nothing");
    assert_eq!(said(&mut stage, &["a:1/20/1", "b:1/10/7"], 2), ["b 10 7", "a 20 1"]);
    assert_eq!(said(&mut stage, &["a:1/10/1", "b:1/10/7"], 3), ["a 10 1", "b 10 7"]);
}

#[test]
fn answers_that_say_the_same_publish_nothing() {
    let mut stage = Stage::new(service());
    for round in 0..5 {
        stage.next_ask(SRV);
        stage.answer(SRV, targets(&["a:1"], 100));
        stage.next_ask("A a");
        stage.answer("AAAA a", nodata(Some(100)));
        stage.answer("A a", addresses(&["10.0.0.1"], 100 + round));
        assert_eq!(stage.published, 1);
        stage.pass(secs(110));
    }
    let list = stage.resolution().backends.clone();
    stage.answer(SRV, REFUSED);
    assert_eq!(stage.published, 2, "trouble is said");
    assert!(std::sync::Arc::ptr_eq(&list, &stage.resolution().backends), "of the same list");
    stage.next_ask(SRV);
    stage.answer(SRV, REFUSED);
    assert_eq!(stage.published, 3, "each time, as the cause may be another");
}

#[test]
fn what_was_in_trouble_is_asked_at_once_when_nameservers_are_back() {
    let mut stage = Stage::new(service_v4());
    stage.answer(SRV, targets(&["a:1", "b:1", "c:1", "d:1"], 200));
    stage.answer("A a", REFUSED);
    stage.answer("A b", SERVFAIL);
    stage.answer("A c", addresses(&["10.0.0.3"], 86_000));
    stage.answer("A d", nxdomain(Some(86_000)));
    stage.newly_asked();
    stage.restored();
    assert_eq!(stage.newly_asked(), ["A a", "A b"], "the rest need no help");
    assert_eq!(stage.ask("A b").1, ms(1_000), "with all attempts still to be made");
    stage.restored();
    assert_eq!(stage.newly_asked(), [""; 0], "once");
    stage.answer("A a", addresses(&["10.0.0.1"], 86_000));
    stage.pass(secs(60));
    assert_eq!(stage.newly_asked(), [""; 0], "what was waiting to be asked again is not");
}

/// It may have been lost, so its failure is the first of a round and not the last, after which there is a long rest.
#[test]
fn a_question_under_way_when_nameservers_are_back_has_all_its_attempts_again() {
    let mut stage = Stage::new(domain_v4());
    for _ in 0..2 {
        stage.answer(A, SERVFAIL);
        stage.next_ask(A);
    }
    stage.restored();
    assert_eq!(stage.asking(), [A], "it is not asked twice");
    stage.answer(A, SERVFAIL);
    assert_eq!(stage.next_ask(A), ms(100));
    assert_eq!(stage.resolution().state, State::Starting);
}

#[test]
fn a_question_nobody_wants_is_cancelled_and_its_answer_ignored() {
    let mut stage = two_targets();
    stage.next_ask(SRV);
    stage.answer(SRV, targets(&["c:1", "b:1"], 200));
    let (late, _) = stage.ask("A c");
    stage.next_ask(SRV);
    stage.answer(SRV, targets(&["b:1", "d:1"], 200));
    assert_eq!(stage.cancelled, ["A c"]);
    let published = stage.published;
    stage.machine.handle_answer(stage.now, late, addresses(&["10.0.0.3"], 1));
    stage.collect();
    assert_eq!((stage.published, stage.asking()), (published, vec!["A d"]));
    stage.answer("A d", addresses(&["10.0.0.4"], 86_000));
    assert_eq!(stage.backends(), ["b (10.0.0.2:1)", "d (10.0.0.4:1)"]);
    stage.newly_asked();
    stage.pass(secs(199));
    assert_eq!(stage.newly_asked(), [""; 0], "those who are gone are not asked for");
}

#[test]
fn an_answer_that_comes_twice_counts_once() {
    let mut stage = Stage::new(domain_v4());
    let (id, _) = stage.ask(A);
    stage.answer(A, addresses(&["10.0.0.1"], 10));
    stage.machine.handle_answer(stage.now, id, addresses(&["10.0.0.2"], 90));
    stage.machine.handle_answer(stage.now, id, SERVFAIL);
    stage.collect();
    assert_eq!((stage.published, stage.backends()), (1, vec!["svc (10.0.0.1:80)".to_owned()]));
    assert_eq!(stage.next_ask(A), secs(10));
    stage.machine.handle_answer(stage.now, id, addresses(&["10.0.0.2"], 90));
    assert!(stage.machine.poll_action().is_none(), "nor is it taken for the next one");
}

#[test]
fn questions_under_way_are_bounded_and_srv_goes_first() {
    let mut stage = Stage::new(Options { concurrency: 2, ..service_v4() });
    stage.answer(SRV, targets(&["a:1", "b:1", "c:1", "d:1"], 1));
    assert_eq!(stage.asking(), ["A a", "A b"]);
    stage.answer("A b", addresses(&["10.0.0.2"], 86_000));
    assert_eq!(stage.asking(), ["A a", "A c"]);
    stage.pass(secs(1));
    assert_eq!(stage.asking(), ["A a", "A c"]);
    stage.answer("A a", REFUSED);
    assert_eq!(stage.asking(), ["A c", SRV], "before those who have waited longer");
    stage.answer(SRV, targets(&["b:1", "e:1"], 86_000));
    assert_eq!((stage.asking(), stage.cancelled.clone()), (vec!["A e"], vec!["A c".to_owned()]), "`d` waits no more");
    assert_eq!(stage.published, 1, "`a` or `b` were held up for a second");
}

#[test]
fn it_starts_fails_runs_and_stays_running() {
    let mut stage = Stage::new(options());
    assert_eq!((stage.resolution().state, stage.resolution().complete), (State::Starting, false));
    stage.answer(AAAA, nodata(None));
    assert_eq!((stage.resolution().state, stage.published), (State::Starting, 0));
    stage.exhaust(A, 3);
    assert_eq!((stage.resolution().state, stage.backends().len()), (State::Failed, 0));
    assert_eq!((stage.troubles(), stage.stale_since()), (vec![AAAA.to_owned(), A.to_owned()], None));
    stage.next_ask(A);
    assert_eq!(stage.resolution().state, State::Failed, "until it succeeds");
    stage.answer(A, addresses(&["10.0.0.1"], 10));
    assert_eq!((stage.resolution().state, stage.troubles()), (State::Running, vec![]));
    stage.next_ask(A);
    stage.answer(A, nxdomain(None));
    assert_eq!((stage.resolution().state, stage.backends().len()), (State::Running, 1));
}

/// With many targets there is always one that is asked for again.
#[test]
fn it_has_failed_when_every_question_has_ended_even_if_never_all_at_a_time() {
    let mut stage = Stage::new(options());
    stage.answer(AAAA, REFUSED);
    assert_eq!(stage.next_ask(AAAA), secs(3));
    assert_eq!(stage.resolution().state, State::Starting, "A is still silent");
    stage.exhaust(A, 3);
    assert_eq!((stage.asking(), stage.resolution().state), (vec![AAAA], State::Failed));
}

#[test]
fn it_is_complete_when_every_question_has_been_tried() {
    let mut stage = Stage::new(service());
    stage.answer(SRV, targets(&["a:1", "b:1"], 86_000));
    stage.answer("A a", addresses(&["10.0.0.1"], 86_000));
    stage.pass(secs(1));
    assert_eq!((stage.backends().len(), stage.resolution().complete), (1, false));
    stage.answer("AAAA a", nodata(None));
    stage.answer("AAAA b", nodata(None));
    stage.pass(secs(1));
    assert!(!stage.resolution().complete);
    stage.answer("A b", SERVFAIL);
    assert!(stage.resolution().complete, "tried, if not answered");
}

#[test]
fn options_that_make_no_sense_are_named() {
    let said = |options: Options| options.validate().unwrap_err().to_string();
    assert!(said(Options { domain: "".into(), ..options() }).contains("domain"));
    assert!(said(Options { concurrency: 0, ..options() }).contains("concurrency"));
    assert!(said(Options { min_ttl: secs(0), ..options() }).contains("min_ttl"));
    assert!(said(Options { max_ttl: ms(999), ..options() }).contains("max_ttl"));
    assert!(said(Options { max_ttl: secs(366 * 86_400), ..options() }).contains("max_ttl"));
    assert!(said(Options { recovery: policy().attempts(0).into(), ..options() }).contains("recovery"));
    assert!(options().validate().is_ok());
}

#[test]
fn silent_questions_leave_room_for_those_that_are_answered() {
    let names: Vec<String> = (0..20).map(|i| format!("silent-{i}:1")).chain(["zz:1".to_owned()]).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut stage = Stage::new(Options { concurrency: 5, ..service_v4() });
    stage.answer(SRV, targets(&names, 86_000));
    let (mut since, mut asked_at) = (BTreeMap::new(), Vec::new());
    for _ in 0..3_000 {
        let asking: Vec<String> = stage.asking().into_iter().map(str::to_owned).collect();
        for question in asking {
            let began = *since.entry(question.clone()).or_insert(stage.now);
            // Everything but one is silent until its time is over; that one is answered at once, and good for 1 s.
            if question == "A zz" {
                asked_at.push(stage.now);
                stage.answer(&question, addresses(&["10.0.0.1"], 1));
            } else if stage.now - began >= stage.ask(&question).1 {
                since.remove(&question);
                stage.answer(&question, SERVFAIL);
            }
        }
        stage.pass(ms(10));
    }
    let waits: Vec<_> = asked_at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.len() > 20 && waits.iter().all(|wait| *wait <= ms(1_030)), "{waits:?}");
}
