//! `carom watch`: what a gateway says of symbols, on a terminal or in a pipe.

mod display;
mod message;
mod quote;
mod request;
mod session;
mod table;

use crate::args;
use crate::ending::Ending;
use crate::failure::Failure;
use display::Display;
use message::Message;
use request::Request;
use session::{Lost, Session};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

const FIRST_DELAY: Duration = Duration::from_millis(500);
const LONGEST_DELAY: Duration = Duration::from_secs(15);

pub(crate) fn run(args: args::Watch) -> Result<(), Failure> {
    let request = Request::new(args)?;
    crate::block_on(crate::runtime()?, watch(request))
}

async fn watch(request: Request) -> Result<(), Failure> {
    let mut ending = Ending::watch()?;
    let mut display = Display::new(&request);
    let time = request.time.unwrap_or(Duration::MAX);
    let ended = tokio::select! {
        () = ending.comes() => Ok(Ok(())),
        ended = timeout(time, follow(&request, &mut display)) => ended,
    };
    let finished = display.finish().await;
    // What went wrong first is what is told.
    match (ended, request.count) {
        (Ok(ended), _) => ended?,
        (Err(_), _) if !display.connected() => {
            return Err(Failure::Unavailable(format!("{}: no connection within {time:?}", request.address)));
        }
        (Err(_), None) => {}
        (Err(_), Some(count)) => {
            let seen = display.seen();
            return Err(Failure::Unavailable(format!("{seen} of {count} ticks came within {time:?}")));
        }
    }
    Ok(finished?)
}

/// Follows the symbols until there were ticks enough, over as many connections as it takes. Only the first one has to succeed
/// at once: a gateway that was never there is a mistake, one that is gone comes back.
async fn follow(request: &Request, display: &mut Display) -> Result<(), Failure> {
    let mut delay = FIRST_DELAY;
    loop {
        let lost = match drawing(display, Session::open(request)).await? {
            Ok(mut session) => {
                if display.connected() {
                    display.tell(format_args!("{}: connected again", request.address));
                }
                let opened = Instant::now();
                let Some(lost) = listen(request, &mut session, display).await? else {
                    session.close().await;
                    return Ok(());
                };
                // Not any sooner: a gateway that lets everybody in and nobody stay is not to be called on without a pause.
                if opened.elapsed() >= LONGEST_DELAY {
                    delay = FIRST_DELAY;
                }
                lost
            }
            Err(Lost::Refused(problem)) => return Err(Failure::Unavailable(problem)),
            Err(lost) if !display.connected() => {
                return Err(Failure::Unavailable(format!("{}: {lost}", request.address)));
            }
            Err(lost) => lost,
        };
        let wait = spread(delay);
        display.lost(format_args!("{}: {lost}; trying again in {:.1} s", request.address, wait.as_secs_f64()));
        drawing(display, sleep(wait)).await?;
        delay = (delay * 2).min(LONGEST_DELAY);
    }
}

/// Waits for something, and draws what is due meanwhile.
async fn drawing<T>(display: &mut Display, wait: impl Future<Output = T>) -> io::Result<T> {
    let mut wait = pin!(wait);
    loop {
        tokio::select! {
            waited = &mut wait => return Ok(waited),
            () = display.due() => display.draw().await?,
        }
    }
}

/// Shows what one connection brings. `None` when there were ticks enough.
async fn listen(request: &Request, session: &mut Session, display: &mut Display) -> Result<Option<Lost>, Failure> {
    display.welcome(&session.welcome);
    loop {
        let received = tokio::select! {
            // As long as there is more to come, it is drawn together.
            biased;
            received = session.receive() => received,
            () = display.due() => {
                display.draw().await?;
                continue;
            }
        };
        let text = match received {
            Ok(text) => text,
            Err(lost) => return Ok(Some(lost)),
        };
        match message::read(&text) {
            Some(Message::Tick(tick)) => display.take(&tick, &text),
            Some(Message::Subscribed { refused, pending, accepted }) => {
                for note in notes(&pending) {
                    display.tell(format_args!("note: {note}"));
                }
                for (symbol, reason) in &refused {
                    display.tell(format_args!("refused: {symbol}: {reason}"));
                }
                if accepted == 0 {
                    return Err(Failure::Unavailable(nothing_left(&refused)));
                }
            }
            Some(Message::Error(problem)) => return Err(Failure::Unavailable(format!("the gateway says: {problem}"))),
            Some(Message::Welcome(_)) | Some(Message::BadKey(_)) | None => {}
        }
        let enough = request.count.is_some_and(|count| display.seen() >= count);
        if enough || display.is_overdue() {
            display.draw().await?;
        }
        if enough {
            return Ok(None);
        }
    }
}

/// What has to wait and why. Of those that wait for the same, which may be all of thousands, the first stands for the others.
fn notes(pending: &[(String, String)]) -> Vec<String> {
    let mut notes: Vec<(&str, &str, usize)> = Vec::new();
    for (symbol, reason) in pending {
        match notes.iter_mut().find(|(_, known, _)| known == reason) {
            Some((.., others)) => *others += 1,
            None => notes.push((symbol, reason, 0)),
        }
    }
    let shown = |(symbol, reason, others): (&str, &str, usize)| match others {
        0 => format!("{symbol}: {reason}"),
        others => format!("{symbol} and {others} more: {reason}"),
    };
    notes.into_iter().map(shown).collect()
}

fn nothing_left(refused: &[(String, String)]) -> String {
    match refused {
        [(symbol, reason)] => format!("the gateway refuses {symbol}: {reason}"),
        refused => format!("the gateway refuses all {} symbols", refused.len()),
    }
}

/// Between a half and all of it, so that those who were cut off together do not come back together.
fn spread(delay: Duration) -> Duration {
    let chance = RandomState::new().hash_one(delay) % 1000;
    delay.mul_f64(0.5 + chance as f64 / 2000.0)
}
