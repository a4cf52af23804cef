//! Of several ticks with one name that wait together, only the last is worth anything.

use crate::protocol::topic::{self, BusTopic};
use carom::feed::bus::Message;
use std::collections::HashMap;
use std::sync::Arc;

/// Leaves of several ticks with one name only the last. How many are gone.
///
/// The others stay in their order: a price that is newer than an order book must not be told before it.
pub(crate) fn drop_superseded(messages: &mut Vec<Message>) -> u64 {
    if messages.len() < 2 {
        return 0;
    }
    let before = messages.len();
    let mut last = HashMap::with_capacity(before);
    for (at, message) in messages.iter().enumerate() {
        last.insert(Arc::clone(&message.topic), at);
    }
    if last.len() == before {
        return 0;
    }
    let mut at = 0;
    messages.retain(|message| {
        let keep = last.get(&message.topic) == Some(&at) || !is_tick(&message.topic);
        at += 1;
        keep
    });
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
    fn what_is_no_tick_stays() {
        let named = [("S_asha_orders", "1"), ("S_asha_orders", "2"), ("nonsense", "3"), ("nonsense", "4")];
        let mut waiting = messages(&named);
        assert_eq!(drop_superseded(&mut waiting), 0);
        assert_eq!(waiting, messages(&named));
    }
}
