//! `carom load`: how a service bears up when it is asked as often as it can answer, or at a rate.

mod histogram;
mod json;
mod pace;
mod progress;
mod report;
mod tally;
mod workers;

use crate::args;
use crate::ending::Ending;
use crate::failure::Failure;
use crate::gateway::raise_open_files;
use crate::output;
use crate::target::Target;
use crate::terminal;
use pace::Pace;
use progress::{Bar, Progress};
use report::Report;
use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval, sleep};
use workers::{Standing, Workers};

/// When nothing says when it ends.
const DURATION: Duration = Duration::from_secs(10);
/// For requests that have been made when it ends.
const GRACE: Duration = Duration::from_secs(2);
const DRAW_INTERVAL: Duration = Duration::from_millis(200);
/// How many draws the rate is taken over.
const RATE_SAMPLES: usize = 5;
/// Columns of a report that no terminal shows.
const WIDTH: usize = 100;

/// What is to be done.
#[derive(Debug)]
struct Request {
    connections: u16,
    duration: Option<Duration>,
    requests: Option<u64>,
    rate: Option<u32>,
    json: bool,
    fail: bool,
}

pub(crate) fn run(args: args::Load) -> Result<(), Failure> {
    let args::Load { target, data, connections, duration, requests, rate, json, fail } = args;
    let target = Target::new(target, data)?;
    let duration = duration.or(if requests.is_none() { Some(DURATION) } else { None });
    let request = Request { connections, duration, requests, rate, json, fail };
    raise_open_files(connections.into(), "--connections is");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(crate::cannot_start)?;
    crate::block_on(runtime, load(target, request))
}

async fn load(target: Target, request: Request) -> Result<(), Failure> {
    let mut ending = Ending::watch()?;
    let (url, method) = (target.uri.to_string(), target.method.to_string());
    let connections = usize::from(request.connections);
    let agent = target.agent(|agent| agent.spares(connections).maximum(connections))?;
    let pace = Pace::new(request.rate, request.requests, request.duration);
    let mut workers = Workers::start(target, agent, pace, request.connections);
    run_out(&mut workers, &request, &mut ending).await;
    let outcome = workers.finish().await;
    let report = Report {
        url,
        method,
        connections: request.connections,
        rate: request.rate,
        elapsed: outcome.elapsed,
        unfinished: outcome.unfinished,
        not_started: outcome.not_started,
        tally: outcome.tally,
    };
    let width = if io::stdout().is_terminal() { terminal::size().0 } else { WIDTH };
    output::print(&if request.json { json::line(&report) } else { report.text(width) })?;
    verdict(&report, request.fail)
}

/// Waits until there is nothing left to do, time is up or somebody has had enough of it; then for what was begun, but not long.
async fn run_out(workers: &mut Workers, request: &Request, ending: &mut Ending) {
    let mut bar = Bar::on_terminal();
    let mut draws = interval(DRAW_INTERVAL);
    draws.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut samples = VecDeque::new();
    let time_is_up = sleep(request.duration.unwrap_or(Duration::MAX));
    tokio::pin!(time_is_up);
    loop {
        tokio::select! {
            () = workers.done() => return,
            () = &mut time_is_up => break,
            () = ending.comes() => break,
            _ = draws.tick(), if bar.is_some() => {
                let standing = workers.standing();
                let progress = progress(request, standing, &mut samples);
                if let Some(bar) = &mut bar {
                    bar.show(&progress);
                }
            }
        }
    }
    workers.stop();
    tokio::select! {
        () = workers.done() => {}
        () = sleep(GRACE) => {}
        () = ending.comes() => {}
    }
}

fn progress(request: &Request, now: Standing, samples: &mut VecDeque<Standing>) -> Progress {
    let ended = |standing: Standing| standing.answered + standing.failed;
    let before = samples.front().copied();
    samples.push_back(now);
    if samples.len() > RATE_SAMPLES {
        samples.pop_front();
    }
    let rate = before.map_or(0.0, |before| {
        let seconds = now.elapsed.saturating_sub(before.elapsed).as_secs_f64();
        (ended(now) - ended(before)) as f64 / seconds.max(f64::MIN_POSITIVE)
    });
    Progress {
        elapsed: now.elapsed,
        duration: request.duration,
        requests: ended(now),
        wanted: request.requests,
        failed: now.failed,
        rate,
    }
}

/// Whether it went as it should.
fn verdict(report: &Report, fail: bool) -> Result<(), Failure> {
    let bad: u64 = report.tally.statuses.range(400..).map(|(_, count)| count).sum();
    let failed = report.tally.failure_count();
    let problem = if report.tally.answers() == 0 {
        "not one request was answered".to_owned()
    } else if fail && failed + bad > 0 {
        format!("{failed} requests failed, and {bad} were answered with a status of 400 or above")
    } else {
        return Ok(());
    };
    Err(Failure::Unavailable(problem))
}
