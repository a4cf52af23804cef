//! Leases in the key-value store of a real nats-server: that is killed, cut off and emptied, and there are never two owners.

use carom_gateway::cluster::{Entry, Fence, Lease, LeaseOptions, NatsRegister, Register, Role};
use carom_live::cut::Cut;
use carom_live::nats::Nats;
use carom_live::{ms, until};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

/// Machines that run this may be slow.
const LONG: Duration = Duration::from_secs(300);

const NAMES: [&str; 3] = ["one", "two", "three"];

/// A member with a connection of its own, on a way that can be cut.
struct Member {
    name: &'static str,
    way: Cut,
    lease: Lease,
}

impl Member {
    async fn start(server: SocketAddr, name: &'static str) -> Member {
        let way = Cut::before(server).await;
        let lease = Lease::start(register(way.address()).await, "zerodha.demo", name, LeaseOptions::default());
        Member { name, way, lease: lease.expect("the options are sound") }
    }

    fn epoch(&self) -> Option<u64> {
        self.lease.roles().borrow().owns(Instant::now())
    }
}

/// Three members, and somebody who looks all the time whether two of them are owners.
struct Members {
    members: Vec<Member>,
    judge: JoinHandle<()>,
}

impl Members {
    async fn of(server: SocketAddr) -> Members {
        let mut members = Vec::new();
        for name in NAMES {
            members.push(Member::start(server, name).await);
        }
        let roles: Vec<_> = members.iter().map(|member| member.lease.roles()).collect();
        Members { members, judge: tokio::spawn(judge(roles)) }
    }

    /// Takes the owner out, and says in which hold it is; the others know it.
    async fn owner(&mut self) -> (Member, u64) {
        let (at, epoch) = until(LONG, async || {
            let owners = self.members.iter().enumerate();
            let (at, epoch) = owners.filter_map(|(at, member)| Some((at, member.epoch()?))).next().ok_or("no owner")?;
            let name = self.members[at].name;
            let knows = |role: &Role| matches!(role, Role::Follower { owner, epoch: known } if **owner == *name && *known == epoch);
            let known = self.members.iter().filter(|member| knows(&member.lease.roles().borrow())).count();
            if known == self.members.len() - 1 { Ok((at, epoch)) } else { Err("not all know the owner") }
        })
        .await;
        (self.members.remove(at), epoch)
    }

    fn end(self) {
        assert!(!self.judge.is_finished(), "there were two owners");
        self.judge.abort();
    }
}

/// Ends only if there are two owners.
async fn judge(roles: Vec<watch::Receiver<Role>>) {
    loop {
        let now = Instant::now();
        if roles.iter().filter(|role| role.borrow().owns(now).is_some()).count() > 1 {
            return;
        }
        tokio::time::sleep(ms(2)).await;
    }
}

async fn register(address: SocketAddr) -> NatsRegister {
    // Who hears nothing for two seconds connects again, once that is possible.
    let options = async_nats::ConnectOptions::new().ping_interval(ms(1_000));
    NatsRegister::new(options.connect(address.to_string()).await.expect("NATS is there"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_is_gone_is_succeeded() {
    let nats = Nats::start().await;
    let mut members = Members::of(nats.address()).await;
    let (owner, first) = members.owner().await;
    let gone = Instant::now();
    drop(owner);
    let (next, second) = members.owner().await;
    println!("{} succeeded after {:?}", next.name, gone.elapsed());
    assert!(second > first);
    members.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_back_is_taken_at_once() {
    let nats = Nats::start().await;
    let mut members = Members::of(nats.address()).await;
    let (owner, first) = members.owner().await;
    let released = Instant::now();
    owner.lease.release(released + LONG).await;
    let (next, second) = members.owner().await;
    println!("{} took it after {:?}", next.name, released.elapsed());
    assert!(second > first);
    members.end();
}

/// Nobody can tell it, and it tells nobody: it has ended by its own clock before another begins.
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_is_cut_off_ends_before_another_begins() {
    let nats = Nats::start().await;
    let mut members = Members::of(nats.address()).await;
    let (owner, first) = members.owner().await;
    let fence = Fence::around(&owner.lease.roles()).expect("it is the owner");
    let fell = tokio::spawn(async move {
        fence.fallen().await;
        Instant::now()
    });
    owner.way.freeze();
    let cut = Instant::now();
    let (next, second) = members.owner().await;
    let began = Instant::now();
    let fell = timeout(LONG, fell).await.expect("it has fallen").expect("it does not panic");
    println!("cut off: fell after {:?}, {} began after {:?}", fell - cut, next.name, began - cut);
    assert!(fell < began && second > first);

    // It is told of the other when it can be, and what it had sent is of no effect.
    owner.way.thaw();
    let mut roles = owner.lease.roles();
    let is_next =
        |role: &Role| matches!(role, Role::Follower { owner, epoch } if **owner == *next.name && *epoch >= second);
    let follows = roles.wait_for(is_next);
    timeout(LONG, follows).await.expect("it is told").expect("it still takes part");
    members.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_and_comes_back_still_knows() {
    let mut nats = Nats::start().await;
    let mut members = Members::of(nats.address()).await;
    let (owner, first) = members.owner().await;
    let fence = Fence::around(&owner.lease.roles()).expect("it is the owner");
    nats.kill();
    timeout(LONG, fence.fallen()).await.expect("a hold that nobody can renew ends");
    assert!(members.members.iter().all(|member| member.epoch().is_none()), "nobody can claim it either");
    members.members.push(owner);
    nats.restart().await;
    let back = Instant::now();
    let (next, second) = members.owner().await;
    println!("{} owns {:?} after the server came back", next.name, back.elapsed());
    assert!(second > first);
    members.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_is_removed_is_made_again() {
    let nats = Nats::start().await;
    let mut members = Members::of(nats.address()).await;
    let (owner, first) = members.owner().await;
    let fence = Fence::around(&owner.lease.roles()).expect("it is the owner");
    let client = async_nats::connect(nats.url()).await.expect("NATS is there");
    let jetstream = async_nats::jetstream::new(client);
    jetstream.delete_key_value("carom_leases").await.expect("it can be removed");
    let removed = Instant::now();
    timeout(LONG, fence.fallen()).await.expect("a hold that is written nowhere ends");
    members.members.push(owner);
    let (next, second) = members.owner().await;
    println!("{} owns {:?} after the bucket was removed", next.name, removed.elapsed());
    assert!(second > first, "epochs go on, though revisions do not");
    jetstream.get_key_value("carom_leases").await.expect("it is there again");
    members.end();
}

/// Somebody writes something else there, or deletes it: that is not taken for a lease that is free.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_says_nothing_is_waited_for() {
    let nats = Nats::start().await;
    let mut members = Members::of(nats.address()).await;
    let client = async_nats::connect(nats.url()).await.expect("NATS is there");
    let (owner, mut last) = members.owner().await;
    let jetstream = async_nats::jetstream::new(client);
    let bucket = jetstream.get_key_value("carom_leases").await.expect("it is there");
    members.members.push(owner);
    for is_deleted in [false, true] {
        let (owner, _) = members.owner().await;
        let fence = Fence::around(&owner.lease.roles()).expect("it is the owner");
        if is_deleted {
            bucket.delete("zerodha.demo").await.expect("it can be deleted");
        } else {
            bucket.put("zerodha.demo", "not a lease".into()).await.expect("it can be written");
        }
        let spoilt = Instant::now();
        timeout(LONG, fence.fallen()).await.expect("a hold that is written nowhere ends");
        members.members.push(owner);
        let (next, epoch) = members.owner().await;
        println!("{} owns {:?} after the entry was spoilt", next.name, spoilt.elapsed());
        assert!(spoilt.elapsed() >= LeaseOptions::default().hold && epoch > last);
        members.members.push(next);
        last = epoch;
    }
    members.end();
}

/// The first members of all come at the same time, and none finds a bucket: servers have crashed over that.
#[tokio::test(flavor = "multi_thread")]
async fn many_who_begin_at_once_make_one_bucket() {
    for _ in 0..10 {
        let mut nats = Nats::start().await;
        let mut registers = Vec::new();
        for _ in 0..10 {
            registers.push(register(nats.address()).await);
        }
        let reads = registers.into_iter().map(|register| async move { register.read("zerodha.demo").await });
        for read in futures_util::future::join_all(reads).await {
            match read {
                Ok(entry) => assert_eq!(entry, Entry::absent()),
                Err(error) => panic!("{error:?}\n{}", nats.said()),
            }
        }
    }
}
