//! The paths: what can be asked, one path each.

use super::answer::{Answer, JSON};
use super::events::Events;
use super::guard::{self, Refusal};
use super::looking::Looking;
use super::metrics::{self, Exporter};
use super::{health, page};
use crate::config::Access;
use carom::kang::Kang;
use carom::monitor::Monitor;
use http::header::{HeaderValue, RETRY_AFTER};
use http::{Method, Request, StatusCode};
use std::sync::Arc;
use tokio::sync::{Semaphore, watch};

const HEALTH: &str = "/healthz";
/// So that others can still ask.
const MOST_LISTENERS: usize = 32;

/// What is shown besides kang.
pub(super) struct Shown {
    pub(super) looking: Arc<Looking>,
    pub(super) exporter: Exporter,
}

/// What can be asked, and by whom.
pub(super) struct Paths {
    /// Without it, there is kang and nothing else.
    shown: Option<Shown>,
    access: watch::Receiver<Access>,
    listeners: Arc<Semaphore>,
    kang: Kang,
}

impl Paths {
    /// Of a program, whose name is known to kang.
    pub(super) fn new(program: &str, shown: Option<Shown>, access: watch::Receiver<Access>) -> Paths {
        let kang = Monitor::global().kang().service(program).version(env!("CARGO_PKG_VERSION"));
        Paths { shown, access, listeners: Arc::new(Semaphore::new(MOST_LISTENERS)), kang }
    }

    /// Whether somebody has shown what it takes to see everything.
    pub(super) fn knows<B>(&self, request: &Request<B>) -> bool {
        guard::has_shown(request.headers(), &self.access.borrow())
    }

    /// Says what there is to say. Of much, that takes a while.
    pub(super) fn answer<B>(&self, request: &Request<B>) -> Answer {
        self.try_answer(request).unwrap_or_else(Refusal::answer)
    }

    fn try_answer<B>(&self, request: &Request<B>) -> Result<Answer, Refusal> {
        let mut access = self.access.clone();
        let allowed = access.borrow_and_update().clone();
        let path = request.uri().path();
        guard::admit(request, &allowed, path == HEALTH)?;
        let Some(Shown { looking, exporter }) = &self.shown else { return Ok(self.kang(path)) };
        let may_see = guard::has_shown(request.headers(), &allowed);
        // These hold nothing, and are how people come to show their token.
        if let Some(page::Asset { content_type, body }) = page::find(path) {
            return Ok(Answer::new(StatusCode::OK, HeaderValue::from_static(content_type), body));
        }
        let found = match path {
            HEALTH => return Ok(health(looking, may_see)),
            "/api/snapshot" => Found::Snapshot,
            "/api/events" => Found::Events,
            "/metrics" => Found::Metrics,
            path if path.starts_with("/kang/") => Found::Kang,
            _ => return Ok(Answer::error(StatusCode::NOT_FOUND, NOTHING)),
        };
        if !may_see {
            return Err(Refusal::Token);
        }
        Ok(match found {
            Found::Snapshot => Answer::json(looking.json()),
            Found::Events if request.method() == Method::HEAD => Answer::head_of_events(),
            Found::Events => self.events(looking, access),
            Found::Metrics => {
                let content_type = HeaderValue::from_static(metrics::CONTENT_TYPE);
                Answer::new(StatusCode::OK, content_type, exporter.render(looking.board()))
            }
            Found::Kang => self.kang(path),
        })
    }

    fn kang(&self, path: &str) -> Answer {
        // Whoever sends it leaves out the body for those who want the head alone.
        self.kang.answer(&Method::GET, path).into()
    }

    fn events(&self, looking: &Looking, access: watch::Receiver<Access>) -> Answer {
        match Arc::clone(&self.listeners).try_acquire_owned() {
            Ok(place) => Answer::events(Events::new(looking.listen(), access, place)),
            Err(_) => {
                Answer::error(StatusCode::SERVICE_UNAVAILABLE, "too many listen already; /api/snapshot answers still")
                    .with(RETRY_AFTER, HeaderValue::from_static("10"))
            }
        }
    }
}

fn health(looking: &Looking, in_full: bool) -> Answer {
    let (status, text) = health::of(&looking.board().look(), in_full);
    Answer::new(status, JSON, text)
}

/// What is for those who have shown the token.
enum Found {
    Snapshot,
    Events,
    Metrics,
    Kang,
}

const NOTHING: &str = "there is nothing here; try /, /api/snapshot, /api/events, /metrics, /kang/snapshot or /healthz";
