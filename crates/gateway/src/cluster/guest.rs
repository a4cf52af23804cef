//! A guest: what the owner keeps of another member's session, and what it has told it.

use super::message::{Stands, Turned};
use crate::source::{Held, Source};
use crate::upstream::shown;
use carom::feed::{Instrument, Level, Pending, Topic};
use std::collections::BTreeMap;
use std::error::Error;
use std::iter::successors;
use tokio::time::Instant;

/// So much that has changed is told at a time. However long the names, it fits into what NATS takes as one message, 1 MiB.
const MOST_TURNED: usize = 200;

/// See the [module](self). Dropped, what it has is given back.
pub(super) struct Guest {
    /// In which epoch it began; it does not outlive it.
    pub(super) epoch: u64,
    pub(super) heard: Instant,
    interests: BTreeMap<Instrument, (Level, Held)>,
    /// What it was told that is not carried, and why.
    withheld: BTreeMap<Instrument, Pending>,
    /// How many answers it was given.
    turn: u64,
}

impl Guest {
    pub(super) fn new(epoch: u64) -> Guest {
        Guest { epoch, heard: Instant::now(), interests: BTreeMap::new(), withheld: BTreeMap::new(), turn: 0 }
    }

    /// It has this from now on, or nothing of it; what it had before.
    #[must_use = "giving something back takes a lock"]
    pub(super) fn keep(&mut self, instrument: Instrument, held: Option<(Level, Held)>) -> Option<(Level, Held)> {
        match held {
            Some(held) => self.interests.insert(instrument, held),
            None => {
                self.withheld.remove(&instrument);
                self.interests.remove(&instrument)
            }
        }
    }

    /// What it has, and as how much; all of it, or of these.
    pub(super) fn topics(&self, of: Option<&[Instrument]>) -> Vec<Topic> {
        let topic = |(instrument, (level, _)): (&Instrument, &(Level, Held))| Topic {
            instrument: instrument.clone(),
            level: *level,
        };
        match of {
            None => self.interests.iter().map(topic).collect(),
            Some(of) => of.iter().filter_map(|one| self.interests.get_key_value(one)).map(topic).collect(),
        }
    }

    /// Whether it was told that everything is carried.
    pub(super) fn is_content(&self) -> bool {
        self.withheld.is_empty()
    }

    /// What it is told: how it stands with these, or of all of these what is news to it. What was given back since is left out.
    pub(super) fn tell(&mut self, stand: Vec<(Instrument, Option<Pending>)>, only_news: bool) -> Stands {
        self.turn += 1;
        let is_told = |(instrument, pending): &(Instrument, Option<Pending>)| {
            let known = self.withheld.get(instrument).copied();
            self.interests.contains_key(instrument) && !(only_news && *pending == known)
        };
        let most = if only_news { MOST_TURNED } else { usize::MAX };
        let mut told: Vec<_> = stand.into_iter().filter(is_told).take(most.saturating_add(1)).collect();
        let more = told.len() > most;
        told.truncate(most);
        let turned = told.iter().map(|(instrument, pending)| Turned::new(instrument, *pending)).collect();
        for (instrument, pending) in told {
            match pending {
                Some(why) => self.withheld.insert(instrument, why),
                None => self.withheld.remove(&instrument),
            };
        }
        Stands { turn: self.turn, turned, more, ..Stands::default() }
    }
}

/// How it stands with these. The source is asked, which takes its lock once for each.
pub(super) fn standing(source: &dyn Source, topics: Vec<Topic>) -> Vec<(Instrument, Option<Pending>)> {
    let standing = topics.into_iter().map(|topic| {
        let pending = source.pending(&topic);
        (topic.instrument, pending)
    });
    standing.collect()
}

/// Why something is not carried, in the words of the adapter, which is asked as well.
pub(super) fn reason(source: &dyn Source) -> Option<String> {
    source.snapshot().cause.map(|cause| shown(&in_words(&*cause)))
}

/// An error with all that led to it. Some repeat what they come from.
fn in_words(error: &(dyn Error + 'static)) -> String {
    let mut words = String::new();
    for error in successors(Some(error), |error: &&(dyn Error + 'static)| (*error).source()) {
        let said = error.to_string();
        if !words.contains(&said) {
            words = if words.is_empty() { said } else { format!("{words}: {said}") };
        }
    }
    words
}
