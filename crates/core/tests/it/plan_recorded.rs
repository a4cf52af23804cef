//! The plan against answers from elsewhere: 81 recorded from the published cueball on random inputs, and the cases of
//! its own test suite; of both, those without dead backends, since the plan does not cover dead backends.

use carom_core::plan::{Have, Plan, Spread, plan};
use serde_json::Value;

#[test]
fn recorded_answers() {
    let cases: Value = serde_json::from_str(include_str!("../data/planner.json")).expect("recorded answers are JSON");
    let cases = cases.as_array().expect("a list of cases");
    assert_eq!(cases.len(), 81);

    for (number, case) in cases.iter().enumerate() {
        let backends = case["backends"].as_array().expect("backends");
        let key = |i: usize| backends[i]["key"].as_str().expect("key");
        let have: Vec<Have> =
            backends.iter().map(|backend| Have { slots: count(&backend["slots"]), ..Have::default() }).collect();
        let spread = match case["singleton"].as_bool().expect("singleton") {
            true => Spread::Single,
            false => Spread::Even,
        };

        let plan = plan(&have, count(&case["target"]), count(&case["maximum"]), spread);

        let add: Vec<_> = plan.additions(&have).map(key).collect();
        assert_eq!(Value::from(add), case["add"], "additions of case {number}: {case}");
        let remove: Value = plan.removals(&have).map(|(i, slots)| (key(i), slots)).collect();
        assert_eq!(remove, case["remove"], "removals of case {number}: {case}");
        assert_most_preferred_last(&plan, &have);
    }
}

/// One case of cueball's own tests; backends are numbered from 0 in preference order.
struct Row {
    slots: &'static [usize],
    target: usize,
    maximum: usize,
    add: &'static [usize],
    remove: &'static [(usize, usize)],
}

#[rustfmt::skip]
const ROWS: [Row; 12] = [
    Row { slots: &[0], target: 4, maximum: 10, add: &[0, 0, 0, 0], remove: &[] },
    Row { slots: &[0, 0], target: 5, maximum: 10, add: &[0, 0, 0, 1, 1], remove: &[] },
    Row { slots: &[1, 1], target: 4, maximum: 10, add: &[0, 1], remove: &[] },
    Row { slots: &[2, 2], target: 4, maximum: 10, add: &[], remove: &[] },
    Row { slots: &[3, 1], target: 4, maximum: 10, add: &[1], remove: &[(0, 1)] },
    Row { slots: &[3, 1], target: 6, maximum: 10, add: &[1, 1], remove: &[] },
    Row { slots: &[3, 3], target: 4, maximum: 10, add: &[], remove: &[(1, 1), (0, 1)] },
    Row { slots: &[4, 0, 0, 0, 0, 0, 0], target: 5, maximum: 10, add: &[1, 2, 3, 4], remove: &[(0, 3)] },
    Row { slots: &[0, 0, 0, 0, 4, 0, 0], target: 6, maximum: 10, add: &[0, 1, 2, 3, 5], remove: &[(4, 3)] },
    Row { slots: &[1, 1, 1, 1, 1, 1, 0], target: 3, maximum: 10, add: &[], remove: &[(5, 1), (4, 1), (3, 1)] },
    Row { slots: &[1, 0, 0], target: 4, maximum: 10, add: &[0, 1, 2], remove: &[] },
    Row { slots: &[0, 1, 1], target: 2, maximum: 10, add: &[0], remove: &[(2, 1)] },
];

#[test]
fn upstream_cases() {
    for (number, row) in (1..).zip(&ROWS) {
        let have: Vec<Have> = row.slots.iter().map(|&slots| Have { slots, ..Have::default() }).collect();

        let plan = plan(&have, row.target, row.maximum, Spread::Even);

        assert_eq!(plan.additions(&have).collect::<Vec<_>>(), row.add, "additions of row {number}");
        assert_eq!(plan.removals(&have).collect::<Vec<_>>(), row.remove, "removals of row {number}");
    }
}

/// The recorded removals are a map and cannot show their order.
fn assert_most_preferred_last(plan: &Plan, have: &[Have]) {
    assert!(plan.removals(have).map(|(i, _)| i).is_sorted_by(|a, b| a > b));
}

fn count(value: &Value) -> usize {
    value.as_u64().expect("a count").try_into().expect("a count that fits")
}
