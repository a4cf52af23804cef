//! Opening a pool: what is asked of whom, what is believed, and what is kept.

use crate::support::{ms, soon};
use carom_indy::ledger::{Cache, Ledger, Transaction};
use carom_indy::{Genesis, Pool, PoolError};
use serde_json::json;
use std::fs;
use std::sync::{Arc, Mutex};
use testkit::indy::{self, Conduct};
use testkit::temp_dir::TempDir;

/// What was asked of all nodes, by its kind.
fn asked(nodes: &indy::Pool, op: &str) -> usize {
    (0..4).flat_map(|node| nodes.heard(node)).filter(|asked| asked["op"] == op).count()
}

#[tokio::test]
async fn what_is_missing_is_fetched_in_steps_and_kept() {
    let (nodes, folder) = (indy::Pool::start(4).await.unwrap(), TempDir::new());
    // Slow enough that nobody has what it wants before everybody was asked.
    nodes.conduct_all(Conduct::Slow(ms(200)));
    nodes.grow(120);
    let steps = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&steps);
    let progress = move |at, of| noted.lock().unwrap().push((at, of));
    let pool =
        soon(Pool::open(nodes.genesis()).cache(folder.join("cache")).progress(progress).into_future()).await.unwrap();
    assert_eq!((pool.head().size, pool.nodes().len()), (124, 4));
    assert_eq!(*steps.lock().unwrap(), [(4, 124), (54, 124), (104, 124), (124, 124)]);
    assert_eq!((asked(&nodes, "LEDGER_STATUS"), asked(&nodes, "CATCHUP_REQ")), (4, 3));

    // The next one has it already, and asks for what is new alone.
    let again = soon(Pool::open(nodes.genesis()).cache(folder.join("cache")).into_future()).await.unwrap();
    assert_eq!((again.head(), asked(&nodes, "CATCHUP_REQ")), (pool.head(), 3));
    nodes.grow(1);
    assert_eq!(soon(again.refresh()).await.unwrap(), 1);
    assert_eq!(soon(again.refresh()).await.unwrap(), 0);
    let last = nodes.heard(0).into_iter().chain((1..4).flat_map(|node| nodes.heard(node)));
    let last: Vec<_> = last.filter(|asked| asked["seqNoStart"] == 125).collect();
    assert_eq!(last.len(), 1);
    assert_eq!(soon(pool.refresh()).await.unwrap(), 1, "the other learns of it when it asks");
}

#[tokio::test]
async fn one_of_four_may_lie_be_mute_or_be_gone() {
    for conduct in [Conduct::Lying, Conduct::Mute, Conduct::Lacking, Conduct::Says("{}".into()), Conduct::Disconnects] {
        let nodes = indy::Pool::start(4).await.unwrap();
        nodes.grow(10);
        nodes.conduct(1, conduct.clone());
        let opening = Pool::open(nodes.genesis()).ack_timeout(ms(1_500)).preferred(["Node2"]);
        let pool = soon(opening.into_future()).await.unwrap_or_else(|error| panic!("{conduct:?}: {error}"));
        assert_eq!(pool.head().size, 14, "{conduct:?}");
    }
    let nodes = indy::Pool::start(4).await.unwrap();
    nodes.stop(1).await;
    soon(Pool::open(nodes.genesis()).preferred(["Node2"]).into_future()).await.unwrap();
}

#[tokio::test]
async fn answers_in_parts_and_answers_given_twice_are_taken() {
    for conduct in [Conduct::Splitting(7), Conduct::Splitting(1), Conduct::Twice] {
        let nodes = indy::Pool::start(4).await.unwrap();
        nodes.grow(30);
        nodes.conduct_all(conduct.clone());
        let pool = soon(Pool::open(nodes.genesis()).into_future()).await.unwrap();
        assert_eq!(pool.head().size, 34, "{conduct:?}");
    }
}

#[tokio::test]
async fn parts_that_travel_apart_are_taken_from_the_only_node_there_is() {
    for most in [5, 13] {
        let nodes = indy::Pool::start(1).await.unwrap();
        nodes.grow(60);
        nodes.conduct_all(Conduct::SplittingSlowly(most, ms(20)));
        let pool = soon(Pool::open(nodes.genesis()).into_future()).await.unwrap();
        assert_eq!(pool.head().size, 61, "in parts of {most}");
    }
}

#[tokio::test]
async fn a_mute_node_is_not_asked_for_every_step_of_catching_up() {
    let nodes = indy::Pool::start(4).await.unwrap();
    nodes.grow(600);
    nodes.conduct(1, Conduct::Mute);
    let pool = soon(Pool::open(nodes.genesis()).preferred(["Node2"]).into_future()).await.unwrap();
    assert_eq!(pool.head().size, 604);
    let asked_of = |node: usize| nodes.heard(node).iter().filter(|asked| asked["op"] == "CATCHUP_REQ").count();
    assert_eq!(asked_of(1), 0, "it did not say that it has them");
    assert_eq!((0..4).map(asked_of).max(), Some(12), "one that gives is asked again");
}

#[tokio::test]
async fn who_stops_giving_transactions_is_followed_by_one_who_goes_on() {
    let nodes = Arc::new(indy::Pool::start(4).await.unwrap());
    nodes.grow(300);
    let asked_of =
        |nodes: &indy::Pool, node: usize| nodes.heard(node).iter().filter(|asked| asked["op"] == "CATCHUP_REQ").count();
    let watched = Arc::clone(&nodes);
    let progress = move |at: u64, _: u64| {
        if at == 104 {
            let giver = (0..4).find(|node| asked_of(&watched, *node) > 0).unwrap();
            watched.conduct(giver, Conduct::Mute);
        }
    };
    let opening = Pool::open(nodes.genesis()).ack_timeout(ms(1_500)).progress(progress);
    assert_eq!(soon(opening.into_future()).await.unwrap().head().size, 304);
    let mut counts: Vec<_> = (0..4).map(|node| asked_of(&nodes, node)).collect();
    counts.sort_unstable();
    assert_eq!(counts, [0, 0, 3, 4], "two steps from the first, and a third in vain");
}

#[tokio::test]
async fn nodes_that_do_not_agree_or_say_nothing_are_an_error_that_names_them() {
    let nodes = indy::Pool::start(4).await.unwrap();
    for node in 0..3 {
        nodes.conduct(node, Conduct::Mute);
    }
    let error = soon(Pool::open(nodes.genesis()).ack_timeout(ms(1_500)).into_future()).await.unwrap_err();
    let PoolError::NoAgreement(source) = &error else { panic!("{error}") };
    let text = source.to_string();
    assert!(text.contains("Node1: silent for 1.5s") && text.contains("Node4: answered"), "{text}");
    for node in 0..4 {
        nodes.conduct(node, Conduct::Honest);
        nodes.append_at(node, json!({"txn": {"type": "1", "of": node}}));
    }
    let error = soon(Pool::open(nodes.genesis()).into_future()).await.unwrap_err();
    assert!(matches!(error, PoolError::NoAgreement(_)), "{error}");
}

#[tokio::test]
async fn why_a_ledger_is_not_up_to_date_is_told_apart() {
    let nodes = indy::Pool::start(4).await.unwrap();
    let pool = soon(Pool::open(nodes.genesis()).ack_timeout(ms(1_500)).into_future()).await.unwrap();
    nodes.conduct_all(Conduct::Mute);
    let silent = soon(pool.refresh()).await.unwrap_err();
    assert!(matches!(silent, PoolError::TimedOut(_)), "{silent}");
    for node in 0..4 {
        nodes.stop(node).await;
    }
    let refused = soon(pool.refresh()).await.unwrap_err();
    assert!(matches!(refused, PoolError::Disconnected(_)), "{refused}");
    pool.close();
    let closed = soon(pool.refresh()).await.unwrap_err();
    assert!(matches!(closed, PoolError::Closed), "{closed}");
}

#[tokio::test]
async fn nodes_that_hide_what_they_agreed_on_are_told_by_range() {
    let nodes = indy::Pool::start(4).await.unwrap();
    nodes.grow(3);
    nodes.conduct_all(Conduct::Lacking);
    let error = soon(Pool::open(nodes.genesis()).into_future()).await.unwrap_err();
    assert_eq!(error.to_string(), "nobody gave transactions 5 to 7");
    let PoolError::NoTransactions { accounts, .. } = error else { panic!("{error}") };
    let mut names: Vec<_> = accounts.iter().map(|account| &*account.node).collect();
    names.sort_unstable();
    assert_eq!(names, ["Node1", "Node2", "Node3", "Node4"]);
}

#[tokio::test]
async fn a_cache_that_conflicts_with_the_pool_falls_back_to_the_genesis_once() {
    let (nodes, folder) = (indy::Pool::start(4).await.unwrap(), TempDir::new());
    let genesis = Genesis::parse(&nodes.genesis()).unwrap();
    let mut other: Ledger = genesis.ledger();
    other.append(Transaction::new(json!({"txn": {"type": "1"}, "txnMetadata": {"seqNo": 5}})).unwrap());
    let cache = Cache::new(folder.join("cache"), genesis.ledger().head());
    cache.write(&other).unwrap();
    nodes.conduct_all(Conduct::Slow(ms(200)));
    nodes.grow(5);
    let pool = soon(Pool::open(nodes.genesis()).cache(folder.join("cache")).into_future()).await.unwrap();
    assert_eq!(pool.head().size, 9);
    assert_eq!(cache.read().unwrap().unwrap(), *pool.ledger(), "and what is right is kept");
    assert_eq!(asked(&nodes, "LEDGER_STATUS"), 8);
}

#[tokio::test]
async fn a_torn_cache_is_used_as_far_as_it_goes_and_a_foreign_one_not_at_all() {
    let (nodes, folder) = (indy::Pool::start(4).await.unwrap(), TempDir::new());
    nodes.grow(5);
    let pool = soon(Pool::open(nodes.genesis()).cache(folder.join("cache")).into_future()).await.unwrap();
    let path = fs::read_dir(folder.join("cache")).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 3]).unwrap();
    let again = soon(Pool::open(nodes.genesis()).cache(folder.join("cache")).into_future()).await.unwrap();
    assert_eq!(again.head(), pool.head());
    let starts: Vec<_> =
        (0..4).flat_map(|node| nodes.heard(node)).filter_map(|asked| asked["seqNoStart"].as_u64()).collect();
    assert!(starts.contains(&9), "the last one alone is asked for: {starts:?}");
    assert_eq!(fs::read(&path).unwrap(), whole);
    fs::write(&path, "my diary").unwrap();
    soon(Pool::open(nodes.genesis()).cache(folder.join("cache")).into_future()).await.unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"my diary");
}

#[tokio::test]
async fn who_leaves_the_ledger_is_not_asked_any_more() {
    let nodes = indy::Pool::start(5).await.unwrap();
    let pool = soon(Pool::open(nodes.genesis()).into_future()).await.unwrap();
    nodes.append(&nodes.removal(4));
    nodes.conduct_all(Conduct::Slow(ms(200)));
    assert_eq!(soon(pool.refresh()).await.unwrap(), 1);
    let names: Vec<_> = pool.nodes().iter().map(|node| node.alias.clone()).collect();
    assert_eq!(names, ["Node1", "Node2", "Node3", "Node4"]);
    let before = nodes.heard(4).len();
    assert_eq!(soon(pool.refresh()).await.unwrap(), 0);
    assert_eq!(nodes.heard(4).len(), before);
}

/// A genesis is the trust anchor: with a line lost, f is smaller than the pool's and one node can be enough to name all others.
#[tokio::test]
async fn a_damaged_genesis_is_an_error_before_any_request_and_leaves_no_cache() {
    let nodes = indy::Pool::start(4).await.unwrap();
    nodes.grow(2);
    let genesis = nodes.genesis();
    let lines: Vec<&str> = genesis.lines().collect();
    let with = |number: usize, line: &str| {
        let mut lines = lines.clone();
        lines[number] = line;
        lines.join("\n")
    };
    let unnumbered = lines[3].replace("\"seqNo\":4,", "");
    for (damaged, problem) in [
        (genesis[..genesis.len() - 10].to_owned(), "line 4: not JSON: EOF while parsing"),
        (genesis[..genesis.rfind('{').unwrap()].to_owned(), "line 4: not JSON: EOF while parsing"),
        (with(1, "{not json"), "line 2: not JSON: "),
        (with(1, "{}"), "line 2: not a transaction of protocol version 2: it has no \"txn\""),
        (with(1, "42"), "line 2: not a transaction"),
        (with(1, r#"{"txn":{}}"#), "line 2: not a transaction of protocol version 2: it has no \"type\""),
        (lines[1..].join("\n"), "line 1: its seqNo is 2, and 1 is due"),
        ([lines[0], lines[1], lines[3]].join("\n"), "line 3: its seqNo is 4, and 3 is due"),
        (with(1, lines[0]), "line 2: its seqNo is 1, and 2 is due"),
        (with(3, &unnumbered), "line 4: it has no seqNo, and 4 is due"),
        (genesis.replace("VALIDATOR", "OBSERVER"), "names no validator"),
        (String::new(), "holds no transactions"),
    ] {
        let folder = TempDir::new();
        let error = soon(Pool::open(&*damaged).cache(folder.join("cache")).into_future()).await.unwrap_err();
        assert!(matches!(error, PoolError::Genesis(_)), "{error}");
        assert!(error.to_string().contains(problem), "{problem}: {error}");
        assert!(!folder.join("cache").exists(), "{problem}: there is a cache");
    }
    assert!((0..4).all(|node| nodes.accepted(node) == 0), "a node was asked");
}

/// What a cache says beyond the genesis names the nodes, too.
#[tokio::test]
async fn a_cached_ledger_with_a_bad_transaction_or_a_gap_is_not_used() {
    let (nodes, folder) = (indy::Pool::start(4).await.unwrap(), TempDir::new());
    nodes.grow(3);
    let genesis = Genesis::parse(&nodes.genesis()).unwrap();
    let cache = genesis.cache(folder.join("cache"));
    let numbered = |number: u64| json!({"txn": {"type": "1"}, "txnMetadata": {"seqNo": number}});
    for bad in [json!({"never": "written"}), json!({"txn": {"type": "1"}}), numbered(6), numbered(4)] {
        let mut ledger = genesis.ledger();
        ledger.append(Transaction::new(&bad).unwrap());
        cache.write(&ledger).unwrap();
        let heard: Vec<_> = (0..4).map(|node| nodes.heard(node).len()).collect();
        let pool = soon(Pool::open(nodes.genesis()).cache(folder.join("cache")).into_future()).await.unwrap();
        assert_eq!(pool.head().size, 7, "{bad}");
        let later = (0..4).flat_map(|node| nodes.heard(node).split_off(heard[node]));
        let sizes: Vec<_> = later.filter_map(|asked| asked["txnSeqNo"].as_u64()).collect();
        assert!(sizes.iter().all(|size| *size == 4), "{bad}: it begins with the genesis: {sizes:?}");
        assert_eq!(cache.read().unwrap().as_ref(), Some(&*pool.ledger()), "{bad}: and is replaced");
    }
}

#[tokio::test]
async fn nodes_that_lag_behind_take_nothing_back() {
    let (nodes, folder) = (indy::Pool::start(4).await.unwrap(), TempDir::new());
    nodes.grow(5);
    // Two of four are one ahead, which is enough to agree; so are the others on what they have.
    (0..2).for_each(|node| nodes.append_at(node, json!({"txn": {"type": "1", "of": "late"}})));
    let lag = |behind: bool| {
        (0..2).for_each(|node| nodes.conduct(node, if behind { Conduct::Mute } else { Conduct::Honest }));
        (2..4).for_each(|node| nodes.conduct(node, if behind { Conduct::Honest } else { Conduct::Mute }));
    };
    let open = || soon(Pool::open(nodes.genesis()).cache(folder.join("cache")).ack_timeout(ms(1_500)).into_future());
    lag(false);
    let pool = open().await.unwrap();
    assert_eq!(pool.head().size, 10);
    lag(true);
    assert_eq!(soon(pool.refresh()).await.unwrap(), 0);
    assert_eq!(pool.head().size, 10);
    assert_eq!(open().await.unwrap().head(), pool.head());
    let kept = Genesis::parse(&nodes.genesis()).unwrap().cache(folder.join("cache")).read().unwrap();
    assert_eq!(kept.as_ref(), Some(&*pool.ledger()));
}

#[tokio::test]
async fn what_came_before_the_nodes_fell_silent_is_kept() {
    let (nodes, folder) = (Arc::new(indy::Pool::start(4).await.unwrap()), TempDir::new());
    nodes.grow(300);
    let silenced = Arc::clone(&nodes);
    let progress = move |at, _| {
        if at >= 204 {
            silenced.conduct_all(Conduct::Mute);
        }
    };
    let open = || Pool::open(nodes.genesis()).cache(folder.join("cache")).ack_timeout(ms(1_500));
    let error = soon(open().progress(progress).into_future()).await.unwrap_err();
    assert!(matches!(error, PoolError::NoTransactions { .. }), "{error}");
    nodes.conduct_all(Conduct::Honest);
    let heard: Vec<_> = (0..4).map(|node| nodes.heard(node).len()).collect();
    assert_eq!(soon(open().into_future()).await.unwrap().head().size, 304);
    let later = (0..4).flat_map(|node| nodes.heard(node).split_off(heard[node]));
    let starts: Vec<_> = later.filter_map(|asked| asked["seqNoStart"].as_u64()).collect();
    assert!(
        !starts.is_empty() && starts.iter().all(|start| *start > 204),
        "what is there is asked for again: {starts:?}"
    );
}

#[tokio::test]
async fn what_comes_slowly_is_kept_before_the_end() {
    let (nodes, folder) = (indy::Pool::start(4).await.unwrap(), TempDir::new());
    nodes.grow(120);
    nodes.conduct_all(Conduct::Slow(ms(1_100)));
    let cache = Genesis::parse(&nodes.genesis()).unwrap().cache(folder.join("cache"));
    let kept = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&kept);
    let progress = move |at, of| {
        let size = cache.read().unwrap().map_or(0, |ledger| ledger.head().size);
        noted.lock().unwrap().extend((at < of).then_some(size));
    };
    soon(Pool::open(nodes.genesis()).cache(folder.join("cache")).progress(progress).into_future()).await.unwrap();
    let kept = kept.lock().unwrap();
    assert!(kept.iter().any(|size| (5..124).contains(size)), "who is killed then has waited in vain: {kept:?}");
}
