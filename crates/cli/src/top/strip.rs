//! Slots and connections as a strip of cells, a letter each, as the page has them; where there are too many, each cell stands for several.

use super::line::{Line, Tone};
use carom::monitor::{Idle, Phase, SetConnection};

/// A cell, and what it is in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) letter: char,
    pub(super) tone: Tone,
    pub(super) word: &'static str,
}

const fn cell(letter: char, tone: Tone, word: &'static str) -> Cell {
    Cell { letter, tone, word }
}

/// Those of slots, in the order that they are told in.
pub(super) const SLOTS: [Cell; 7] = [
    cell('B', Tone::Busy, "busy"),
    cell('I', Tone::Good, "idle"),
    cell('K', Tone::Busy, "checking"),
    cell('C', Tone::Warn, "connecting"),
    cell('W', Tone::Bad, "in backoff"),
    cell('H', Tone::Dim, "held"),
    cell('X', Tone::Dim, "closing"),
];

/// Those of a set's connections.
pub(super) const CONNECTIONS: [Cell; 7] = [
    cell('B', Tone::Busy, "in use"),
    cell('I', Tone::Good, "unused"),
    cell('M', Tone::Good, "marked as idle"),
    cell('R', Tone::Warn, "about to be released"),
    cell('X', Tone::Dim, "released"),
    cell('D', Tone::Dim, "draining"),
    cell('C', Tone::Warn, "dialling"),
];

const UNKNOWN: Cell = cell('?', Tone::Plain, "something else");

pub(super) fn of_slot(phase: Phase) -> Cell {
    match phase {
        Phase::Busy => SLOTS[0],
        Phase::Idle => SLOTS[1],
        Phase::Checking => SLOTS[2],
        Phase::Connecting => SLOTS[3],
        Phase::Backoff => SLOTS[4],
        Phase::Held => SLOTS[5],
        Phase::Closing => SLOTS[6],
        _ => UNKNOWN,
    }
}

pub(super) fn of_connection(connection: &SetConnection) -> Cell {
    match connection.idle {
        _ if connection.draining => CONNECTIONS[5],
        _ if connection.leases > 0 => CONNECTIONS[0],
        // Nobody has looked since it was used.
        Idle::Using => CONNECTIONS[1],
        Idle::Marked => CONNECTIONS[2],
        Idle::BeforeRelease => CONNECTIONS[3],
        Idle::Released => CONNECTIONS[4],
        _ => UNKNOWN,
    }
}

/// A dial that is under way.
pub(super) fn of_dial() -> Cell {
    CONNECTIONS[6]
}

/// How many there are of each kind, in the order of the strip's letters.
pub(super) fn counts(cells: &[Cell]) -> Vec<(Cell, usize)> {
    let kinds = SLOTS.into_iter().chain(CONNECTIONS).chain([UNKNOWN]);
    let mut counts: Vec<(Cell, usize)> = Vec::new();
    for kind in kinds {
        let count = cells.iter().filter(|cell| **cell == kind).count();
        if count > 0 {
            counts.push((kind, count));
        }
    }
    counts
}

/// All of them in one line. Those of different groups are apart while there is room for that.
pub(super) fn line(groups: &[Vec<Cell>], width: usize) -> Line {
    let cells: Vec<Cell> = groups.iter().flatten().copied().collect();
    let filled = groups.iter().filter(|group| !group.is_empty());
    if cells.len() + filled.clone().count().saturating_sub(1) <= width {
        let mut line = Line::new();
        for (at, group) in filled.enumerate() {
            if at > 0 {
                line.push(Tone::Plain, ' ');
            }
            letters(group, &mut line);
        }
        return line;
    }
    let mut line = Line::new();
    if cells.len() <= width {
        letters(&cells, &mut line);
    } else {
        letters(&shares(&cells, width), &mut line);
    }
    line
}

/// All of them, in as many lines as it takes.
pub(super) fn lines(cells: &[Cell], width: usize, indent: usize) -> Vec<Line> {
    let in_one = width.saturating_sub(indent).max(1);
    let line = |cells: &[Cell]| {
        let mut line = Line::indented(indent);
        letters(cells, &mut line);
        line
    };
    cells.chunks(in_one).map(line).collect()
}

fn letters(cells: &[Cell], line: &mut Line) {
    for same in cells.chunk_by(|one, other| one == other) {
        line.push(same[0].tone, String::from(same[0].letter).repeat(same.len()));
    }
}

/// So many cells, fewer than there are, of which each kind has its share, and at least one where there is room.
fn shares(cells: &[Cell], width: usize) -> Vec<Cell> {
    let counts = counts(cells);
    let mut shares: Vec<usize> = counts.iter().map(|(_, count)| (count * width / cells.len()).max(1)).collect();
    // What is too much is taken from those who have most, and what is left goes to those who are shortest of their share.
    while shares.iter().sum::<usize>() > width {
        let Some(most) = shares.iter_mut().max() else { break };
        *most -= 1;
    }
    while shares.iter().sum::<usize>() < width {
        let short = |at: &usize| (counts[*at].1 * width) as i64 - (shares[*at] * cells.len()) as i64;
        let Some(at) = (0..shares.len()).max_by_key(short) else { break };
        shares[at] += 1;
    }
    counts.iter().zip(shares).flat_map(|((cell, _), share)| vec![*cell; share]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn slots(letters: &str) -> Vec<Cell> {
        letters.chars().map(|letter| *SLOTS.iter().find(|cell| cell.letter == letter).unwrap()).collect()
    }

    #[test]
    fn groups_are_apart_while_there_is_room() {
        let groups = [slots("BBI"), slots(""), slots("W"), slots("IC")];
        let text = |width| line(&groups, width).text();
        assert_eq!([text(20), text(8), text(7), text(6)], ["BBI W IC", "BBI W IC", "BBIWIC", "BBIWIC"]);
        assert_eq!([text(4), text(2), text(0)], ["BICW", "BI", ""]);
        assert_eq!(line(&[], 10).text(), "");
    }

    #[test]
    fn of_many_each_kind_has_its_share() {
        let cells: Vec<Cell> = [slots(&"B".repeat(700)), slots(&"I".repeat(299)), slots("W")].concat();
        assert_eq!(line(std::slice::from_ref(&cells), 10).text(), "BBBBBBBIIW");
        assert_eq!(
            counts(&cells).iter().map(|(cell, count)| (cell.word, *count)).collect::<Vec<_>>(),
            [("busy", 700), ("idle", 299), ("in backoff", 1)]
        );
        for width in 0..40 {
            assert_eq!(line(std::slice::from_ref(&cells), width).width(), width);
        }
        let lines = lines(&cells, 84, 4);
        assert_eq!(
            (lines.len(), lines[0].width(), lines[12].text().trim()),
            (13, 84, &*format!("{}W", "I".repeat(39)))
        );
    }

    #[test]
    fn a_connection_is_in_use_while_somebody_has_a_lease_on_it() {
        let cell = |idle: &str, leases: usize, draining: bool| {
            let told =
                json!({"place": 0, "idle": idle, "draining": draining, "kept": false, "leases": leases, "age_ms": 1});
            of_connection(&serde_json::from_value(told).unwrap()).word
        };
        let words =
            [cell("using", 1, false), cell("marked", 1, false), cell("using", 0, false), cell("using", 1, true)];
        assert_eq!(words, ["in use", "in use", "unused", "draining"]);
    }

    #[test]
    fn a_letter_stands_for_one_thing() {
        for kinds in [&SLOTS[..], &CONNECTIONS] {
            let letters: std::collections::BTreeSet<char> = kinds.iter().map(|cell| cell.letter).collect();
            assert_eq!(letters.len(), kinds.len());
        }
        // What were in both would be counted twice.
        assert!(SLOTS.iter().all(|cell| !CONNECTIONS.contains(cell)));
    }
}
