//! Labels without end are a leak at whoever collects them: so many at a time have their own, the rest have one in common.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

/// The label of whatever is too much.
pub(super) const OTHER: &str = "other";

/// Things by label, held by those who use them; at most so many labels are in use at a time.
pub(super) struct Bounded<T> {
    most: usize,
    known: HashMap<Box<str>, Weak<T>>,
    other: Weak<T>,
}

impl<T> Bounded<T> {
    pub(super) fn new(most: usize) -> Bounded<T> {
        Bounded { most, known: HashMap::new(), other: Weak::new() }
    }

    /// The one with this label, or the one of all the others.
    pub(super) fn get(&mut self, label: &str, make: impl FnOnce(&str) -> T) -> Arc<T> {
        if let Some(known) = self.known.get(label).and_then(Weak::upgrade) {
            return known;
        }
        if self.known.len() >= self.most {
            self.known.retain(|_, known| known.strong_count() > 0);
        }
        let full = self.known.len() >= self.most && !self.known.contains_key(label);
        if let Some(other) = full.then(|| self.other.upgrade()).flatten() {
            return other;
        }
        let made = Arc::new(make(if full { OTHER } else { label }));
        if full {
            self.other = Arc::downgrade(&made);
        } else {
            self.known.insert(label.into(), Arc::downgrade(&made));
        }
        made
    }
}

/// Labels of one look: the first so many of each scope are themselves.
#[derive(Default)]
pub(super) struct Few {
    seen: HashMap<String, HashSet<String>>,
}

impl Few {
    pub(super) fn label(&mut self, scope: &str, most: usize, label: &str) -> String {
        let seen = self.seen.entry(scope.to_owned()).or_default();
        if seen.len() < most {
            seen.insert(label.to_owned());
        }
        if seen.contains(label) { label } else { OTHER }.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_is_one_until_there_is_room() {
        let mut bounded = Bounded::new(2);
        let mut get = |label: &str| bounded.get(label, str::to_owned);
        let (one, two) = (get("one"), get("two"));
        assert!(Arc::ptr_eq(&one, &get("one")));
        let (three, four) = (get("three"), get("four"));
        assert_eq!(*three, OTHER);
        assert!(Arc::ptr_eq(&three, &four));
        drop(two);
        assert_eq!(*get("five"), "five");
    }

    #[test]
    fn the_first_labels_of_each_scope_are_themselves() {
        let mut few = Few::default();
        let mut of = |scope, label| few.label(scope, 2, label);
        assert_eq!([of("a", "1"), of("a", "2"), of("a", "3"), of("a", "1")], ["1", "2", OTHER, "1"]);
        assert_eq!(of("b", "3"), "3");
    }
}
