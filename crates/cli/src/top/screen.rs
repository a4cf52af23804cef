//! The terminal while it is a screen: taken over, drawn on, and given back on every way out.

use super::draw::{Colours, draw};
use super::model::Model;
use super::picture::picture;
use super::rows::List;
use crate::failure::Failure;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use std::io::{self, IsTerminal, Stdout};
use std::panic;
use std::thread;
use std::time::Instant;
use tokio::sync::mpsc;

/// Keys that wait to be looked at; whoever types more than that waits.
const KEYS: usize = 64;

/// The screen. The terminal is as it was when this is dropped.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    keys: mpsc::Receiver<io::Result<Event>>,
    colours: Colours,
}

/// Whether there is a terminal that can be one.
pub(super) fn is_possible() -> bool {
    io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

impl Screen {
    pub(super) fn open() -> Result<Screen, Failure> {
        let no_screen = |error: io::Error| Failure::Unavailable(format!("the terminal cannot be used: {error}"));
        restore_on_panic();
        let entered = enter().and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        let terminal = entered.map_err(|error| {
            leave();
            no_screen(error)
        })?;
        let (sender, keys) = mpsc::channel(KEYS);
        let screen = Screen { terminal, keys, colours: Colours::wanted() };
        // It waits in the system for a key, and ends with the program.
        thread::Builder::new().name("keys".to_owned()).spawn(move || read_keys(&sender)).map_err(no_screen)?;
        Ok(screen)
    }

    /// Draws what there is; returns the list that is shown.
    pub(super) fn draw(&mut self, model: &mut Model, now: Instant) -> io::Result<List> {
        let (mut list, colours) = (List::default(), self.colours);
        self.terminal.draw(|frame| {
            let area = frame.area();
            let picture = picture(model, area.width.into(), area.height.into(), now);
            draw(&picture, colours, area, frame.buffer_mut());
            list = picture.list;
        })?;
        Ok(list)
    }

    /// Whatever is on it is drawn anew the next time.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.terminal.clear()
    }

    /// What was typed next, or that the terminal has another size. Cancelling it loses nothing.
    pub(super) async fn event(&mut self) -> io::Result<Event> {
        match self.keys.recv().await {
            Some(event) => event,
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Then it has been done, and what went wrong is on the screen by now.
        if !thread::panicking() {
            leave();
        }
    }
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, Hide)
}

/// There is nobody to tell when it cannot be done.
fn leave() {
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

fn restore_on_panic() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        leave();
        before(panic);
    }));
}

fn read_keys(keys: &mpsc::Sender<io::Result<Event>>) {
    loop {
        let event = event::read();
        let failed = event.is_err();
        if keys.blocking_send(event).is_err() || failed {
            return;
        }
    }
}
