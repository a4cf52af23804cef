//! Interest: whatever clients do, and in whatever order, counts are exact and each gets its ticks.

use carom_core::feed::interest::{ClientId, Interest, Joined, ScopeId};
use carom_core::feed::{Instrument, Level, Mode, Topic};
use carom_core::random::Random;
use std::collections::{BTreeMap, BTreeSet};

/// What a client wants, kept the plain way.
type Plain = BTreeMap<ClientId, (ScopeId, BTreeMap<(Instrument, Mode), u16>)>;

fn instrument(number: usize) -> Instrument {
    Instrument::new(["NSE", "BSE"][number % 2], format!("S{}", number / 2))
}

fn agree(interest: &Interest, plain: &Plain, scopes: &[ScopeId], instruments: usize) {
    assert_eq!(interest.clients(), plain.len());
    assert_eq!(interest.subscriptions(), plain.values().map(|(_, wants)| wants.len()).sum::<usize>());
    for (client, (scope, wants)) in plain {
        assert_eq!(interest.scope_of(*client), Some(*scope));
        let had: BTreeMap<_, _> = interest
            .subscriptions_of(*client)
            .into_iter()
            .map(|topic| ((topic.instrument.clone(), topic.mode()), topic.level.depth))
            .collect();
        assert_eq!(&had, wants);
        assert_eq!(interest.count_of(*client), wants.len());
        for ((instrument, mode), depth) in wants {
            assert_eq!(interest.depth_of(*client, instrument, *mode), Some(*depth));
        }
    }
    for scope in scopes {
        for instrument in (0..instruments).map(instrument) {
            for tick in Mode::ALL {
                let expected: BTreeSet<(ClientId, Mode)> = plain
                    .iter()
                    .filter(|(_, (at, _))| at == scope)
                    .flat_map(|(client, (_, wants))| wants.keys().map(move |key| (*client, key)))
                    .filter(|(_, (wanted, mode))| *wanted == instrument && *mode <= tick)
                    .map(|(client, (_, mode))| (client, *mode))
                    .collect();
                let given: Vec<_> = interest.recipients(*scope, &instrument, tick).collect();
                assert_eq!(given.len(), expected.len(), "each once");
                assert_eq!(given.into_iter().collect::<BTreeSet<_>>(), expected);
            }
            let wishes = || {
                let wants = plain.values().filter(|(at, _)| at == scope).flat_map(|(_, wants)| wants);
                wants.filter(|((wanted, _), _)| *wanted == instrument).map(|((_, mode), depth)| (*mode, *depth))
            };
            let counts = interest.counts(*scope, &instrument);
            assert_eq!(counts, Mode::ALL.map(|mode| wishes().filter(|(wanted, _)| *wanted == mode).count()));
            let greatest = wishes().map(|(mode, depth)| Level { mode, depth }.plain()).max();
            assert_eq!(interest.greatest(*scope, &instrument), greatest);
            let listed = interest.topics(*scope).find(|(found, _)| **found == instrument).map(|(_, counts)| counts);
            assert_eq!(listed.unwrap_or_default(), counts);
            let after = interest.topics(*scope).filter(|(found, _)| **found > instrument);
            assert!(interest.topics_after(*scope, &instrument).eq(after));
        }
    }
}

#[test]
fn counts_are_exact_after_any_order_of_subscribe_unsubscribe_and_disconnect() {
    for seed in 1..=200 {
        let mut random = Random::new(seed);
        let (mut interest, mut plain, mut gone) = (Interest::new(), Plain::new(), Vec::new());
        let scopes =
            [interest.scope("zerodha", "asha"), interest.scope("zerodha", "ravi"), interest.scope("x", "asha")];
        let instruments = 1 + random.below(6);
        for _ in 0..150 {
            let known: Vec<ClientId> = plain.keys().copied().collect();
            let client = known.get(random.below(known.len())).copied();
            let (at, mode) = (instrument(random.below(instruments)), Mode::ALL[random.below(3)]);
            match (random.below(12), client) {
                (0 | 1, _) | (_, None) => {
                    let scope = scopes[random.below(3)];
                    let client = interest.connect(scope);
                    assert!(plain.insert(client, (scope, BTreeMap::new())).is_none(), "seed {seed}: a name in use");
                }
                (2, Some(client)) => {
                    let left = interest.disconnect(client);
                    assert_eq!(left.len(), plain.remove(&client).unwrap().1.len(), "seed {seed}");
                    gone.push(client);
                }
                (3, Some(client)) => {
                    let left = interest.unsubscribe_all(client);
                    assert_eq!(left.len(), std::mem::take(&mut plain.get_mut(&client).unwrap().1).len());
                }
                (4..=6, Some(client)) => {
                    let left = interest.unsubscribe(client, &at, mode).map(|topic| topic.level.depth);
                    assert_eq!(left, plain.get_mut(&client).unwrap().1.remove(&(at, mode)), "seed {seed}");
                }
                (7, Some(_)) => {
                    // Whoever is gone wants nothing, though another may have its place.
                    let Some(client) = gone.get(random.below(gone.len())) else { continue };
                    let topic = Topic { instrument: at.clone(), level: Level { mode, depth: 5 } };
                    assert_eq!(interest.subscribe(*client, &topic), Joined::Unknown);
                    assert_eq!(interest.unsubscribe(*client, &at, mode), None);
                    assert!(interest.disconnect(*client).is_empty());
                }
                (_, Some(client)) => {
                    let depth = [5, 20][random.below(2)];
                    let topic = Topic::new(at.exchange(), at.symbol(), mode).depth(depth);
                    let before = plain.get_mut(&client).unwrap().1.insert((at, mode), depth);
                    let expected = match before {
                        None => Joined::New,
                        Some(same) if same == depth => Joined::Already,
                        Some(other) => Joined::Instead(topic.clone().depth(other)),
                    };
                    assert_eq!(interest.subscribe(client, &topic), expected, "seed {seed}");
                }
            }
            agree(&interest, &plain, &scopes, instruments);
        }
        for client in plain.keys() {
            interest.disconnect(*client);
        }
        agree(&interest, &Plain::new(), &scopes, instruments);
        assert!(scopes.iter().all(|scope| interest.topics(*scope).next().is_none()), "nothing is kept for nobody");
    }
}

#[test]
fn users_do_not_see_each_others_ticks() {
    let mut interest = Interest::new();
    let (asha, ravi) = (interest.scope("zerodha", "asha"), interest.scope("zerodha", "ravi"));
    assert_eq!(interest.scope("zerodha", "asha"), asha);
    let (hers, his) = (interest.connect(asha), interest.connect(ravi));
    let topic = Topic::new("NSE", "SBIN", Mode::Ltp);
    interest.subscribe(hers, &topic);
    interest.subscribe(his, &topic);
    let of = |scope| interest.recipients(scope, &topic.instrument, Mode::Depth).collect::<Vec<_>>();
    assert_eq!((of(asha), of(ravi)), (vec![(hers, Mode::Ltp)], vec![(his, Mode::Ltp)]));
}
