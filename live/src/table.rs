//! What was seen, in a form that can be pasted into a note.

use std::time::Duration;

#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(head: &[&str]) -> Table {
        Table { rows: vec![head.iter().map(|cell| cell.to_string()).collect()] }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Under a title, the first column to the left and the others to the right.
    pub fn print(&self, title: &str) {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(String::len).max();
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        println!("\n{title}");
        for row in &self.rows {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
            println!("  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
        println!();
    }
}

pub fn millis(duration: Duration) -> String {
    format!("{:.0} ms", duration.as_secs_f64() * 1000.0)
}

/// Connections at each server: `4+4+3`.
pub fn sum(counts: &[usize]) -> String {
    counts.iter().map(usize::to_string).collect::<Vec<_>>().join("+")
}
