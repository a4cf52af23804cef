//! The list: everything there is, in sections, in order, as lines.

use super::line::{Line, Tone};
use super::object::{self, Fact, Urgency, headline};
use super::sight::{Sight, count, number};
use crate::admin::view::{Service, Status, View};
use carom::monitor::{Id, Object, Seen};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// What one can stand on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Service(String),
    /// There may be several of one name; they have different addresses.
    Leaving(String, String),
    Object(Id),
}

/// What comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    #[default]
    Trouble,
    Name,
}

/// Something in the list, and where its lines are.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) key: Key,
    pub(super) section: usize,
    pub(super) lines: std::ops::Range<usize>,
}

/// The list.
#[derive(Clone, Debug, Default)]
pub(super) struct List {
    pub(super) items: Vec<Item>,
    pub(super) lines: Vec<Line>,
}

/// Everything that has this text somewhere; all of it if there is none.
pub(super) fn list(sight: Sight<'_>, filter: &str, order: Order) -> List {
    let filter = filter.to_lowercase();
    let view = sight.view;
    let services: Vec<Group<'_>> =
        view.services.iter().map(|service| Group::of_service(service, view, false)).collect();
    let leaving: Vec<Group<'_>> = view.leaving.iter().map(|service| Group::of_service(service, view, true)).collect();
    let owned: BTreeSet<Id> =
        view.services.iter().chain(&view.leaving).flat_map(|service| service.objects.clone()).collect();
    let alone = view.monitor.objects.iter().filter(|seen| !owned.contains(&seen.id));
    let of_kind =
        |is: fn(&Object) -> bool| alone.clone().filter(|seen| is(&seen.object)).map(Group::of_object).collect();
    let sections = [
        ("Services", services),
        ("Leaving", leaving),
        ("Pools", of_kind(|object| matches!(object, Object::Pool(_)))),
        ("Sets", of_kind(|object| matches!(object, Object::Set(_)))),
        ("Gateways", of_kind(|object| matches!(object, Object::Gateway(_)))),
        ("Feeds", of_kind(|object| matches!(object, Object::Feed(_)))),
        ("Windows", of_kind(|object| matches!(object, Object::Window(_)))),
        ("Resolvers", of_kind(|object| matches!(object, Object::Resolver(_)))),
    ];
    let mut list = List::default();
    for (number, (title, mut groups)) in sections.into_iter().enumerate() {
        groups.iter_mut().for_each(|group| group.keep(&filter));
        groups.retain(|group| group.service.is_some() || !group.objects.is_empty());
        match order {
            Order::Trouble => groups.sort_by_key(|group| (Reverse(group.urgency()), group.name())),
            Order::Name => groups.sort_by_key(Group::name),
        }
        if groups.is_empty() {
            continue;
        }
        list.lines.push(Line::new().add(Tone::Title, title).add(Tone::Dim, format_args!(" ({})", groups.len())));
        for group in groups {
            list.add(&group, number, sight);
        }
    }
    list
}

/// Whom a resolver serves.
pub(super) fn served_by(resolver: Id, view: &View) -> Vec<Id> {
    let asks = |seen: &&Seen| match &seen.object {
        Object::Pool(pool) => pool.resolver == Some(resolver),
        Object::Set(set) => set.resolver == Some(resolver),
        _ => false,
    };
    view.monitor.objects.iter().filter(asks).map(|seen| seen.id).collect()
}

/// The page of something, if it is still there.
pub(super) fn page(key: &Key, sight: Sight<'_>) -> Option<Vec<Line>> {
    let view = sight.view;
    let service = match key {
        Key::Object(id) => return Some(object::page(sight.object(*id)?, sight)),
        Key::Service(name) => view.services.iter().find(|service| service.name == *name)?,
        Key::Leaving(name, listen) => {
            view.leaving.iter().find(|service| service.name == *name && service.listen == *listen)?
        }
    };
    let mut lines = service_lines(service, sight);
    for id in &service.objects {
        lines.push(Line::new());
        lines.extend(sight.object(*id).map(|seen| object::page(seen, sight)).unwrap_or_default());
    }
    Some(lines)
}

impl List {
    fn add<'a>(&mut self, group: &Group<'a>, section: usize, sight: Sight<'a>) {
        if let Some(service) = group.service {
            let (name, listen) = (service.name.clone(), service.listen.clone());
            let key = if group.leaving { Key::Leaving(name, listen) } else { Key::Service(name) };
            self.push(key, section, service_lines(service, sight));
        }
        let indent = if group.service.is_some() { 2 } else { 0 };
        let sight = Sight { said: group.service.and_then(|service| service.trouble.as_deref()), ..sight };
        for seen in &group.objects {
            self.push(Key::Object(seen.id), section, object::summary(seen, sight, indent));
        }
    }

    fn push(&mut self, key: Key, section: usize, lines: Vec<Line>) {
        let begin = self.lines.len();
        self.lines.extend(lines);
        self.items.push(Item { key, section, lines: begin..self.lines.len() });
    }
}

/// A service with its objects, or one object that is no service's.
struct Group<'a> {
    service: Option<&'a Service>,
    leaving: bool,
    objects: Vec<&'a Seen>,
}

impl<'a> Group<'a> {
    fn of_service(service: &'a Service, view: &'a View, leaving: bool) -> Group<'a> {
        let objects = view.monitor.objects.iter().filter(|seen| service.objects.contains(&seen.id)).collect();
        Group { service: Some(service), leaving, objects }
    }

    fn of_object(seen: &'a Seen) -> Group<'a> {
        Group { service: None, leaving: false, objects: vec![seen] }
    }

    /// Drops what has this text nowhere. Of a service that has it everything stays, and a service stays for its objects' sake.
    fn keep(&mut self, filter: &str) {
        let has = |text: &str| text.to_lowercase().contains(filter);
        if self.service.is_some_and(|service| has(&service.name) || has(&service.listen) || has(&service.protocol)) {
            return;
        }
        self.objects.retain(|seen| object::has(seen, filter));
        if self.objects.is_empty() {
            self.service = None;
        }
    }

    fn urgency(&self) -> Urgency {
        let own = self.service.map(|service| match service.status {
            Status::Unavailable => Urgency::Failed,
            Status::Degraded => Urgency::Impaired,
            Status::Saturated | Status::Draining => Urgency::Strained,
            Status::Ok | Status::Unknown => Urgency::Fine,
        });
        let objects = self.objects.iter().map(|seen| object::urgency(seen)).max();
        own.max(objects).unwrap_or(Urgency::Fine)
    }

    /// Those of one name stay in the order they came in.
    fn name(&self) -> String {
        let name = self.service.map(|service| &service.name).or(self.objects.first().map(|seen| &seen.name));
        name.map(|name| name.to_lowercase()).unwrap_or_default()
    }
}

fn service_lines(service: &Service, sight: Sight<'_>) -> Vec<Line> {
    let mut facts: Vec<Fact> = vec![(Tone::Plain, service.listen.clone())];
    facts.push((Tone::Plain, count(service.clients, "client")));
    facts.push((Tone::Plain, format!("{} served", number(service.served))));
    if service.failed > 0 {
        facts.push((Tone::Warn, format!("{} failed", number(service.failed))));
    }
    let mut lines = vec![headline(&service.name, &service.protocol, status(service.status), &facts, sight, 0)];
    lines.extend(service.trouble.as_ref().map(|trouble| Line::new().add(Tone::Bad, "  ! ").plain(trouble)));
    lines
}

pub(super) fn status(status: Status) -> (Tone, &'static str) {
    match status {
        Status::Ok => (Tone::Good, "ok"),
        Status::Unknown => (Tone::Plain, "unknown"),
        Status::Degraded => (Tone::Bad, "DEGRADED"),
        Status::Saturated => (Tone::Warn, "SATURATED"),
        Status::Unavailable => (Tone::Bad, "UNAVAILABLE"),
        Status::Draining => (Tone::Warn, "DRAINING"),
    }
}
