//! Interest: who wants what, and who gets a tick.
//!
//! Clients belong to a scope, a user at a broker; ticks of one scope are nobody else's. For each instrument there is one
//! list of those who want it, side by side in memory, each with the modes it wants; a tick is one lookup and one walk over that
//! list. Each client gets one message for each mode it wants that the tick contains.
//!
//! ```
//! use carom_core::feed::interest::Interest;
//! use carom_core::feed::{Mode, Topic};
//!
//! let mut interest = Interest::new();
//! let scope = interest.scope("zerodha", "asha");
//! let client = interest.connect(scope);
//! let topic = Topic::new("NSE", "SBIN", Mode::Ltp);
//! interest.subscribe(client, &topic);
//! interest.subscribe(client, &Topic::new("NSE", "SBIN", Mode::Depth));
//!
//! let of_a_quote: Vec<_> = interest.recipients(scope, &topic.instrument, Mode::Quote).collect();
//! assert_eq!(of_a_quote, [(client, Mode::Ltp)]);
//! let of_the_book: Vec<_> = interest.recipients(scope, &topic.instrument, Mode::Depth).collect();
//! assert_eq!(of_the_book, [(client, Mode::Ltp), (client, Mode::Depth)]);
//! ```

use super::topic::{DEFAULT_DEPTH, Instrument, Level, Mode, Topic};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Names a user at a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScopeId(u32);

/// Names a client. The index is small, and is used again when the client is gone; the name as a whole is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId {
    index: u32,
    epoch: u32,
}

impl ClientId {
    /// A small number that no other connected client has: for tables.
    pub fn index(self) -> usize {
        self.index as usize
    }
}

/// What came of a client's subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Joined {
    /// It did not have this mode of the instrument.
    New,
    /// It had the very same.
    Already,
    /// It had this mode at another depth, which is not wanted any more.
    Instead(Topic),
    /// There is no such client.
    Unknown,
}

/// Who wants what.
#[derive(Debug, Default)]
pub struct Interest {
    scopes: Vec<Scope>,
    names: BTreeMap<(Arc<str>, Arc<str>), ScopeId>,
    topics: Vec<Wanted>,
    free_topics: Vec<u32>,
    clients: Vec<Client>,
    free: Vec<u32>,
    /// Client, instrument and mode: how many there are of these.
    subscriptions: usize,
}

#[derive(Debug, Default)]
struct Scope {
    /// Where the wishes for an instrument are.
    topics: BTreeMap<Instrument, u32>,
}

/// An instrument that somebody in a scope wants.
#[derive(Debug)]
struct Wanted {
    instrument: Instrument,
    /// In the order of clients.
    wishes: Vec<Wish>,
    /// How many of these are for each mode.
    counts: [u32; 3],
}

/// What one client wants of one instrument: the depth of each mode, 0 where it does not want the mode.
#[derive(Clone, Copy, Debug)]
struct Wish {
    client: ClientId,
    depths: [u16; 3],
}

#[derive(Debug)]
struct Client {
    epoch: u32,
    /// `None` when it is gone.
    connected: Option<Connected>,
}

#[derive(Debug)]
struct Connected {
    scope: ScopeId,
    /// What it wants, by where the wishes for it are; in order.
    wants: Vec<u32>,
    /// How many modes of these in all.
    subscriptions: usize,
}

impl Interest {
    /// Nobody wants anything.
    pub fn new() -> Interest {
        Interest::default()
    }

    /// The scope of this user at this broker.
    pub fn scope(&mut self, broker: &str, user: &str) -> ScopeId {
        let Interest { scopes, names, .. } = self;
        *names.entry((broker.into(), user.into())).or_insert_with(|| {
            scopes.push(Scope::default());
            ScopeId(scopes.len() as u32 - 1)
        })
    }

    /// A client has come that may see what this user sees.
    pub fn connect(&mut self, scope: ScopeId) -> ClientId {
        let connected = Some(Connected { scope, wants: Vec::new(), subscriptions: 0 });
        match self.free.pop() {
            Some(index) => {
                let client = &mut self.clients[index as usize];
                client.connected = connected;
                ClientId { index, epoch: client.epoch }
            }
            None => {
                self.clients.push(Client { epoch: 0, connected });
                ClientId { index: self.clients.len() as u32 - 1, epoch: 0 }
            }
        }
    }

    /// A client is gone. What it wanted until now, instrument by instrument, lowest mode first.
    pub fn disconnect(&mut self, client: ClientId) -> Vec<Topic> {
        let left = self.unsubscribe_all(client);
        if let Some(found) = self.clients.get_mut(client.index()).filter(|found| found.epoch == client.epoch)
            && found.connected.take().is_some()
        {
            found.epoch = found.epoch.wrapping_add(1);
            self.free.push(client.index);
        }
        left
    }

    /// A client wants this topic.
    pub fn subscribe(&mut self, client: ClientId, topic: &Topic) -> Joined {
        let Some(scope) = self.scope_of(client) else { return Joined::Unknown };
        let topic_at = self.wanted_at(scope, &topic.instrument);
        let Wanted { wishes, counts, .. } = &mut self.topics[topic_at as usize];
        let at = match wishes.binary_search_by_key(&client, |wish| wish.client) {
            Ok(at) => at,
            Err(at) => {
                wishes.insert(at, Wish { client, depths: [0; 3] });
                if let Some(Some(connected)) = self.clients.get_mut(client.index()).map(|found| &mut found.connected)
                    && let Err(at) = connected.wants.binary_search(&topic_at)
                {
                    connected.wants.insert(at, topic_at);
                }
                at
            }
        };
        let depth = &mut wishes[at].depths[topic.mode().index()];
        let before = std::mem::replace(depth, topic.level.depth.max(1));
        match before {
            0 => {
                counts[topic.mode().index()] += 1;
                self.subscriptions += 1;
                if let Some(connected) = self.connected_mut(client) {
                    connected.subscriptions += 1;
                }
                Joined::New
            }
            same if same == *depth => Joined::Already,
            other => Joined::Instead(topic.clone().depth(other)),
        }
    }

    /// A client does not want this mode of this instrument any more. What it had, if it had it.
    pub fn unsubscribe(&mut self, client: ClientId, instrument: &Instrument, mode: Mode) -> Option<Topic> {
        let scope = self.scope_of(client)?;
        let topics = &mut self.scopes[scope.0 as usize].topics;
        let topic_at = *topics.get(instrument)?;
        let Wanted { wishes, counts, .. } = &mut self.topics[topic_at as usize];
        let at = wishes.binary_search_by_key(&client, |wish| wish.client).ok()?;
        let depth = std::mem::take(&mut wishes[at].depths[mode.index()]);
        if depth == 0 {
            return None;
        }
        counts[mode.index()] -= 1;
        self.subscriptions -= 1;
        let gone = wishes[at].depths == [0; 3];
        if gone {
            wishes.remove(at);
            if wishes.is_empty() {
                wishes.shrink_to_fit();
                topics.remove(instrument);
                self.free_topics.push(topic_at);
            }
        }
        if let Some(connected) = self.connected_mut(client) {
            connected.subscriptions -= 1;
            if gone && let Ok(at) = connected.wants.binary_search(&topic_at) {
                connected.wants.remove(at);
            }
        }
        Some(Topic { instrument: instrument.clone(), level: Level { mode, depth } })
    }

    /// A client wants nothing any more, and stays. What it wanted until now.
    pub fn unsubscribe_all(&mut self, client: ClientId) -> Vec<Topic> {
        let left = self.subscriptions_of(client);
        self.subscriptions -= left.len();
        let Some(connected) = self.connected_mut(client) else { return left };
        let nothing = Connected { scope: connected.scope, wants: Vec::new(), subscriptions: 0 };
        let Connected { scope, wants, .. } = std::mem::replace(connected, nothing);
        for topic_at in wants {
            let Wanted { instrument, wishes, counts } = &mut self.topics[topic_at as usize];
            if let Ok(at) = wishes.binary_search_by_key(&client, |wish| wish.client) {
                let gone = wishes.remove(at);
                counts.iter_mut().zip(gone.depths).for_each(|(count, depth)| *count -= u32::from(depth != 0));
            }
            if wishes.is_empty() {
                wishes.shrink_to_fit();
                self.scopes[scope.0 as usize].topics.remove(instrument);
                self.free_topics.push(topic_at);
            }
        }
        left
    }

    /// At which depth a client wants this mode of an instrument, if it does.
    pub fn depth_of(&self, client: ClientId, instrument: &Instrument, mode: Mode) -> Option<u16> {
        let wishes = self.wishes(self.connected(client)?.scope, instrument);
        let at = wishes.binary_search_by_key(&client, |wish| wish.client).ok()?;
        Some(wishes[at].depths[mode.index()]).filter(|depth| *depth != 0)
    }

    /// How many subscriptions a client has: each mode of each instrument.
    pub fn count_of(&self, client: ClientId) -> usize {
        self.connected(client).map_or(0, |connected| connected.subscriptions)
    }

    /// What a client wants, instrument by instrument, lowest mode first.
    pub fn subscriptions_of(&self, client: ClientId) -> Vec<Topic> {
        let Some(connected) = self.connected(client) else { return Vec::new() };
        let wishes = connected.wants.iter().filter_map(|at| {
            let Wanted { instrument, wishes, .. } = &self.topics[*at as usize];
            let at = wishes.binary_search_by_key(&client, |wish| wish.client).ok()?;
            Some((instrument, wishes[at]))
        });
        let mut topics: Vec<Topic> = wishes.flat_map(|(instrument, wish)| wish.topics(instrument)).collect();
        topics.sort();
        topics
    }

    /// Who gets a tick of this mode, and tagged with which modes: every client once for each mode it wants that the tick
    /// contains.
    pub fn recipients(
        &self,
        scope: ScopeId,
        instrument: &Instrument,
        tick: Mode,
    ) -> impl Iterator<Item = (ClientId, Mode)> {
        let wishes = self.wishes(scope, instrument);
        let modes = &Mode::ALL[..=tick.index()];
        wishes.iter().flat_map(move |wish| {
            let wanted = modes.iter().filter(|mode| wish.depths[mode.index()] != 0);
            wanted.map(|mode| (wish.client, *mode))
        })
    }

    /// How many clients want each mode of an instrument.
    pub fn counts(&self, scope: ScopeId, instrument: &Instrument) -> [usize; 3] {
        self.wanted(scope, instrument).map_or([0; 3], Wanted::counts)
    }

    /// How much of an instrument must be streamed for all in a scope to have what they want; `None` if nobody wants it.
    pub fn greatest(&self, scope: ScopeId, instrument: &Instrument) -> Option<Level> {
        let Wanted { wishes, counts, .. } = self.wanted(scope, instrument)?;
        let mode = Mode::ALL.into_iter().rfind(|mode| counts[mode.index()] != 0)?;
        let depth = match mode {
            Mode::Ltp | Mode::Quote => DEFAULT_DEPTH,
            Mode::Depth => wishes.iter().map(|wish| wish.depths[mode.index()]).max()?,
        };
        Some(Level { mode, depth })
    }

    /// What is wanted in a scope, and by how many clients in each mode; in the order of symbols.
    pub fn topics(&self, scope: ScopeId) -> impl Iterator<Item = (&Instrument, [usize; 3])> {
        let topics = self.scopes.get(scope.0 as usize).into_iter().flat_map(|scope| &scope.topics);
        topics.map(|(instrument, at)| (instrument, self.topics[*at as usize].counts()))
    }

    /// As [`topics`](Interest::topics), those that come after this one.
    pub fn topics_after(
        &self,
        scope: ScopeId,
        instrument: &Instrument,
    ) -> impl Iterator<Item = (&Instrument, [usize; 3])> {
        let after = (Bound::Excluded(instrument), Bound::Unbounded);
        let topics = self
            .scopes
            .get(scope.0 as usize)
            .into_iter()
            .flat_map(move |scope| scope.topics.range::<Instrument, _>(after));
        topics.map(|(instrument, at)| (instrument, self.topics[*at as usize].counts()))
    }

    /// How many clients are connected.
    pub fn clients(&self) -> usize {
        self.clients.len() - self.free.len()
    }

    /// How many subscriptions there are in all: of each client, each mode of each instrument.
    pub fn subscriptions(&self) -> usize {
        self.subscriptions
    }

    /// Which scope a client belongs to, if it is connected.
    pub fn scope_of(&self, client: ClientId) -> Option<ScopeId> {
        self.connected(client).map(|connected| connected.scope)
    }

    fn wishes(&self, scope: ScopeId, instrument: &Instrument) -> &[Wish] {
        self.wanted(scope, instrument).map_or(&[], |wanted| wanted.wishes.as_slice())
    }

    fn wanted(&self, scope: ScopeId, instrument: &Instrument) -> Option<&Wanted> {
        let at = self.scopes.get(scope.0 as usize)?.topics.get(instrument)?;
        self.topics.get(*at as usize)
    }

    /// Where the wishes for an instrument are; there may be none yet.
    fn wanted_at(&mut self, scope: ScopeId, instrument: &Instrument) -> u32 {
        let Interest { scopes, topics, free_topics, .. } = self;
        let known = &mut scopes[scope.0 as usize].topics;
        if let Some(at) = known.get(instrument) {
            return *at;
        }
        let wanted = Wanted { instrument: instrument.clone(), wishes: Vec::new(), counts: [0; 3] };
        let at = match free_topics.pop() {
            Some(at) => {
                topics[at as usize] = wanted;
                at
            }
            None => {
                topics.push(wanted);
                topics.len() as u32 - 1
            }
        };
        known.insert(instrument.clone(), at);
        at
    }

    fn connected_mut(&mut self, client: ClientId) -> Option<&mut Connected> {
        self.clients.get_mut(client.index()).filter(|found| found.epoch == client.epoch)?.connected.as_mut()
    }

    fn connected(&self, client: ClientId) -> Option<&Connected> {
        self.clients.get(client.index()).filter(|found| found.epoch == client.epoch)?.connected.as_ref()
    }
}

impl Wanted {
    fn counts(&self) -> [usize; 3] {
        self.counts.map(|count| count as usize)
    }
}

impl Wish {
    fn topics(self, instrument: &Instrument) -> impl Iterator<Item = Topic> {
        let modes = Mode::ALL.into_iter().filter(move |mode| self.depths[mode.index()] != 0);
        modes.map(move |mode| {
            let level = Level { mode, depth: self.depths[mode.index()] };
            Topic { instrument: instrument.clone(), level }
        })
    }
}
