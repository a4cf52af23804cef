//! Leases through their handles, on a register within this process, in time that is not waited for.

use carom_gateway::cluster::{Fence, Fenced, Holder, Lease, LeaseOptions, Memory, MemoryLink, Role};
use std::future::pending;
use std::time::Duration;
use testkit::logs::{Level, Logs};
use tokio::time::{Instant, advance, timeout};

const KEY: &str = "simulated.demo";

/// Longer than anything takes.
const LONG: Duration = Duration::from_secs(60);

fn member(link: &MemoryLink, name: &str) -> Lease {
    Lease::start(link.clone(), KEY, name, LeaseOptions::default()).unwrap()
}

/// Waits until a member is the owner; in which hold, and until when it is for the time being.
async fn owns(lease: &Lease) -> (u64, Instant) {
    let mut roles = lease.roles();
    let role = timeout(LONG, roles.wait_for(|role| matches!(role, Role::Owner { .. }))).await.unwrap().unwrap().clone();
    let Role::Owner { epoch, until } = role else { unreachable!("it was waited for") };
    (epoch, until)
}

async fn follows(lease: &Lease, name: &str) -> u64 {
    let mut roles = lease.roles();
    let is = |role: &Role| matches!(role, Role::Follower { owner, .. } if &**owner == name);
    let Role::Follower { epoch, .. } = timeout(LONG, roles.wait_for(is)).await.unwrap().unwrap().clone() else {
        unreachable!("it was waited for")
    };
    epoch
}

#[tokio::test(start_paused = true)]
async fn one_owns_and_the_others_know_who() {
    let (register, start) = (Memory::default(), Instant::now());
    let one = member(&register.link(), "one");
    assert_eq!(*one.roles().borrow(), Role::Unknown);
    let (epoch, until) = owns(&one).await;
    // The register may have forgotten somebody: it is waited for, with what is left to chance.
    let waited = start.elapsed().as_millis();
    assert!((3_000..=3_110).contains(&waited), "{waited} ms");
    assert_eq!(until - Instant::now(), Duration::from_secs(2));

    let two = member(&register.link(), "two");
    assert_eq!(follows(&two, "one").await, epoch);
    // It goes on for as long as nothing happens.
    let fence = Fence::around(&one.roles()).unwrap();
    assert!(timeout(LONG, fence.fallen()).await.is_err());
    assert_eq!(follows(&two, "one").await, epoch);
}

#[tokio::test(start_paused = true)]
async fn what_is_given_back_is_taken_at_once() {
    let register = Memory::default();
    let (one, two) = (member(&register.link(), "one"), member(&register.link(), "two"));
    let (first, second) = tokio::select! {
        _ = owns(&one) => (one, two),
        _ = owns(&two) => (two, one),
    };
    let (epoch, _) = owns(&first).await;
    let (roles, start) = (first.roles(), Instant::now());
    first.release(start + LONG).await;
    assert_eq!(start.elapsed(), Duration::ZERO, "nothing had to be waited for");
    assert_eq!(*roles.borrow(), Role::Unknown);
    let (later, _) = owns(&second).await;
    assert!(later > epoch);
    assert!(start.elapsed() <= Duration::from_millis(110), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn whoever_is_gone_is_succeeded_after_its_time() {
    let register = Memory::default();
    let one = member(&register.link(), "one");
    let (epoch, _) = owns(&one).await;
    let two = member(&register.link(), "two");
    follows(&two, "one").await;
    let (roles, start) = (one.roles(), Instant::now());
    drop(one);
    let (later, _) = owns(&two).await;
    let waited = start.elapsed().as_millis();
    assert!((2_490..=3_610).contains(&waited), "{waited} ms");
    assert!(later > epoch);
    assert!(roles.has_changed().is_err(), "who has dropped it is told nothing more");
}

/// The heart of it: whoever is cut off stops before anybody else can begin, though nobody can tell it.
#[tokio::test(start_paused = true)]
async fn whoever_is_cut_off_has_ended_before_another_begins() {
    let register = Memory::default();
    let link = register.link();
    let one = member(&link, "one");
    let (first, _) = owns(&one).await;
    let two = member(&register.link(), "two");
    follows(&two, "one").await;
    let fence = Fence::around(&one.roles()).unwrap();
    link.cut();
    let cut = Instant::now();
    let fell = async {
        assert_eq!(fence.guard(pending::<()>()).await, Err(Fenced));
        Instant::now()
    };
    let began = async { (owns(&two).await, Instant::now()) };
    let (fell, ((second, _), began)) = tokio::join!(fell, began);
    assert!(fell <= cut + Duration::from_secs(2));
    assert!(began >= fell + Duration::from_millis(900), "there is time to spare: {:?}", began - fell);
    assert!(second > first);
    assert_eq!(*one.roles().borrow(), Role::Unknown);

    // When it is back it follows, whatever it had asked before.
    link.mend();
    assert_eq!(follows(&one, "two").await, second);
}

/// Nobody else has claimed meanwhile: then it need not be waited for, but it is another hold.
#[tokio::test(start_paused = true)]
async fn whoever_was_cut_off_alone_takes_its_lease_again() {
    let register = Memory::default();
    let link = register.link();
    let one = member(&link, "one");
    let (first, _) = owns(&one).await;
    link.cut();
    let fence = Fence::around(&one.roles()).unwrap();
    timeout(LONG, fence.fallen()).await.unwrap();
    advance(LONG).await;
    link.mend();
    let start = Instant::now();
    let (second, _) = owns(&one).await;
    assert!(second > first);
    assert!(start.elapsed() <= Duration::from_millis(600), "{:?}", start.elapsed());
    assert!(!fence.stands(), "it was around the first");
}

#[tokio::test(start_paused = true)]
async fn a_register_that_forgets_is_waited_for_and_epochs_rise() {
    let register = Memory::default();
    let (one, two) = (member(&register.link(), "one"), member(&register.link(), "two"));
    let either = async || {
        tokio::select! {
            (epoch, _) = owns(&one) => epoch,
            (epoch, _) = owns(&two) => epoch,
        }
    };
    let first = either().await;
    advance(Duration::from_millis(100)).await;
    register.forget();
    let forgotten = Instant::now();
    let fences: Vec<_> = [&one, &two].into_iter().filter_map(|lease| Fence::around(&lease.roles()).ok()).collect();
    assert_eq!(fences.len(), 1);
    timeout(LONG, fences[0].fallen()).await.unwrap();
    let second = either().await;
    assert!(second > first);
    assert!(forgotten.elapsed() >= Duration::from_secs(3), "{:?}", forgotten.elapsed());
}

#[tokio::test(start_paused = true)]
async fn releasing_without_an_answer_ends_at_the_deadline() {
    let register = Memory::default();
    let link = register.link();
    let one = member(&link, "one");
    owns(&one).await;
    link.cut();
    let start = Instant::now();
    one.release(start + Duration::from_secs(5)).await;
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    assert!(matches!(register.entry(KEY).mark.holder, Holder::Member(_)), "nothing has reached it");
}

#[tokio::test(start_paused = true)]
async fn one_who_never_owned_leaves_at_once() {
    let register = Memory::default();
    let link = register.link();
    link.cut();
    let start = Instant::now();
    member(&link, "one").release(start + LONG).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_register_that_does_not_answer_is_told_of_now_and_then() {
    let logs = Logs::capture();
    let register = Memory::default();
    let link = register.link();
    link.cut();
    let one = member(&link, "one");
    tokio::time::sleep(LONG).await;
    assert_eq!(*one.roles().borrow(), Role::Unknown);
    let warned = || logs.at(Level::WARN);
    assert_eq!(warned().len(), 1);
    assert!(warned()[0].says("does not answer in time"), "{:?}", warned());
    // It is well from then on, and nothing is said.
    link.mend();
    owns(&one).await;
    tokio::time::sleep(LONG * 10).await;
    assert_eq!(warned().len(), 1);
}
