//! What the keys do.

use super::model::{Model, Place};
use super::rows::{List, Order};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::time::Instant;

/// No filter is longer.
const LONGEST_FILTER: usize = 64;

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Go,
    /// Everything is drawn anew: somebody else has written on the screen.
    Redraw,
    Quit,
}

/// What `?` shows: keys, and what they do.
pub(super) const HELP: [(&str, &str); 12] = [
    ("j k, arrows", "down and up, one at a time"),
    ("PgDn PgUp, blank", "down and up, a page at a time"),
    ("Home End, g G", "the first and the last"),
    ("Tab, Shift-Tab", "the next section, the one before"),
    ("Enter", "everything of what is marked with >"),
    ("Esc, Backspace", "back; in the list: no filter"),
    ("/", "show only what has a text in its name, kind or backends"),
    ("s", "sort: trouble first, or by name"),
    ("p", "stand still, or go on"),
    ("Ctrl-L", "draw everything anew"),
    ("?", "this"),
    ("q, Ctrl-C", "quit"),
];

/// A move, in the list or on a page.
#[derive(Clone, Copy)]
enum Move {
    Lines(isize),
    Pages(isize),
    First,
    Last,
}

/// Does what a key is for. `list` is what is shown.
pub(super) fn press(model: &mut Model, key: KeyEvent, list: &List, now: Instant) -> Next {
    if key.kind == KeyEventKind::Release {
        return Next::Go;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Next::Quit,
            KeyCode::Char('l') => Next::Redraw,
            _ => Next::Go,
        };
    }
    if model.place == Place::Filter {
        type_filter(model, key.code);
        return Next::Go;
    }
    if let Some(moved) = move_of(key.code) {
        go(model, moved, list);
        return Next::Go;
    }
    match key.code {
        KeyCode::Char('q') => return Next::Quit,
        KeyCode::Char('p') => model.pause(now),
        KeyCode::Char('?') => {
            model.place =
                if matches!(model.place, Place::Help { .. }) { Place::List } else { Place::Help { scroll: 0 } };
        }
        KeyCode::Esc | KeyCode::Backspace | KeyCode::Left if model.place != Place::List => model.place = Place::List,
        KeyCode::Esc => model.filter.clear(),
        KeyCode::Char('/') => model.place = Place::Filter,
        KeyCode::Char('s') if model.place == Place::List => {
            model.order = if model.order == Order::Trouble { Order::Name } else { Order::Trouble };
        }
        KeyCode::Tab if model.place == Place::List => section(model, list, true),
        KeyCode::BackTab if model.place == Place::List => section(model, list, false),
        KeyCode::Enter | KeyCode::Right if model.place == Place::List => {
            if let Some(item) = list.items.get(model.index) {
                model.place = Place::Page { key: item.key.clone(), scroll: 0 };
            }
        }
        _ => {}
    }
    Next::Go
}

fn move_of(key: KeyCode) -> Option<Move> {
    Some(match key {
        KeyCode::Down | KeyCode::Char('j') => Move::Lines(1),
        KeyCode::Up | KeyCode::Char('k') => Move::Lines(-1),
        KeyCode::PageDown | KeyCode::Char(' ') => Move::Pages(1),
        KeyCode::PageUp => Move::Pages(-1),
        KeyCode::Home | KeyCode::Char('g') => Move::First,
        KeyCode::End | KeyCode::Char('G') => Move::Last,
        _ => return None,
    })
}

fn type_filter(model: &mut Model, key: KeyCode) {
    match key {
        KeyCode::Char(c) if model.filter.chars().count() < LONGEST_FILTER => model.filter.push(c),
        KeyCode::Backspace if model.filter.is_empty() => model.place = Place::List,
        KeyCode::Backspace => drop(model.filter.pop()),
        KeyCode::Esc => {
            model.filter.clear();
            model.place = Place::List;
        }
        KeyCode::Enter => model.place = Place::List,
        _ => {}
    }
}

fn go(model: &mut Model, moved: Move, list: &List) {
    let page = model.height.saturating_sub(1).max(1);
    match &mut model.place {
        Place::Page { scroll, .. } | Place::Help { scroll } => {
            // Beyond the end is where it is drawn; it is brought back there.
            *scroll = match moved {
                Move::Lines(lines) => scroll.saturating_add_signed(lines),
                Move::Pages(pages) => scroll.saturating_add_signed(pages * page as isize),
                Move::First => 0,
                Move::Last => usize::MAX,
            };
        }
        Place::List | Place::Filter => {
            let Some(last) = list.items.len().checked_sub(1) else { return };
            let index = match moved {
                Move::Lines(lines) => model.index.saturating_add_signed(lines),
                Move::Pages(pages) => page_away(model.index, pages, page, list),
                Move::First => 0,
                Move::Last => last,
            };
            select(model, list, index.min(last));
        }
    }
}

/// The item whose first line is about a page away, and in any case another one.
fn page_away(index: usize, pages: isize, page: usize, list: &List) -> usize {
    let first = |item: usize| list.items.get(item).map_or(0, |item| item.lines.start);
    let wanted = first(index).saturating_add_signed(pages * page as isize);
    let there = list.items.iter().rposition(|item| item.lines.start <= wanted).unwrap_or(0);
    if pages > 0 { there.max(index + 1) } else { there.min(index.saturating_sub(1)) }
}

/// To the first of the next section, or of this one or the one before; around the end.
fn section(model: &mut Model, list: &List, forward: bool) {
    let Some(here) = list.items.get(model.index).map(|item| item.section) else { return };
    let mut sections: Vec<usize> = list.items.iter().map(|item| item.section).collect();
    sections.dedup();
    let at = sections.iter().position(|section| *section == here).unwrap_or(0);
    let step = if forward { 1 } else { sections.len() - 1 };
    let there = sections[(at + step) % sections.len()];
    let index = list.items.iter().position(|item| item.section == there).unwrap_or(0);
    select(model, list, index);
}

fn select(model: &mut Model, list: &List, index: usize) {
    model.index = index;
    model.selected = list.items.get(index).map(|item| item.key.clone());
}
