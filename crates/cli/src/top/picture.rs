//! The picture: which lines of what there is are on a screen of some size.

use super::keys::HELP;
use super::line::{Line, Tone};
use super::model::{Model, Place};
use super::rows::{self, List, Order};
use super::strip::{CONNECTIONS, Cell, SLOTS};
use std::time::Instant;

/// Below this many lines there is no room for what is nice to have.
const FEW_LINES: usize = 6;

/// Lines from top to bottom.
#[derive(Debug, Default)]
pub(super) struct Picture {
    pub(super) header: Vec<Line>,
    pub(super) body: Vec<Row>,
    pub(super) footer: Option<Line>,
    /// The list that the body is of; what keys act upon.
    pub(super) list: List,
}

/// A line of the body, and whether one stands on it.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) line: Line,
    pub(super) selected: bool,
}

/// Makes the picture; the model learns where it stands in it.
pub(super) fn picture(model: &mut Model, width: usize, height: usize, now: Instant) -> Picture {
    let roomy = height >= FEW_LINES;
    let header: Vec<Line> = model.header(now).into_iter().take(if roomy { 2 } else { 1 }).collect();
    let height = height.saturating_sub(header.len() + usize::from(roomy));
    model.height = height;
    let list = model.list(width, now);
    settle(model, &list);
    let (body, position) = match model.place.clone() {
        Place::List | Place::Filter => of_list(model, &list, height),
        Place::Page { key, scroll } => {
            let gone =
                || vec![Line::new().add(Tone::Warn, "It is not there any more."), Line::new().plain("Esc: back")];
            let lines = rows::page(&key, model.sight(width, now)).unwrap_or_else(gone);
            let (body, scroll, position) = part(lines, scroll, height);
            model.place = Place::Page { key, scroll };
            (body, position)
        }
        Place::Help { scroll } => {
            let (body, scroll, position) = part(help(), scroll, height);
            model.place = Place::Help { scroll };
            (body, position)
        }
    };
    let footer = roomy.then(|| footer(model, width, &position));
    let cut = |line: Line| line.cut(width);
    let body = body.into_iter().map(|row| Row { line: cut(row.line), ..row }).collect();
    Picture { header: header.into_iter().map(cut).collect(), body, footer: footer.map(cut), list }
}

/// One stands where one stood, wherever that is by now; if it is gone, on what is in its place.
fn settle(model: &mut Model, list: &List) {
    // An object may be in the list twice, by two services.
    let is_there = |index: &usize| list.items.get(*index).map(|item| &item.key) == model.selected.as_ref();
    let elsewhere = || (0..list.items.len()).find(is_there);
    let there = Some(model.index).filter(|_| model.selected.is_some()).filter(is_there).or_else(elsewhere);
    model.index = there.unwrap_or(model.index).min(list.items.len().saturating_sub(1));
    if there.is_none() {
        // What a filter hides for a while is not forgotten, unless one goes elsewhere.
        let first = model.selected.is_none() || model.filter.is_empty();
        if first {
            model.selected = list.items.get(model.index).map(|item| item.key.clone());
        }
    }
}

fn of_list(model: &mut Model, list: &List, height: usize) -> (Vec<Row>, String) {
    let Some(item) = list.items.get(model.index) else {
        let text = if model.filter.is_empty() { "There is nothing to see yet." } else { "Nothing has that in it." };
        let nothing = Row { line: Line::new().add(Tone::Dim, text), selected: false };
        return (vec![nothing].into_iter().take(height).collect(), String::new());
    };
    // The heading of a section goes with its first item.
    let is_first = model.index == 0 || list.items[model.index - 1].section != item.section;
    let first = item.lines.start - usize::from(is_first);
    if item.lines.end > model.scroll + height {
        model.scroll = item.lines.end - height.min(item.lines.end);
    }
    // Of what is higher than the screen one sees the beginning.
    model.scroll = model.scroll.min(first).min(list.lines.len().saturating_sub(height.min(list.lines.len())));
    if item.lines.start >= model.scroll + height {
        model.scroll = item.lines.start;
    }
    let shown = list.lines.iter().enumerate().skip(model.scroll).take(height);
    let rows = shown.map(|(at, line)| {
        let selected = item.lines.contains(&at);
        let is_heading = !list.items.iter().any(|item| item.lines.contains(&at));
        let mark = match (selected && at == item.lines.start, is_heading) {
            (true, _) => "> ",
            (false, true) => "",
            (false, false) => "  ",
        };
        Row { line: Line::new().plain(mark).then(line.clone()), selected: selected && at == item.lines.start }
    });
    let position =
        if list.lines.len() > height { format!("{} of {}", model.index + 1, list.items.len()) } else { String::new() };
    (rows.collect(), position)
}

/// A part of lines, from one of them on; and from which.
fn part(lines: Vec<Line>, scroll: usize, height: usize) -> (Vec<Row>, usize, String) {
    let count = lines.len();
    let scroll = scroll.min(count.saturating_sub(height));
    let shown = lines.into_iter().skip(scroll).take(height);
    let rows: Vec<Row> = shown.map(|line| Row { line, selected: false }).collect();
    let position = if count > height {
        format!("lines {} to {} of {count}", scroll + 1, scroll + rows.len())
    } else {
        String::new()
    };
    (rows, scroll, position)
}

fn footer(model: &Model, width: usize, position: &str) -> Line {
    let line = match &model.place {
        Place::Filter => Line::new().add(Tone::Title, "/").plain(&model.filter).add(Tone::Title, "_"),
        Place::Page { .. } | Place::Help { .. } => {
            Line::new().add(Tone::Dim, "Esc back  j k PgDn PgUp  p pause  q quit")
        }
        Place::List => {
            let order = if model.order == Order::Trouble { "trouble" } else { "name" };
            let pause = if model.is_paused() { "go on" } else { "pause" };
            let line = Line::new();
            let line =
                if model.filter.is_empty() { line } else { line.add(Tone::Warn, format_args!("/{}  ", model.filter)) };
            line.add(Tone::Dim, format_args!("? help  Enter open  / filter  s sort: {order}  p {pause}  q quit"))
        }
    };
    let room = width.saturating_sub(position.len());
    // Without room for both, what the keys are is the less important.
    line.cut(room.saturating_sub(1)).padded_to(room).add(Tone::Dim, position)
}

fn help() -> Vec<Line> {
    let pair = |what: &str, means: &str| Line::indented(2).add(Tone::Title, what).padded_to(22).plain(means);
    let mut lines = vec![Line::new().add(Tone::Title, "Keys")];
    lines.extend(HELP.iter().map(|(keys, what)| pair(keys, what)));
    let legend = |title: &str, cells: &[Cell]| {
        let line = Line::new().add(Tone::Title, title);
        let cells =
            cells.iter().map(|cell| Line::indented(2).add(cell.tone, cell.letter).padded_to(22).plain(cell.word));
        [vec![Line::new(), line], cells.collect()].concat()
    };
    lines.extend(legend("Slots of a pool", &SLOTS));
    lines.extend(legend("Connections of a set", &CONNECTIONS));
    lines.extend([
        Line::new(),
        Line::new().plain("A blank is between the slots of different backends. Where there are too many"),
        Line::new().plain("for a line, a letter stands for several."),
    ]);
    lines
}
