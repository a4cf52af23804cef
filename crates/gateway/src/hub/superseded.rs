//! Conflation of ticks on the bus, for a gateway that is too slow for them: of several with one name only the last is kept.

use crate::bus::Message;
use crate::protocol::market::Market;
use crate::protocol::topic::{self, BusTopic};
use std::collections::{HashMap, HashSet};

/// Leaves of several ticks with one name only the last that makes sense. How many are gone.
///
/// The others stay in their order: a price that is newer than an order book must not be told before it. Of ticks whose name comes
/// once the payload is not looked at.
pub(crate) fn drop_superseded(messages: &mut Vec<Message>) -> u64 {
    if messages.len() < 2 {
        return 0;
    }
    let before = messages.len();
    let mut counts: HashMap<&str, usize> = HashMap::with_capacity(before);
    for message in messages.iter() {
        *counts.entry(&message.topic).or_default() += 1;
    }
    if counts.len() == before {
        return 0;
    }
    let mut newer = HashSet::new();
    let mut kept = vec![true; before];
    for (message, keep) in messages.iter().zip(&mut kept).rev() {
        let name = &*message.topic;
        if counts[name] == 1 || !is_tick(name) {
            continue;
        }
        *keep = !newer.contains(name);
        if *keep && Market::read(&message.payload).is_ok_and(|market| market.has_price()) {
            newer.insert(name);
        }
    }
    let mut kept = kept.into_iter();
    messages.retain(|_| kept.next().unwrap_or(true));
    (before - messages.len()) as u64
}

fn is_tick(name: &str) -> bool {
    matches!(topic::parse(name), Some(BusTopic::Tick { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(named: &[(&str, &'static str)]) -> Vec<Message> {
        named.iter().map(|(topic, payload)| Message { topic: (*topic).into(), payload: (*payload).into() }).collect()
    }

    #[test]
    fn the_last_of_each_name_stays_where_it_is() {
        let mut waiting =
            messages(&[("NSE_A_DEPTH", "1"), ("NSE_A_LTP", "2"), ("NSE_A_DEPTH", "3"), ("NSE_B_LTP", "4")]);
        assert_eq!(drop_superseded(&mut waiting), 1);
        assert_eq!(waiting, messages(&[("NSE_A_LTP", "2"), ("NSE_A_DEPTH", "3"), ("NSE_B_LTP", "4")]));
        assert_eq!(drop_superseded(&mut waiting), 0);
        assert_eq!(waiting.len(), 3);
    }

    #[test]
    fn what_makes_no_sense_takes_nobodys_place() {
        let mut waiting = messages(&[("NSE_A_LTP", "1"), ("NSE_A_LTP", "2"), ("NSE_A_LTP", "{"), ("NSE_A_LTP", "}")]);
        assert_eq!(drop_superseded(&mut waiting), 1);
        assert_eq!(waiting, messages(&[("NSE_A_LTP", "2"), ("NSE_A_LTP", "{"), ("NSE_A_LTP", "}")]));
    }

    #[test]
    fn what_has_no_price_takes_nobodys_place() {
        let named = [("NSE_A_LTP", r#"{"ltp":1}"#), ("NSE_A_LTP", r#"{"ltp":NaN}"#), ("NSE_A_LTP", "{}")];
        let mut waiting = messages(&named);
        assert_eq!(drop_superseded(&mut waiting), 0);
        assert_eq!(waiting, messages(&named));
    }

    #[test]
    fn what_is_no_tick_stays() {
        let named = [("S_asha_orders", "1"), ("S_asha_orders", "2"), ("nonsense", "3"), ("nonsense", "4")];
        let mut waiting = messages(&named);
        assert_eq!(drop_superseded(&mut waiting), 0);
        assert_eq!(waiting, messages(&named));
    }
}
