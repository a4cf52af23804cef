//! `carom top`: what a running carom holds and why, seen through its admin address.
//!
//! What there is to see (`rows`, `object`, `sight`, `strip`) and where one stands in it (`model`, `keys`, `picture`) have no
//! terminal and no clock; `source` asks, `screen` and `draw` show, `session` has them all.

mod draw;
mod events;
mod keys;
mod line;
mod model;
mod object;
mod picture;
mod request;
mod rows;
mod screen;
mod session;
mod sight;
mod source;
mod strip;
#[cfg(test)]
mod tests;
mod text;

use crate::args;
use crate::failure::Failure;
use crate::output;
use crate::terminal;
use request::{Once, Request};
use std::io::{self, IsTerminal};

/// Columns of a text that no terminal shows.
const WIDTH: usize = 120;

pub(crate) fn run(args: args::Top) -> Result<(), Failure> {
    let request = Request::new(args)?;
    let runtime = crate::runtime()?;
    match request.once {
        Some(once) => crate::block_on(runtime, print(request, once)),
        None if screen::is_possible() => crate::block_on(runtime, session::follow(request)),
        None => {
            let text = "there is no terminal to draw on; --once prints what is seen now, --once --json for programs";
            Err(Failure::Usage(text.to_owned()))
        }
    }
}

async fn print(request: Request, once: Once) -> Result<(), Failure> {
    let (view, said) = source::one(&request).await.map_err(|lost| lost.at(&request))?;
    let text = match once {
        Once::Json => format!("{}\n", output::printable_json(said.trim())),
        Once::Text => {
            let width = if io::stdout().is_terminal() { terminal::size().0 } else { WIDTH };
            text::text(&view, width)
        }
    };
    Ok(output::print(&text)?)
}
