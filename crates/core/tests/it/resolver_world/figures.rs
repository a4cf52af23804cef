//! Promise 12: what people are shown is what happened.

use super::World;
use carom_core::resolver::{Answer, Counters, Standing};

/// What the world has counted for itself.
#[derive(Default)]
pub(super) struct Tally(Counters);

impl Tally {
    pub(super) fn asked(&mut self) {
        self.0.asked += 1;
    }

    pub(super) fn ended(&mut self, answer: &Answer) {
        match answer {
            Answer::NotImplemented | Answer::Refused | Answer::Trouble => self.0.failed += 1,
            _ => self.0.answered += 1,
        }
    }
}

impl World {
    pub(super) fn promise_12_figures_are_what_happened(&self) {
        let counted = Counters { published: self.books.published, ..self.tally.0 };
        assert_eq!(self.machine.counters(), counted, "promise 12");
        let glances = self.machine.glances();
        for flight in self.flights.values() {
            let seen = glances.iter().find(|glance| glance.question == flight.question);
            assert!(seen.is_some_and(|seen| seen.standing == Standing::Asking), "promise 12: {seen:?} is under way");
        }
        for glance in glances {
            let rests = glance.standing != Standing::Asking;
            assert_eq!(rests, glance.next.is_some(), "promise 12: {glance:?}");
            assert!(!rests || self.last_ended_as(&glance.question, glance.standing), "promise 12: {glance:?}");
            let known = self.books.found(&glance.question);
            assert!(known.is_none_or(|known| glance.records == known), "promise 12: {glance:?}, found {known:?}");
        }
    }

    /// Whether that is how the question ended last.
    fn last_ended_as(&self, question: &carom_core::resolver::Question, standing: Standing) -> bool {
        self.last.get(question).is_some_and(|answer| match answer {
            Answer::Targets { .. } | Answer::Addresses { .. } => standing == Standing::Answered,
            Answer::Nothing { .. } => standing == Standing::Nothing,
            Answer::NotImplemented => standing != Standing::Answered,
            Answer::NotOffered { .. } | Answer::Refused | Answer::Trouble => standing == Standing::Failed,
        })
    }
}
