//! Everything there is as plain text, for `--once`.

use super::line::Line;
use super::model::{time_of_day, title};
use super::rows::{self, Order};
use super::sight::Sight;
use crate::admin::view::View;

/// What the list shows, with nothing left out; trouble first.
pub(super) fn text(view: &View, width: usize) -> String {
    let sight = Sight { view, since_ms: 0, width, most: usize::MAX, said: None };
    let list = rows::list(sight, "", Order::Trouble);
    let mut lines = vec![title(sight).plain(", at ").plain(time_of_day(view.monitor.taken_at_ms))];
    if list.items.is_empty() {
        lines.extend([Line::new(), Line::new().plain("There is nothing to see yet.")]);
    }
    for (at, line) in list.lines.into_iter().enumerate() {
        let is_heading = !list.items.iter().any(|item| item.lines.contains(&at));
        if is_heading {
            lines.extend([Line::new(), line]);
        } else {
            lines.push(Line::indented(2).then(line));
        }
    }
    lines.iter().map(|line| format!("{}\n", line.text().trim_end())).collect()
}
