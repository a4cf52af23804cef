//! A screen that is kept up to date until somebody has seen enough.

use super::keys::{Next, press};
use super::model::Model;
use super::request::Request;
use super::rows::List;
use super::screen::Screen;
use super::source::{Lost, Views};
use crate::admin::view::View;
use crate::ending::{Ending, HangUps};
use crate::failure::Failure;
use ratatui::crossterm::event::Event;
use std::io;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

/// What counts down is drawn this often.
const DRAW_INTERVAL: Duration = Duration::from_millis(500);
/// Before the next attempt to connect, when the server does not say.
const RETRY: Duration = Duration::from_secs(1);
/// Whatever the server says.
const RETRIES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// What the connection brings.
enum News {
    /// With what there is to say of how it came by.
    View(Box<View>, Option<&'static str>),
    Lost(Lost),
}

/// The first view has to come at once: an address where nobody ever was is a mistake, and is told as one; a program that is gone
/// comes back.
pub(super) async fn follow(request: Request) -> Result<(), Failure> {
    let (mut ending, mut hang_ups) = (Ending::watch()?, HangUps::watch()?);
    let first = async {
        let mut views = Views::open(&request).await?;
        let view = views.next().await?;
        Ok::<_, Lost>((views, view))
    };
    let (views, view) = tokio::select! {
        first = first => first.map_err(|lost| lost.at(&request))?,
        () = ending.comes() => return Ok(()),
        _ = hang_ups.comes() => return Ok(()),
    };
    let mut model = Model::new(request.address(), view, Instant::now());
    model.note = views.note();
    // One at a time: while it is being drawn, others wait where they are.
    let (sender, mut news) = mpsc::channel(1);
    let mut connection = JoinSet::new();
    connection.spawn(keep(request.clone(), views, sender));
    let mut draws = interval(DRAW_INTERVAL);
    draws.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut screen = Screen::open()?;
    loop {
        let list = screen.draw(&mut model, Instant::now())?;
        tokio::select! {
            () = ending.comes() => return Ok(()),
            _ = hang_ups.comes() => return Ok(()),
            event = screen.event() => match pressed(&mut model, event.map_err(no_keys)?, &list) {
                Next::Go => {}
                Next::Redraw => screen.clear()?,
                Next::Quit => return Ok(()),
            },
            Some(news) = news.recv() => match news {
                News::View(view, note) => {
                    model.take(*view, Instant::now());
                    model.note = note;
                }
                News::Lost(lost @ Lost::Refused(_)) => return Err(lost.at(&request)),
                News::Lost(Lost::Full(why) | Lost::Gone(why)) => model.lose(why, Instant::now()),
            },
            _ = draws.tick() => {}
        }
    }
}

fn no_keys(error: io::Error) -> Failure {
    Failure::Unavailable(format!("the terminal's keys cannot be read: {error}"))
}

fn pressed(model: &mut Model, event: Event, list: &List) -> Next {
    match event {
        Event::Key(key) => press(model, key, list, Instant::now()),
        // The next picture is of the new size by itself.
        _ => Next::Go,
    }
}

/// Tells what the connection brings, and makes another when it is lost, for as long as somebody listens.
async fn keep(mut request: Request, mut views: Views, news: mpsc::Sender<News>) {
    loop {
        let opened = Instant::now();
        let mut lost = loop {
            match views.next().await {
                Ok(view) => {
                    if news.send(News::View(Box::new(view), views.note())).await.is_err() {
                        return;
                    }
                }
                Err(lost) => break lost,
            }
        };
        let retry = views.retry().unwrap_or(RETRY).clamp(RETRIES.0, RETRIES.1);
        // A server lets nobody stay for ever: whoever was let in for a while comes again at once, and nobody need know.
        let mut again = opened.elapsed() >= retry;
        views = loop {
            if !again {
                if news.send(News::Lost(lost)).await.is_err() {
                    return;
                }
                sleep(retry).await;
            }
            again = false;
            match Views::open(&request).await {
                Ok(views) => break views,
                Err(failed) => lost = failed,
            }
            // The token may have been changed, and the new one be where the old one was.
            if let (Lost::Refused(_), Some(renewed)) = (&lost, request.renewed()) {
                request = renewed;
                again = true;
            }
        };
    }
}
