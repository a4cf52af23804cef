//! What is drawn, of views of every kind, on screens of every size.

use super::draw::{Colours, draw};
use super::keys::{Next, press};
use super::model::{Model, Place};
use super::picture::picture;
use super::rows::Key;
use super::text;
use crate::admin::view::View;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const VIEW: &str = include_str!("../../tests/it/top/view.json");

fn view() -> View {
    serde_json::from_str(VIEW).unwrap()
}

/// The view, with a change.
fn changed(change: impl FnOnce(&mut Value)) -> View {
    let mut value: Value = serde_json::from_str(VIEW).unwrap();
    change(&mut value);
    serde_json::from_value(value).unwrap()
}

/// A screen of some size, with what is on it.
struct Looking {
    terminal: Terminal<TestBackend>,
    model: Model,
    now: Instant,
}

impl Looking {
    fn at(view: View, width: u16, height: u16) -> Looking {
        let now = Instant::now();
        let terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        Looking { terminal, model: Model::new("http://127.0.0.1:9464".to_owned(), view, now), now }
    }

    /// The lines on the screen, without the blanks at their ends.
    fn lines(&mut self) -> Vec<String> {
        let (model, now) = (&mut self.model, self.now);
        self.terminal
            .draw(|frame| {
                let area = frame.area();
                let picture = picture(model, area.width.into(), area.height.into(), now);
                assert!(picture.body.len() + picture.header.len() <= usize::from(area.height).max(1));
                draw(&picture, Colours::Some, area, frame.buffer_mut());
            })
            .unwrap();
        let buffer = self.terminal.backend().buffer();
        let width = usize::from(buffer.area.width).max(1);
        let rows = buffer.content.chunks(width);
        let text = |row: &[ratatui::buffer::Cell]| row.iter().map(|cell| cell.symbol()).collect::<String>();
        rows.map(|row| text(row).trim_end().to_owned()).collect()
    }

    fn text(&mut self) -> String {
        self.lines().join("\n")
    }

    fn press(&mut self, key: KeyCode) -> Next {
        self.press_with(key, KeyModifiers::NONE)
    }

    fn press_with(&mut self, key: KeyCode, modifiers: KeyModifiers) -> Next {
        let size = self.terminal.backend().buffer().area;
        let list = picture(&mut self.model, size.width.into(), size.height.into(), self.now).list;
        press(&mut self.model, KeyEvent::new(key, modifiers), &list, self.now)
    }

    fn type_all(&mut self, text: &str) {
        for c in text.chars() {
            self.press(KeyCode::Char(c));
        }
    }

    /// The line that one stands on.
    fn selected(&mut self) -> String {
        let line = self.lines().into_iter().find(|line| line.starts_with("> "));
        line.unwrap_or_default().split_whitespace().skip(1).take(2).collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn everything_is_on_a_large_screen() {
    let lines = Looking::at(view(), 110, 38).lines();
    assert_eq!(lines.join("\n").trim_end(), include_str!("tests/large.txt").trim_end());
}

#[test]
fn a_small_screen_shows_what_matters_most() {
    let mut looking = Looking::at(view(), 40, 10);
    assert_eq!(looking.text().trim_end(), include_str!("tests/small.txt").trim_end());
}

/// The page of the object of this name.
fn page(view: View, name: &str) -> String {
    let mut looking = Looking::at(view, 100, 60);
    let id = looking.model.sight(0, looking.now).view.monitor.objects.iter().find(|seen| seen.name == name).unwrap().id;
    looking.model.place = Place::Page { key: Key::Object(id), scroll: 0 };
    let lines = looking.lines();
    let last = lines.len() - 1;
    let page: Vec<&str> = lines[2..last].iter().map(|line| &**line).collect();
    page.join("\n").trim_end().to_owned()
}

#[test]
fn a_page_has_everything_of_an_object() {
    let names = ["orders", "orders h2", "orders.test", "ledger", "zerodha/asha", "gateway"];
    let pages: Vec<String> = names.iter().map(|name| page(view(), name)).collect();
    assert_eq!(pages.join("\n\n"), include_str!("tests/pages.txt").trim_end());
}

#[test]
fn who_owns_what_several_gateways_have_is_on_the_page() {
    for (owns, owner, epoch, sessions, shown) in [
        (true, json!("here-1"), json!(7), 2, "  owned here, epoch 7, 2 relayed"),
        (false, json!("there-2"), json!(8), 0, "  owned by there-2, epoch 8"),
        (false, json!(null), json!(null), 0, "  owned by nobody that is known"),
    ] {
        let view = changed(|value| {
            let objects = value["monitor"]["objects"].as_array_mut().unwrap();
            let gateway = objects.iter_mut().find(|object| object["name"] == "gateway").unwrap();
            let share = json!({"member": "here-1", "owns": owns, "owner": owner, "epoch": epoch, "sessions": sessions});
            gateway["feeds"][0]["share"] = share;
        });
        let (once, page) = (text::text(&view, 120), page(view, "gateway"));
        let shown = format!("{shown}, no tick yet");
        assert!(page.lines().any(|line| line.ends_with(&shown)), "{shown}: {page}");
        assert!(once.lines().any(|line| line.ends_with(&format!("asha at zerodha{shown}"))), "{shown}: {once}");
    }
}

#[test]
fn nats_that_cannot_be_reached_is_named() {
    for (peers, is_away) in [(0, true), (1, false)] {
        let view = changed(|value| {
            let objects = value["monitor"]["objects"].as_array_mut().unwrap();
            let gateway = objects.iter_mut().find(|object| object["name"] == "gateway").unwrap();
            gateway["feeds"][0]["bus"] = json!({"kind": "nats", "peers": peers, "dropped": 0, "refused": 0});
        });
        assert_eq!(text::text(&view, 120).contains("1 feed  NATS cannot be reached\n"), is_away);
    }
}

#[test]
fn who_publishes_for_a_feed_from_outside_is_shown_and_nothing_is_made_up() {
    let view = changed(|value| {
        let objects = value["monitor"]["objects"].as_array_mut().unwrap();
        let mut named = |name: &str| objects.iter_mut().position(|object| object["name"] == name).unwrap();
        let (gateway, feed) = (named("gateway"), named("zerodha/asha"));
        objects[gateway]["malformed"] = json!(5);
        objects[gateway]["feeds"][0]["bus"] = json!({"kind": "zeromq", "peers": 2, "dropped": 0, "refused": 0});
        objects[gateway]["feeds"][0]["last_tick_ms"] = json!(300);
        objects[feed]["outside"] = json!(true);
    });
    let once = text::text(&view, 120);
    assert!(once.contains("asha at zerodha  on zeromq, 2 peers, last tick 0.3 s ago"), "{once}");
    assert!(once.contains("5 malformed"), "{once}");
    for invented in ["of 3000", "heard", "2 connections"] {
        assert!(!once.contains(invented), "{invented}: {once}");
        let feed = page(view.clone(), "zerodha/asha");
        assert!(!feed.contains(invented) && feed.contains("1200"), "{invented}: {feed}");
    }
}

#[test]
fn what_an_upstream_said_that_became_no_tick_is_on_the_page() {
    let view = changed(|value| {
        let objects = value["monitor"]["objects"].as_array_mut().unwrap();
        let feed = objects.iter_mut().find(|object| object["name"] == "zerodha/asha").unwrap();
        feed["passed_over"] = json!({"malformed": 3, "orders": 7});
    });
    let page = page(view, "zerodha/asha");
    assert!(page.contains("  malformed         3\n  orders            7"), "{page}");
}

#[test]
fn once_is_plain_text_with_nothing_left_out() {
    let text = text::text(&view(), 120);
    assert_eq!(text, include_str!("tests/once.txt"));
}

#[test]
fn no_screen_is_too_small_and_none_too_large() {
    let many = changed(|value| {
        let pool = &mut value["monitor"]["objects"][0];
        let mut backend = pool["backends"][2].clone();
        backend["slots"] = json!(vec![json!({"phase": "busy"}); 10]);
        pool["backends"] = json!(vec![backend; 100]);
    });
    let empty = changed(|value| {
        value["services"] = json!([]);
        value["leaving"] = json!([]);
        value["monitor"]["objects"] = json!([]);
        value["history"] = json!({});
    });
    for view in [view(), many, empty] {
        for (width, height) in [(0, 0), (1, 1), (3, 2), (12, 5), (20, 6), (40, 10), (80, 24), (300, 100)] {
            let mut looking = Looking::at(view.clone(), width, height);
            for key in "jjjjGgksss \u{2}?jG?/p/ord".chars() {
                looking.lines();
                looking.press(if key == '\u{2}' { KeyCode::Tab } else { KeyCode::Char(key) });
            }
            for key in [
                KeyCode::Enter,
                KeyCode::Enter,
                KeyCode::End,
                KeyCode::PageUp,
                KeyCode::Esc,
                KeyCode::Esc,
                KeyCode::BackTab,
            ] {
                looking.lines();
                looking.press(key);
            }
            looking.lines();
        }
    }
}

#[test]
fn of_a_thousand_slots_the_strip_fits_and_the_page_has_all() {
    let many = changed(|value| {
        let slots = [vec![json!({"phase": "busy"}); 700], vec![json!({"phase": "idle"}); 300]].concat();
        value["monitor"]["objects"][0]["backends"][0]["slots"] = json!(slots);
    });
    let mut looking = Looking::at(many, 80, 24);
    let text = looking.text();
    assert!(text.contains("700 busy"), "{text}");
    let strip = looking.lines().into_iter().find(|line| line.contains("BBBB")).unwrap();
    assert!(strip.contains("IIII") && strip.contains('W') && strip.trim().chars().count() <= 74, "{strip}");
    looking.terminal.backend_mut().resize(80, 80);
    looking.press(KeyCode::Down);
    looking.press(KeyCode::Enter);
    let lines = looking.lines();
    let strips = lines.iter().filter(|line| line.starts_with("    ") && line.trim().chars().all(|c| "BI".contains(c)));
    let letters: usize = strips.map(|line| line.trim().len()).sum();
    assert_eq!(letters, 1000, "{}", lines.join("\n"));
}

#[test]
fn backend_that_is_held_off_is_listed_with_the_time_until_its_spares() {
    let view = changed(|value| {
        value["monitor"]["objects"][0]["backends"][0]["held_off_ms"] = json!(9_500);
    });
    let shown = "  held off, spares in 10 s";
    assert!(page(view.clone(), "orders").contains(shown), "{}", page(view.clone(), "orders"));
    assert!(text::text(&view, 120).contains(shown), "{}", text::text(&view, 120));
}

#[test]
fn a_hundred_backends_are_counted_where_they_are_too_many() {
    let many = changed(|value| {
        let pool = &mut value["monitor"]["objects"][0];
        let dead = pool["backends"][2].clone();
        pool["backends"] = json!(vec![dead; 100]);
        pool["dead"] = json!(100);
    });
    let text = Looking::at(many.clone(), 100, 40).text();
    assert!(text.contains("100 dead") && text.contains("and 97 more"), "{text}");
    assert_eq!(text::text(&many, 100).matches("! 10.0.0.3:80 (n3.orders.test)  DEAD").count(), 100);
}

#[test]
fn keys_go_where_they_say() {
    let mut looking = Looking::at(view(), 100, 60);
    assert_eq!(looking.selected(), "orders http");
    looking.press(KeyCode::Char('j'));
    assert_eq!(looking.selected(), "orders pool");
    looking.press(KeyCode::Down);
    looking.press(KeyCode::Down);
    assert_eq!(looking.selected(), "billing tcp");
    looking.press(KeyCode::Tab);
    assert_eq!(looking.selected(), "old http");
    looking.press(KeyCode::BackTab);
    assert_eq!(looking.selected(), "orders http");
    looking.press(KeyCode::BackTab);
    assert_eq!(looking.selected(), "orders.test resolver");
    looking.press(KeyCode::Tab);
    assert_eq!(looking.selected(), "orders http", "around the end");
    looking.press(KeyCode::End);
    assert_eq!(looking.selected(), "orders.test resolver");
    looking.press(KeyCode::Home);
    looking.press(KeyCode::Char('k'));
    assert_eq!(looking.selected(), "orders http");
    looking.press(KeyCode::Char('s'));
    assert_eq!(looking.selected(), "orders http", "where one stands is not where it was");
    looking.press(KeyCode::Home);
    assert_eq!(looking.selected(), "billing tcp", "by name");
    assert_eq!(looking.press(KeyCode::Char('q')), Next::Quit);
    assert_eq!(looking.press_with(KeyCode::Char('c'), KeyModifiers::CONTROL), Next::Quit);
    assert_eq!(looking.press_with(KeyCode::Char('l'), KeyModifiers::CONTROL), Next::Redraw);
}

#[test]
fn what_is_in_the_list_twice_can_be_passed() {
    let twice = changed(|value| value["services"][0]["objects"] = json!([1, 5]));
    let mut looking = Looking::at(twice, 100, 60);
    let mut kinds = Vec::new();
    for _ in 0..6 {
        kinds.push(looking.selected());
        looking.press(KeyCode::Down);
    }
    assert_eq!(kinds, ["billing tcp", "orders pool", "billing pool", "orders http", "orders pool", "orders h2"]);
}

#[test]
fn pages_of_a_long_list_follow_each_other() {
    let mut looking = Looking::at(view(), 80, 12);
    let mut seen = Vec::new();
    for _ in 0..10 {
        seen.push(looking.selected());
        looking.press(KeyCode::PageDown);
    }
    assert_eq!(seen.last().unwrap(), "orders.test resolver", "{seen:?}");
    assert!(seen[..4].windows(2).all(|pair| pair[0] != pair[1]), "{seen:?}");
    for _ in 0..10 {
        looking.press(KeyCode::PageUp);
    }
    assert_eq!(looking.selected(), "orders http");
    assert!(looking.text().contains("Services (2)"), "the heading of the first is there");
}

#[test]
fn a_filter_leaves_what_has_it_somewhere() {
    let mut looking = Looking::at(view(), 100, 40);
    looking.press(KeyCode::Char('/'));
    looking.type_all("N4.ord");
    let text = looking.text();
    assert!(text.contains("/N4.ord_"), "{text}");
    assert!(text.contains("orders h2") && !text.contains("billing") && !text.contains("zerodha"), "{text}");
    assert!(text.contains("127.0.0.1:8080"), "its service is there for its sake: {text}");
    looking.press(KeyCode::Enter);
    assert!(looking.text().contains("/N4.ord  "));
    looking.press(KeyCode::Esc);
    assert!(looking.text().contains("billing"));
    looking.press(KeyCode::Char('/'));
    looking.type_all("qqq");
    assert!(looking.text().contains("Nothing has that in it."), "q is a letter there: {}", looking.text());
    for _ in 0..4 {
        looking.press(KeyCode::Backspace);
    }
    assert_eq!(looking.model.place, Place::List);
}

#[test]
fn what_one_looks_at_may_go() {
    let mut looking = Looking::at(view(), 100, 40);
    looking.press(KeyCode::Down);
    looking.press(KeyCode::Enter);
    assert!(looking.text().contains("claim timeout"));
    looking
        .model
        .take(changed(|value| drop(value["monitor"]["objects"].as_array_mut().unwrap().remove(0))), looking.now);
    assert!(looking.text().contains("It is not there any more."));
    looking.press(KeyCode::Esc);
    assert_eq!(looking.selected(), "orders h2", "what is in its place by now");
}

#[test]
fn countdowns_go_on_between_views_and_stop_when_it_is_lost_or_paused() {
    let mut looking = Looking::at(view(), 120, 60);
    assert!(looking.text().contains("DEAD, next attempt in 5 s"));
    looking.now += Duration::from_secs(2);
    assert!(looking.text().contains("DEAD, next attempt in 3 s"), "{}", looking.text());
    looking.model.lose("receive: the connection was closed".to_owned(), looking.now);
    looking.now += Duration::from_secs(60);
    let text = looking.text();
    let lost = "connection lost 1 m 00 s ago, shown as of 23:59:59 UTC: receive: the connection was closed";
    assert!(text.contains(lost) && text.contains("next attempt in 3 s"), "{text}");
    looking.model.take(view(), looking.now);
    assert!(!looking.text().contains("connection lost") && !looking.text().contains("started anew"));
    looking.press(KeyCode::Char('p'));
    looking.now += Duration::from_secs(3);
    looking.model.take(changed(|value| value["program"]["started_at_ms"] = json!(1_772_323_190_000_u64)), looking.now);
    let text = looking.text();
    assert!(text.contains("paused 3 s ago, shown as of") && text.contains("next attempt in 5 s"), "{text}");
    looking.press(KeyCode::Char('p'));
    let text = looking.text();
    assert!(text.contains("the program was started anew") && text.contains(", up 10 s"), "{text}");
    looking.now += Duration::from_secs(61);
    assert!(!looking.text().contains("started anew"));
}

#[test]
fn a_lost_connection_is_told_where_there_is_one_line_for_it() {
    for (width, height) in [(20, 5), (10, 3), (120, 60)] {
        let mut looking = Looking::at(view(), width, height);
        looking.model.lose("receive: the connection was closed".to_owned(), looking.now);
        let first = looking.lines()[0].clone();
        assert!(first.starts_with("CONNECTIO") && !first.contains(", up "), "{first}");
        assert_eq!(width < 120, !first.contains("carom up was DEGRADED, on web-7"), "{first}");
        looking.model.take(view(), looking.now);
        assert!(looking.lines()[0].starts_with("carom up"));
    }
}

#[test]
fn an_error_is_told_once() {
    let error = "cannot resolve `orders.test`: A orders.test: NXDOMAIN";
    let view = changed(|value| {
        let cause = format!("last resolver error: {error}");
        value["services"][1]["trouble"] = json!(cause);
        for object in value["monitor"]["objects"].as_array_mut().unwrap() {
            match object["type"].as_str().unwrap() {
                "pool" | "set" => {
                    object["cause"] = json!(cause);
                    object["backends"] = json!([]);
                }
                "resolver" => {
                    object["error"] = json!(error);
                    object["dns"]["questions"][1]["trouble"] = json!("A orders.test: NXDOMAIN");
                }
                _ => {}
            }
        }
    });
    let of_service = |text: &str| text.split("\n  billing").next().unwrap().to_owned();
    let text = text::text(&view, 120);
    assert_eq!(of_service(&text).matches(error).count(), 1, "by the service, not by its pool: {text}");
    let resolvers = text.split("Resolvers").nth(1).unwrap();
    assert!(resolvers.contains("A orders.test: NXDOMAIN") && !resolvers.contains(error), "{resolvers}");
    // Whoever has something else to say says it.
    let (_, billing) = text.split_once("\n  billing").unwrap();
    assert!(billing.contains(&format!("because: last resolver error: {error}")), "{text}");
}

#[test]
fn names_are_shown_and_not_obeyed_and_wide_ones_take_their_room() {
    let evil = changed(|value| {
        value["program"]["host"] = json!("h\u{1b}[2J");
        value["services"][0]["name"] = json!("\u{1b}]0;owned\u{7}");
        value["monitor"]["objects"][3]["name"] = json!("股票");
        value["monitor"]["objects"][5]["cause"] = json!("a\nb\u{9b}31m\u{202e}");
    });
    let mut looking = Looking::at(evil.clone(), 110, 60);
    let text = looking.text();
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()) && !text.contains('\u{202e}'), "{text:?}");
    assert!(
        text.contains("h\\u{1b}[2J") && text.contains("\\u{1b}]0;owned\\u{7}") && text.contains("a\\nb\\u{9b}31m"),
        "{text}"
    );
    let lines = looking.lines();
    let column = |name: &str, word: &str| {
        let line = lines.iter().find(|line| line.contains(name)).unwrap();
        super::line::width(&line[..line.find(word).unwrap()])
    };
    // A cell that a wide character covers is a blank in the buffer.
    assert_eq!(column("股", "window") - 2, column("zerodha/asha", "feed"), "{text}");
    let plain = text::text(&evil, 100);
    assert!(plain.chars().all(|c| c == '\n' || !c.is_control()), "{plain:?}");
}

#[test]
fn without_colours_there_are_none() {
    let mut looking = Looking::at(view(), 100, 40);
    looking.lines();
    let coloured = |looking: &Looking| {
        let cells = &looking.terminal.backend().buffer().content;
        cells.iter().any(|cell| cell.fg != ratatui::style::Color::Reset || cell.bg != ratatui::style::Color::Reset)
    };
    assert!(coloured(&looking));
    let (model, now) = (&mut looking.model, looking.now);
    looking
        .terminal
        .draw(|frame| {
            let area = frame.area();
            frame.buffer_mut().reset();
            let picture = picture(model, area.width.into(), area.height.into(), now);
            draw(&picture, Colours::None, area, frame.buffer_mut());
        })
        .unwrap();
    assert!(!coloured(&looking));
}
