//! Three gateways on one nats-server with one upstream: whichever is killed, stopped or cut off, its clients apart nobody notices.
//!
//! The exchange counts its connections and what it says itself: it lets nobody in beyond its limits, and counts who tried. A witness
//! hears it directly, and what clients were told is compared with what the witness heard.

use carom_gateway::simulated::{Exchange, Options};
use carom_live::cut::Cut;
use carom_live::gateways::{Client, Gateway, Part, Upstream};
use carom_live::nats::Nats;
use carom_live::witness::Witness;
use carom_live::{ms, until};
use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const TOKEN: &str = "today's";
const MAX_CONNECTIONS: usize = 2;
const MAX_TOPICS: usize = 25;

/// More than one connection carries, and less than two do.
#[rustfmt::skip]
const SYMBOLS: [&str; 40] = [
    "SBIN", "RELIANCE", "TCS", "INFY", "HDFCBANK", "ICICIBANK", "ITC", "LT", "AXISBANK", "KOTAKBANK", "BHARTIARTL", "HINDUNILVR",
    "BAJFINANCE", "MARUTI", "ASIANPAINT", "SUNPHARMA", "TITAN", "ULTRACEMCO", "NESTLEIND", "WIPRO", "HCLTECH", "TECHM", "POWERGRID",
    "NTPC", "ONGC", "COALINDIA", "TATASTEEL", "TATAMOTORS", "JSWSTEEL", "HINDALCO", "GRASIM", "CIPLA", "DRREDDY", "DIVISLAB",
    "EICHERMOT", "HEROMOTOCO", "BAJAJ-AUTO", "M&M", "BRITANNIA", "ADANIENT",
];

/// What the client of each gateway wants: any two have some of it in common.
const WANTED: [std::ops::Range<usize>; 3] = [0..25, 10..30, 20..40];

/// How long it may take until ticks of everything come again, on a machine with much else to do. It is said how long it took.
const MOVED: Duration = Duration::from_secs(15);

/// How long it may take until the exchange lets in the next owner. One round of several in which it does not take longer is enough,
/// as the machine may be busy with something else at any time.
const TAKEN_OVER: Duration = Duration::from_secs(5);
const ROUNDS: usize = 3;

/// The witness has some connections, and the gateways may have the others.
const WITNESSES: usize = Witness::connections(SYMBOLS.len(), MAX_TOPICS);

struct Stage {
    exchange: Exchange,
    witness: Witness,
    gateways: Vec<Gateway>,
    clients: Vec<Client>,
}

impl Stage {
    /// Three gateways, each at one of these addresses of NATS, and a client at each.
    async fn new(nats: [std::net::SocketAddr; 3]) -> Stage {
        let options = Options::default()
            .token(TOKEN.to_owned())
            .symbols(SYMBOLS.len())
            .rate(400.0)
            .max_connections(WITNESSES + MAX_CONNECTIONS)
            .max_topics_per_connection(MAX_TOPICS);
        let exchange = Exchange::start(options).await.expect("a free port");
        let witness = Witness::of(&exchange, TOKEN, &SYMBOLS, MAX_TOPICS).await;
        let mut stage = Stage { exchange, witness, gateways: Vec::new(), clients: Vec::new() };
        for address in nats {
            let upstream = Upstream {
                exchange: &stage.exchange,
                token: TOKEN,
                max_connections: MAX_CONNECTIONS,
                max_topics_per_connection: MAX_TOPICS,
            };
            stage.gateways.push(Gateway::start(address, &upstream).await);
        }
        stage.owner().await;
        for (gateway, wanted) in stage.gateways.iter().zip(WANTED) {
            stage.clients.push(gateway.client(&SYMBOLS[wanted]).await);
        }
        let begun = now();
        for client in &stage.clients {
            client.ticks_after(begun).await;
        }
        stage
    }

    /// Which gateway owns the upstream, when all that run agree, and in which epoch.
    async fn owner(&self) -> (usize, u64) {
        until(ms(60_000), async || {
            let mut parts: Vec<(usize, Part)> = Vec::new();
            for (number, gateway) in self.gateways.iter().enumerate().filter(|(_, gateway)| gateway.runs()) {
                parts.push((number, gateway.part().await?));
            }
            let owners: Vec<_> = parts.iter().filter(|(_, part)| part.owns).collect();
            match owners[..] {
                [(number, owner)] if parts.iter().all(|(_, part)| part.owner.as_ref() == Some(&owner.member)) => {
                    owner.epoch.map(|epoch| (*number, epoch)).ok_or_else(|| format!("{owner:?}"))
                }
                _ => Err(format!("{parts:?}")),
            }
        })
        .await
    }

    /// How long after something happened everything ticked again at these gateways: the first symbol, and the last.
    async fn moved(&self, gateways: &[usize], happened: (i64, Instant)) -> (Duration, Duration) {
        let (moment, since) = happened;
        let (mut first, mut last) = (Duration::ZERO, Duration::ZERO);
        for gateway in gateways {
            let (began, complete) = self.clients[*gateway].ticks_after(moment).await;
            (first, last) = (first.max(began - since), last.max(complete - since));
        }
        (first, last)
    }

    /// How long after something happened to the owner the exchange let in the next one, which is the first that comes.
    async fn taken_over(&self, accepted: u64, since: Instant) -> Duration {
        let next = self.exchange.until(|exchange| exchange.accepted > accepted);
        tokio::time::timeout(ms(60_000), next).await.expect("somebody takes over");
        since.elapsed()
    }

    /// What must hold at all times: limits were never tried, no client left, and none was told anything twice, out of order, or
    /// that the exchange did not say.
    async fn check(&self, gateways: &[usize]) {
        let exchange = self.exchange.snapshot();
        assert_eq!(exchange.turned_away, 0, "{exchange:?}");
        self.check_where_some_were_turned_away(gateways).await;
    }

    /// The same of an exchange that lets nobody in for a while.
    async fn check_where_some_were_turned_away(&self, gateways: &[usize]) {
        let exchange = self.exchange.snapshot();
        assert_eq!(exchange.over_capacity, 0, "{exchange:?}");
        // Those of the witness were the first, and count.
        let witness = exchange.connections.iter().take(WITNESSES).map(|connection| connection.number);
        assert!(witness.eq(1..=WITNESSES as u64), "{exchange:?}");
        assert!(exchange.most_connections <= WITNESSES + MAX_CONNECTIONS, "{exchange:?}");
        assert!(exchange.most_topics <= MAX_TOPICS, "{exchange:?}");
        for gateway in gateways {
            let record = self.clients[*gateway].record();
            assert_eq!((record.repeated, record.older, &record.ended), (0, 0, &None), "gateway {gateway}");
            self.witness.confirms(&record.told).await;
        }
    }

    /// Waits until two clients were told the same tick of every symbol that both want, after this moment: newer ticks take the place
    /// of older ones where a machine is busy, so each may have some that the other has not. How many they share, of how many.
    async fn agree(&self, [one, other]: [usize; 2], moment: i64) -> (usize, usize) {
        let (first, second) = (WANTED[one].clone(), WANTED[other].clone());
        let both = &SYMBOLS[first.start.max(second.start)..first.end.min(second.end)];
        assert!(!both.is_empty(), "nothing can be compared");
        until(ms(60_000), async || {
            let [one, other] = [one, other].map(|client| {
                let told = self.clients[client].record().told.into_iter();
                let wanted = told.filter(|((symbol, _), quote)| quote.said > moment && both.contains(&symbol.as_str()));
                wanted.map(|(tick, _)| tick).collect::<BTreeSet<_>>()
            });
            let common: BTreeSet<_> = one.intersection(&other).collect();
            match both.iter().find(|symbol| !common.iter().any(|(of, _)| of == *symbol)) {
                None => Ok((common.len(), one.union(&other).count())),
                Some(symbol) => Err(format!("of {symbol} they were told different things")),
            }
        })
        .await
    }
}

fn others(owner: usize) -> [usize; 2] {
    [(owner + 1) % 3, (owner + 2) % 3]
}

/// In milliseconds since 1970.
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than that").as_millis() as i64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_exchange_says_once_reaches_the_clients_of_every_gateway() {
    let nats = Nats::start().await;
    let stage = Stage::new([nats.address(); 3]).await;
    let (owner, _) = stage.owner().await;
    let begun = now();
    let told = || [0, 1, 2].map(|client| stage.clients[client].record().ticks);
    let before = told();
    until(ms(60_000), async || match told().iter().zip(before).all(|(told, before)| *told >= before + 1_000) {
        true => Ok(()),
        false => Err(format!("few ticks come: {:?}", told())),
    })
    .await;
    let said = stage.witness.heard_after(begun);
    println!("gateway {owner} has the upstream; the exchange said {said} ticks, and clients were told {:?}", told());
    for pair in [[0, 1], [1, 2], [0, 2]] {
        let (common, all) = stage.agree(pair, begun).await;
        println!("clients {pair:?} were told {common} of {all} ticks alike");
    }
    let sessions = stage.gateways[owner].part().await.unwrap().sessions;
    assert!(sessions >= 2, "{sessions}");
    stage.check(&[0, 1, 2]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_is_killed_and_no_client_of_another_notices() {
    let nats = Nats::start().await;
    let mut stage = Stage::new([nats.address(); 3]).await;
    let mut best = Duration::MAX;
    for round in 1..=ROUNDS {
        let (owner, epoch) = stage.owner().await;
        let accepted = stage.exchange.snapshot().accepted;
        let killed = (now(), Instant::now());
        stage.gateways[owner].kill();
        let taken_over = stage.taken_over(accepted, killed.1).await;
        let (first, last) = stage.moved(&others(owner), killed).await;
        let (common, all) = stage.agree(others(owner), killed.0).await;
        println!(
            "round {round}: gateway {owner} was killed; the next one was at the exchange after {taken_over:.1?}, ticks came again \
             after {first:.1?}, of everything after {last:.1?}; {common} of {all} since then are alike"
        );
        assert!(last < MOVED, "{last:?}");
        best = best.min(taken_over);
        let (next, later) = stage.owner().await;
        assert!(next != owner && later > epoch, "{next} in {later} after {owner} in {epoch}");
        stage.check(&others(owner)).await;
        // It comes back as one of the others, and its client with it.
        stage.gateways[owner].restart().await;
        stage.clients[owner] = stage.gateways[owner].client(&SYMBOLS[WANTED[owner].clone()]).await;
        stage.clients[owner].ticks_after(now()).await;
        let (_, latest) = stage.owner().await;
        assert!(latest >= later, "{latest} after {later}");
        if round > 1 && best < TAKEN_OVER {
            break;
        }
    }
    assert!(best < TAKEN_OVER, "{best:?}");
    stage.check(&[0, 1, 2]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_is_stopped_hands_over_at_once() {
    let nats = Nats::start().await;
    let mut stage = Stage::new([nats.address(); 3]).await;
    let (owner, epoch) = stage.owner().await;
    stage.gateways[owner].stop();
    let stopped = (now(), Instant::now());
    let (first, last) = stage.moved(&others(owner), stopped).await;
    println!(
        "gateway {owner} was stopped; from its end, ticks came again after {first:.1?}, of everything after {last:.1?}"
    );
    let (_, later) = stage.owner().await;
    assert!(later > epoch);
    stage.check(&others(owner)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_is_cut_off_lets_go_before_another_takes_over() {
    let nats = Nats::start().await;
    let cuts =
        [Cut::before(nats.address()).await, Cut::before(nats.address()).await, Cut::before(nats.address()).await];
    let stage = Stage::new([0, 1, 2].map(|number| cuts[number].address())).await;
    let mut best = Duration::MAX;
    for round in 1..=ROUNDS {
        let (owner, epoch) = stage.owner().await;
        let accepted = stage.exchange.snapshot().accepted;
        let frozen = (now(), Instant::now());
        cuts[owner].freeze();
        let taken_over = stage.taken_over(accepted, frozen.1).await;
        let (first, last) = stage.moved(&others(owner), frozen).await;
        let (common, all) = stage.agree(others(owner), frozen.0).await;
        println!(
            "round {round}: gateway {owner} was cut off; the next one was at the exchange after {taken_over:.1?}, ticks came again \
             after {first:.1?}, of everything after {last:.1?}; {common} of {all} since then are alike"
        );
        assert!(last < MOVED, "{last:?}");
        best = best.min(taken_over);
        // What it says of itself may be a second old.
        until(ms(30_000), async || match stage.gateways[owner].part().await? {
            part if part.owns => Err(format!("{part:?}")),
            _ => Ok(()),
        })
        .await;
        stage.check(&[0, 1, 2]).await;
        // What it had said before reaches the others now, and they know better.
        let thawed = (now(), Instant::now());
        cuts[owner].thaw();
        let (first, last) = stage.moved(&[owner], thawed).await;
        println!("it is back; its own client's ticks came again after {first:.1?}, of everything after {last:.1?}");
        let (_, later) = stage.owner().await;
        assert!(later > epoch);
        stage.check(&[0, 1, 2]).await;
        if best < TAKEN_OVER {
            break;
        }
    }
    assert!(best < TAKEN_OVER, "{best:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_itself_is_killed_and_comes_back() {
    let mut nats = Nats::start().await;
    let stage = Stage::new([nats.address(); 3]).await;
    nats.kill();
    // Nobody may go on without it for long: somebody else might.
    let gone = stage.exchange.until(|exchange| exchange.connections.len() == WITNESSES);
    tokio::time::timeout(ms(30_000), gone).await.expect("the owner lets go");
    nats.restart().await;
    let back = (now(), Instant::now());
    let (first, last) = stage.moved(&[0, 1, 2], back).await;
    println!("NATS is back; ticks came again after {first:.1?}, of everything after {last:.1?}");
    assert!(last < MOVED, "{last:?}");
    stage.owner().await;
    stage.check(&[0, 1, 2]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_exchange_is_gone_and_every_gateway_knows() {
    let nats = Nats::start().await;
    let stage = Stage::new([nats.address(); 3]).await;
    for gateway in &stage.gateways {
        gateway.health(true).await;
    }
    stage.exchange.refuse_connections(true);
    for connection in stage.exchange.snapshot().connections.iter().skip(WITNESSES) {
        stage.exchange.kill(connection.number);
    }
    let gone = Instant::now();
    let mut late = Vec::new();
    for (number, gateway) in stage.gateways.iter().enumerate() {
        // On a busy machine the upstream may change hands meanwhile.
        let reason = until(ms(60_000), async || {
            let (reason, part) = (gateway.health(false).await.ok_or("it does not say why")?, gateway.part().await?);
            // The owner is refused for as long as it tries; until then it says how its connection ended.
            let known = ["takes no connections", "failed", "closed"].iter().any(|known| reason.contains(known));
            match known && part.owns != reason.contains("which owns the upstream") {
                true => Ok(reason),
                false => Err(format!("{reason}, and {part:?}")),
            }
        })
        .await;
        println!("gateway {number}, after {:.1?}: {reason}", gone.elapsed());
        until(ms(30_000), async || {
            match (gateway.figure("carom_degraded").await?, gateway.figure("carom_feed_live").await?) {
                (1.0, 0.0) => Ok(()),
                figures => Err(format!("{figures:?}")),
            }
        })
        .await;
        // Something that its own clients have not asked for.
        let new = [39, 35, 5][number];
        assert!(!WANTED[number].contains(&new), "{new}");
        // Where the owner takes long to say why, the first is told that nobody has answered.
        let client = until(ms(60_000), async || {
            let client = gateway.client(&SYMBOLS[new..=new]).await;
            let told = &client.subscribed["subscriptions"][0];
            let why = told["message"].as_str().unwrap_or_default();
            match told["pending"] == true && why.starts_with("the upstream cannot be reached") {
                true => Ok(client),
                false => Err(told.to_string()),
            }
        });
        late.push(client.await);
    }
    stage.exchange.refuse_connections(false);
    let back = (now(), Instant::now());
    let (first, last) = stage.moved(&[0, 1, 2], back).await;
    println!("it is back; ticks came again after {first:.1?}, of everything after {last:.1?}");
    for client in &late {
        client.ticks_after(back.0).await;
    }
    for gateway in &stage.gateways {
        gateway.health(true).await;
    }
    stage.check_where_some_were_turned_away(&[0, 1, 2]).await;
}
