//! A town without sockets: each house has a post of its own, and can be cut off from the others.

use super::post::{Letter, Post, PostError};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, unfold};
use futures_util::{FutureExt, StreamExt};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, watch};

/// What is longer is not taken, as by a server with its usual settings.
const LONGEST: usize = 1 << 20;

/// Everybody who can write to each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Town {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    ears: Vec<Ear>,
    /// Those whose letters wait, and who hear nothing.
    cut_off: watch::Sender<BTreeSet<usize>>,
    inboxes: u64,
}

#[derive(Debug)]
struct Ear {
    house: usize,
    pattern: String,
    letters: mpsc::UnboundedSender<Letter>,
}

/// A house by its number; the same number is the same house.
#[derive(Clone, Debug)]
pub(crate) struct House {
    town: Town,
    number: usize,
}

impl Town {
    pub(crate) fn house(&self, number: usize) -> House {
        House { town: self.clone(), number }
    }

    /// From now on letters from there wait, and nothing arrives there; or no longer.
    pub(crate) fn cut_off(&self, number: usize, cut: bool) {
        self.lock().cut_off.send_modify(|houses| {
            if cut {
                houses.insert(number)
            } else {
                houses.remove(&number)
            };
        });
    }

    /// Nobody lives there any more.
    pub(crate) fn burn(&self, number: usize) {
        self.lock().ears.retain(|ear| ear.house != number);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl House {
    async fn reachable(&self) {
        let mut cut_off = self.town.lock().cut_off.subscribe();
        let _ = cut_off.wait_for(|houses| !houses.contains(&self.number)).await;
    }

    /// How many heard it, those included who are cut off: their system has it.
    fn deliver(&self, subject: &str, payload: &Bytes, reply: Option<&str>) -> usize {
        let mut state = self.town.lock();
        state.ears.retain(|ear| !ear.letters.is_closed());
        let cut_off = state.cut_off.borrow().clone();
        let ears = state.ears.iter().filter(|ear| ear.house != self.number && ear.hears(subject));
        ears.map(|ear| {
            if !cut_off.contains(&ear.house) {
                let reply = reply.map(str::to_owned);
                let _ = ear.letters.send(Letter { subject: subject.to_owned(), payload: payload.clone(), reply });
            }
        })
        .count()
    }

    fn listen(&self, pattern: String) -> mpsc::UnboundedReceiver<Letter> {
        let (letters, heard) = mpsc::unbounded_channel();
        self.town.lock().ears.push(Ear { house: self.number, pattern, letters });
        heard
    }
}

fn fits(payload: &Bytes) -> Result<(), PostError> {
    match payload.len() {
        0..=LONGEST => Ok(()),
        length => Err(PostError::NotTaken(format!("{length} bytes"))),
    }
}

impl Ear {
    fn hears(&self, subject: &str) -> bool {
        match self.pattern.strip_suffix('>') {
            Some(begins) => subject.starts_with(begins),
            None => self.pattern == subject,
        }
    }
}

impl Post for House {
    fn send(&self, subject: String, payload: Bytes) -> BoxFuture<'_, Result<(), PostError>> {
        let sending = async move {
            fits(&payload)?;
            self.reachable().await;
            self.deliver(&subject, &payload, None);
            Ok(())
        };
        sending.boxed()
    }

    fn ask(&self, subject: String, payload: Bytes) -> BoxFuture<'_, Result<Bytes, PostError>> {
        let asking = async move {
            fits(&payload)?;
            self.reachable().await;
            let inbox = {
                let mut state = self.town.lock();
                state.inboxes += 1;
                format!("inbox.{}", state.inboxes)
            };
            let mut answers = self.listen(inbox.clone());
            match self.deliver(&subject, &payload, Some(&inbox)) {
                0 => Err(PostError::NobodyThere),
                _ => answers.recv().await.map(|letter| letter.payload).ok_or(PostError::NobodyThere),
            }
        };
        asking.boxed()
    }

    fn hear(&self, subject: String) -> BoxFuture<'_, Result<BoxStream<'static, Letter>, PostError>> {
        let letters = self.listen(subject);
        let heard = unfold(letters, |mut letters| async { letters.recv().await.map(|letter| (letter, letters)) });
        async move { Ok(heard.boxed()) }.boxed()
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), PostError>> {
        self.reachable().map(Ok).boxed()
    }

    fn is_connected(&self) -> bool {
        !self.town.lock().cut_off.borrow().contains(&self.number)
    }
}
