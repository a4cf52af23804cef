//! The hub by itself: what is in whose mailbox, at times of the test's own.

use super::*;
use crate::frame;
use carom_core::feed::outbox::Options;
use serde_json::Value;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// A hub with one scope, and the time there.
struct Stage {
    hub: Hub,
    scope: ScopeId,
    now: Instant,
}

/// A client, by its mailbox.
struct Reader {
    client: ClientId,
    mailbox: Arc<Mailbox>,
}

impl Stage {
    fn new(throttle: Option<Duration>) -> Stage {
        let hub = Hub::new(throttle, true);
        let scope = hub.scope(&"scripted".into(), &"asha".into());
        Stage { hub, scope, now: Instant::now() }
    }

    fn reader(&self) -> Reader {
        self.reader_with(Options::default())
    }

    fn reader_with(&self, options: Options) -> Reader {
        let mailbox = Arc::new(Mailbox::new(options).unwrap());
        Reader { client: self.hub.connect(self.scope, &mailbox), mailbox }
    }

    /// A client that has this.
    fn reader_of(&self, topic: &Topic) -> Reader {
        let reader = self.reader();
        self.join(&reader, topic);
        reader
    }

    fn join(&self, reader: &Reader, topic: &Topic) {
        let (back, _) =
            self.hub.join(self.now, reader.client, std::slice::from_ref(topic), frame::text(r#"{"type":"subscribe"}"#));
        assert_eq!(back, []);
    }

    fn tick(&self, symbol: &str, mode: Mode, price: u32) {
        let message = Message { topic: format!("NSE_{symbol}_{mode}").into(), payload: price.to_string().into() };
        self.hub.carry(self.now, self.scope, &mut vec![message]);
    }

    /// The ticks in a mailbox: of which mode, what they say, and whether they are said to be the last known.
    fn read(&self, reader: &Reader) -> Vec<(u64, u64, bool)> {
        let mut frames = Vec::new();
        reader.mailbox.take(self.now, usize::MAX, &mut frames);
        let messages = frames.iter().map(|frame| {
            let start = frame.iter().position(|byte| *byte == b'{').unwrap();
            serde_json::from_slice::<Value>(&frame[start..]).unwrap()
        });
        let ticks = messages.filter(|message| message["type"] == "market_data");
        let number = |value: &Value| value.as_u64().unwrap();
        ticks.map(|tick| (number(&tick["mode"]), number(&tick["data"]), tick.get("snapshot").is_some())).collect()
    }
}

fn sbin(mode: Mode) -> Topic {
    Topic::new("NSE", "SBIN", mode)
}

#[test]
fn ticks_that_come_while_a_request_is_under_way_are_there_when_it_is_done() {
    let stage = Stage::new(None);
    let expected = stage.hub.expect(stage.now, stage.scope, &[sbin(Mode::Ltp)]);
    stage.tick("SBIN", Mode::Ltp, 1);
    stage.tick("INFY", Mode::Ltp, 2);
    let reader = stage.reader_of(&sbin(Mode::Ltp));
    drop(expected);
    stage.join(&reader, &Topic::new("NSE", "INFY", Mode::Ltp));
    assert_eq!(stage.read(&reader), [(1, 1, true)], "and of the other nobody wanted to know");
}

#[test]
fn a_price_that_is_hours_old_is_not_the_last_known_one() {
    let mut stage = Stage::new(None);
    let first = stage.reader_of(&sbin(Mode::Ltp));
    stage.tick("SBIN", Mode::Ltp, 1);
    stage.now += HOUR;
    let second = stage.reader_of(&sbin(Mode::Ltp));
    assert_eq!(stage.read(&second), [(1, 1, true)], "nothing was traded since, or the first would know");
    for reader in [first, second] {
        stage.hub.disconnect(stage.now, reader.client);
    }
    stage.now += SECOND;
    let again = stage.reader_of(&sbin(Mode::Ltp));
    assert_eq!(stage.read(&again), [(1, 1, true)], "it reconnects");
    stage.hub.leave_all(stage.now, again.client);
    stage.now += HOUR;
    stage.join(&again, &sbin(Mode::Ltp));
    let other = stage.reader_of(&sbin(Mode::Ltp));
    assert_eq!((stage.read(&again), stage.read(&other)), (vec![], vec![]), "who knows what was traded since");
}

#[test]
fn an_order_book_with_fewer_levels_is_not_the_last_known_one() {
    let stage = Stage::new(None);
    let (five, twenty) = (sbin(Mode::Depth), sbin(Mode::Depth).depth(20));
    let _first = stage.reader_of(&five);
    stage.tick("SBIN", Mode::Depth, 1);
    let deeper = stage.reader_of(&twenty);
    assert_eq!(stage.read(&deeper), []);
    stage.tick("SBIN", Mode::Depth, 2);
    assert_eq!(stage.read(&stage.reader_of(&five)), [(3, 2, true)], "it has more than that");

    stage.hub.leave(stage.now, deeper.client, &twenty.instrument, None);
    stage.tick("SBIN", Mode::Depth, 3);
    stage.join(&deeper, &twenty);
    assert_eq!(stage.read(&deeper), [], "while it was away there were 5 levels again");
}

#[test]
fn a_tick_that_came_while_the_last_known_one_was_written_is_not_replaced_by_it() {
    let stage = Stage::new(None);
    let _first = stage.reader_of(&sbin(Mode::Ltp));
    stage.tick("SBIN", Mode::Ltp, 1);
    let (reader, topics) = (stage.reader(), [sbin(Mode::Ltp)]);
    let last_words = stage.hub.lock().join(stage.now, reader.client, &topics, &mut Vec::new());
    stage.tick("SBIN", Mode::Quote, 2);
    let told = last_words.into_iter().filter_map(LastWord::into_text).collect();
    stage.hub.lock().tell(stage.now, reader.client, told, &mut Vec::new());
    assert_eq!(stage.read(&reader), [(1, 2, false)]);
}

#[test]
fn whatever_a_request_has_too_much_of_goes_back_however_long_it_is() {
    let stage = Stage::new(None);
    let topics: Vec<Topic> = (0..3 * STRETCH).map(|n| Topic::new("NSE", format!("S{n}"), Mode::Depth)).collect();
    let deeper: Vec<Topic> = topics.iter().map(|topic| topic.clone().depth(20)).collect();
    let (expected, reader) = (stage.hub.expect(stage.now, stage.scope, &topics), stage.reader());
    for n in 0..topics.len() {
        stage.tick(&format!("S{n}"), Mode::Depth, n as u32);
    }
    let join = |topics: &[Topic]| stage.hub.join(stage.now, reader.client, topics, Bytes::from_static(b"{}")).0;
    assert_eq!(join(&topics), []);
    drop(expected);
    assert_eq!(stage.read(&reader).len(), topics.len());
    assert_eq!(join(&topics), topics, "it has them already");
    assert_eq!(join(&deeper), topics, "it has these instead");
    assert_eq!(stage.read(&reader), []);
    stage.hub.disconnect(stage.now, reader.client);
    assert_eq!(join(&topics), topics, "it is gone");
}

#[test]
fn all_that_is_wanted_is_listed_in_order() {
    let stage = Stage::new(None);
    assert_eq!(stage.hub.wanted(stage.scope), []);
    let mut topics: Vec<Topic> = (0..2 * STRETCH).map(|n| Topic::new("NSE", format!("S{n}"), Mode::Quote)).collect();
    let reader = stage.reader();
    stage.hub.join(stage.now, reader.client, &topics, Bytes::from_static(b"{}"));
    topics.sort();
    let listed: Vec<_> = topics.into_iter().map(|topic| (topic.instrument, [0, 1, 0])).collect();
    assert_eq!(stage.hub.wanted(stage.scope), listed);
}

#[test]
fn a_price_that_is_held_back_is_told_in_time_however_much_else_is_said() {
    let mut stage = Stage::new(Some(SECOND));
    let reader = stage.reader_of(&sbin(Mode::Ltp));
    stage.tick("SBIN", Mode::Ltp, 1);
    stage.tick("SBIN", Mode::Ltp, 2);
    assert_eq!(stage.read(&reader), [(1, 1, false)]);
    stage.tick("INFY", Mode::Ltp, 3);
    assert_eq!(stage.read(&reader), []);
    stage.now += SECOND;
    stage.tick("INFY", Mode::Ltp, 4);
    assert_eq!(stage.read(&reader), [(1, 2, false)]);
    assert_eq!(stage.hub.next_due(stage.scope), None);
}

#[test]
fn whoever_subscribes_is_not_told_the_price_that_is_held_back_twice() {
    let mut stage = Stage::new(Some(SECOND));
    let first = stage.reader_of(&sbin(Mode::Ltp));
    stage.tick("SBIN", Mode::Ltp, 1);
    stage.tick("SBIN", Mode::Ltp, 2);
    let second = stage.reader_of(&sbin(Mode::Ltp));
    assert_eq!((stage.read(&first), stage.read(&second)), (vec![(1, 1, false)], vec![(1, 2, true)]));
    stage.now += SECOND;
    stage.hub.release(stage.now, stage.scope);
    assert_eq!((stage.read(&first), stage.read(&second)), (vec![(1, 2, false)], vec![]));

    stage.tick("SBIN", Mode::Ltp, 3);
    let third = stage.reader_of(&sbin(Mode::Ltp));
    stage.tick("SBIN", Mode::Ltp, 4);
    stage.now += SECOND;
    stage.hub.release(stage.now, stage.scope);
    assert_eq!(stage.read(&third), [(1, 4, false)], "what it was told is not the latest any more");
}

#[test]
fn a_price_that_is_held_back_is_no_ones_when_nobody_wants_it_any_more() {
    let mut stage = Stage::new(Some(SECOND));
    let reader = stage.reader_of(&sbin(Mode::Ltp));
    stage.tick("SBIN", Mode::Ltp, 1);
    stage.tick("SBIN", Mode::Ltp, 2);
    assert_eq!(stage.read(&reader), [(1, 1, false)]);
    stage.hub.leave_all(stage.now, reader.client);
    stage.join(&reader, &sbin(Mode::Quote));
    stage.now += SECOND;
    stage.hub.release(stage.now, stage.scope);
    assert_eq!(stage.read(&reader), []);
}

#[test]
fn nothing_of_what_was_given_up_stays_in_the_mailbox() {
    let stage = Stage::new(None);
    let topics: Vec<Topic> = Mode::ALL.into_iter().map(sbin).chain([Topic::new("NSE", "INFY", Mode::Ltp)]).collect();
    let reader = stage.reader();
    stage.hub.join(stage.now, reader.client, &topics, Bytes::from_static(b"{}"));
    let say = |price| ["SBIN", "INFY"].map(|symbol| stage.tick(symbol, Mode::Depth, price));
    say(1);
    stage.hub.leave(stage.now, reader.client, &sbin(Mode::Ltp).instrument, Some(Mode::Quote));
    assert_eq!(stage.read(&reader), [(1, 1, false), (3, 1, false), (1, 1, false)]);
    say(2);
    stage.hub.leave(stage.now, reader.client, &sbin(Mode::Ltp).instrument, None);
    assert_eq!(stage.read(&reader), [(1, 2, false)], "of the other one");
    say(3);
    stage.hub.leave_all(stage.now, reader.client);
    say(4);
    assert_eq!(stage.read(&reader), []);
    let other = stage.reader_of(&sbin(Mode::Ltp));
    say(5);
    stage.hub.disconnect(stage.now, other.client);
    assert_eq!(stage.read(&other), [], "it may be somebody else by now");
}

#[test]
fn what_gives_way_is_counted_once_and_nobodys_mailbox_is_looked_into_for_it() {
    let stage = Stage::new(None);
    let topic = Topic::new("NSE", "SBIN", Mode::Ltp);
    let readers = [(); 2].map(|()| stage.reader_with(Options { conflate_messages: 1, ..Options::default() }));
    readers.iter().for_each(|reader| stage.join(reader, &topic));
    (1..=3).for_each(|price| stage.tick("SBIN", Mode::Ltp, price));
    std::thread::scope(|scope| {
        let held = readers[0].mailbox.hold();
        let (says, said) = std::sync::mpsc::channel();
        scope.spawn(|| {
            let says = says;
            says.send(stage.hub.figures().conflated)
        });
        let counted = said.recv_timeout(Duration::from_secs(30));
        drop(held);
        assert_eq!(counted, Ok(4));
    });
    stage.hub.disconnect(stage.now, readers[0].client);
    assert_eq!((stage.hub.figures().conflated, stage.hub.figures().authenticated), (4, 1));
}

#[test]
fn what_gave_way_before_anybody_looked_at_it_has_come_too() {
    let stage = Stage::new(None);
    let reader = stage.reader_of(&Topic::new("NSE", "SBIN", Mode::Ltp));
    let tick = |price: &'static str| Message { topic: "NSE_SBIN_LTP".into(), payload: price.into() };
    let mut batch = vec![tick("1"), tick("2"), tick("3")];
    stage.hub.superseded(stage.scope, drop_superseded(&mut batch));
    stage.hub.carry(stage.now, stage.scope, &mut batch);
    let figures = stage.hub.figures();
    assert_eq!((figures.ticks, figures.conflated, reader.mailbox.backlog().1), (3, 2, 0));
}

#[test]
fn credentials_are_those_of_the_user_that_the_topic_names_and_the_payload_does_not_deny() {
    let stage = Stage::new(None);
    let mut malformed = 0;
    for (user, payload, expected) in [
        ("asha", r#"{"action":"invalidate","user_id":"asha","cache_type":"AUTH"}"#, Some(true)),
        ("asha", "{}", Some(true)),
        ("asha", r#"{"at":NaN}"#, Some(true)),
        ("ravi", r#"{"action":"invalidate","user_id":"ravi","cache_type":"AUTH"}"#, Some(false)),
        ("ravi", "{}", Some(false)),
        ("asha", r#"{"user_id":"ravi"}"#, None),
        ("ravi", r#"{"user_id":"asha"}"#, None),
        ("asha", r#"["asha"]"#, None),
        ("asha", "nonsense", None),
    ] {
        let message = Message { topic: format!("CACHE_INVALIDATE_ALL_{user}").into(), payload: payload.into() };
        let carried = stage.hub.carry(stage.now, stage.scope, &mut vec![message]);
        malformed += u64::from(expected.is_none());
        let figures = stage.hub.figures();
        assert_eq!((carried.invalidated, figures.malformed), (expected == Some(true), malformed), "{user} {payload}");
    }
}

#[test]
fn messages_that_make_no_sense_cost_those_around_them_nothing() {
    let stage = Stage::new(None);
    let reader = stage.reader_of(&sbin(Mode::Quote));
    let message = |topic: &str, payload: &'static str| Message { topic: topic.into(), payload: payload.into() };
    let mut batch = vec![
        message("NSE_SBIN_QUOTE", "1"),
        message("", "{}"),
        message("NSE_SBIN_2", "{}"),
        message("CACHE_INVALIDATE_asha", "{}"),
        message("NSE_SBIN_DEPTH", "{"),
        message("NSE_SBIN_LTP", "2"),
        message("A_asha_positions", "\u{0}"),
        message("NSE_SBIN_DEPTH", "3"),
    ];
    let carried = stage.hub.carry(stage.now, stage.scope, &mut batch);
    let senseless: Vec<_> = carried.senseless.iter().map(|(why, topic)| (*why, &**topic)).collect();
    let expected = [
        (Senseless::Topic, ""),
        (Senseless::Topic, "NSE_SBIN_2"),
        (Senseless::Topic, "CACHE_INVALIDATE_asha"),
        (Senseless::Tick, "NSE_SBIN_DEPTH"),
    ];
    assert_eq!(senseless, expected);
    assert_eq!(stage.read(&reader), [(2, 1, false), (2, 3, false)]);
    let figures = stage.hub.figures();
    assert_eq!((figures.malformed, figures.conflated, figures.lost), (4, 0, 0));
}

#[test]
fn what_has_no_price_is_no_tick_and_the_last_that_has_one_stays() {
    let stage = Stage::new(None);
    let reader = stage.reader_of(&sbin(Mode::Ltp));
    stage.tick("SBIN", Mode::Quote, 7);
    assert_eq!(stage.read(&reader), [(1, 7, false)]);
    for payload in [r#"{"ltp":NaN}"#, r#"{"open":1}"#, r#"{"ltp":"abc"}"#, "{}", "[1]", "null"] {
        let message = Message { topic: "NSE_SBIN_QUOTE".into(), payload: payload.into() };
        let carried = stage.hub.carry(stage.now, stage.scope, &mut vec![message]);
        assert_eq!(carried.senseless, [(Senseless::NoPrice, "NSE_SBIN_QUOTE".into())], "{payload}");
    }
    assert_eq!(stage.read(&reader), []);
    let late = stage.reader_of(&sbin(Mode::Ltp));
    assert_eq!(stage.read(&late), [(1, 7, true)]);
}

#[test]
fn the_brokers_name_in_front_of_a_topic_is_taken_off() {
    let stage = Stage::new(None);
    let (reader, nifty) = (stage.reader_of(&sbin(Mode::Ltp)), Topic::new("NSE_INDEX", "NIFTY", Mode::Ltp));
    stage.join(&reader, &nifty);
    let say = |topic: &str, price: u64| {
        let message = Message { topic: topic.into(), payload: price.to_string().into() };
        let carried = stage.hub.carry(stage.now, stage.scope, &mut vec![message]);
        assert_eq!(carried.senseless, []);
        stage.read(&reader)
    };
    assert_eq!(say("scripted_NSE_SBIN_LTP", 1), [(1, 1, false)]);
    assert_eq!(say("SCRIPTED_NSE_INDEX_NIFTY_QUOTE", 2), [(1, 2, false)]);
    assert_eq!(say("another_NSE_SBIN_LTP", 3), [], "it is not this one's");
    assert_eq!(say("NSE_SBIN_LTP", 4), [(1, 4, false)]);
    assert_eq!(say("scripted_NSE_SBIN_LTP", 4), [], "it was said already");
    assert_eq!(say("scripted_NSE_SBIN_LTP", 5), [(1, 5, false)]);
    assert_eq!(say("NSE_SBIN_LTP", 5), []);
    // Whoever wants it as it is written gets it.
    stage.join(&reader, &Topic::new("scripted", "NSE_SBIN", Mode::Ltp));
    assert_eq!(say("scripted_NSE_SBIN_LTP", 6), [(1, 6, false)]);
    assert_eq!(say("NSE_SBIN_LTP", 6), [(1, 6, false)]);
}

#[test]
fn what_came_over_a_bus_is_known_and_when() {
    let mut stage = Stage::new(None);
    let _reader = stage.reader_of(&sbin(Mode::Ltp));
    let heard = |stage: &Stage| (stage.hub.heard(stage.scope).ticks, stage.hub.heard(stage.scope).last);
    assert_eq!(heard(&stage), (0, None));
    let first = stage.now;
    stage.tick("INFY", Mode::Ltp, 1);
    assert_eq!(heard(&stage), (1, Some(first)), "whether anybody wants it or not");
    stage.now += SECOND;
    stage.tick("SBIN", Mode::Ltp, 2);
    let second = stage.now;
    stage.now += SECOND;
    let senseless = Message { topic: "NSE_SBIN_LTP".into(), payload: "{}".into() };
    stage.hub.carry(stage.now, stage.scope, &mut vec![senseless]);
    stage.hub.superseded(stage.scope, 4);
    assert_eq!(heard(&stage), (7, Some(second)));
}

#[test]
fn why_an_order_goes_to_nobody_is_known() {
    let stage = Stage::new(None);
    for (payload, expected) in [
        (r#"{"user_id":"asha"}"#, None),
        ("nonsense", Some(Senseless::Order)),
        (r#"["asha"]"#, Some(Senseless::Order)),
        ("{}", Some(Senseless::NobodysOrder)),
        (r#"{"user_id":"ravi"}"#, Some(Senseless::StrangeOrder)),
    ] {
        let message = Message { topic: "ANALYZE_asha_orders".into(), payload: payload.into() };
        let carried = stage.hub.carry(stage.now, stage.scope, &mut vec![message]);
        assert_eq!(carried.senseless.first().map(|(why, _)| *why), expected, "{payload}");
    }
}
