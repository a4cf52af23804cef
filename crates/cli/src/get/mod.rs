//! `carom get`: what a service answers, which of its nodes did, and how long each step took.

mod sink;
mod summary;
mod text;

use crate::args;
use crate::failure::{Failure, say};
use crate::output::{self, printable};
use crate::target::{Target, Trouble, next_part};
use crate::terminal;
use carom::agent::{Agent, Body};
use http::Response;
use http::header::LOCATION;
use sink::Sink;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Instant;
use summary::Summary;

/// What is to be done.
#[derive(Debug)]
struct Request {
    target: Target,
    output: Option<PathBuf>,
    include: bool,
    json: bool,
    quiet: bool,
    fail: bool,
    times: u64,
}

pub(crate) fn run(args: args::Get) -> Result<(), Failure> {
    let args::Get { target, data, include, output, json, quiet, fail, times } = args;
    if json && output.as_deref() == Some(Path::new("-")) {
        return Err(Failure::Usage("--json and the body cannot both go to stdout".to_owned()));
    }
    let target = Target::new(target, data)?;
    crate::block_on(crate::runtime()?, get(Request { target, output, include, json, quiet, fail, times }))
}

async fn get(request: Request) -> Result<(), Failure> {
    // One after the other, there is use for one connection.
    let agent = request.target.agent(|agent| agent.spares(1).maximum(1))?;
    let mut failed = 0;
    for _ in 0..request.times {
        match ask(&agent, &request).await {
            Err(failure @ Failure::Unavailable(_)) if request.times > 1 => {
                say(format_args!("error: {failure}"));
                failed += 1;
            }
            ended => ended?,
        }
    }
    if failed > 0 {
        return Err(Failure::Unavailable(format!("{failed} of {} requests failed", request.times)));
    }
    Ok(())
}

/// Makes one request, and tells all there is to it.
async fn ask(agent: &Agent, request: &Request) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut response = match agent.request(request.target.request()).await {
        Ok(response) => response,
        Err(error) => return Err(told(request, error.into())),
    };
    let head = Instant::now();
    let mut summary = Summary::of(&response);
    if request.include {
        sink::print_head(&response)?;
    }
    let mut sink = Sink::open(request.output.as_deref(), request.json)?;
    let is_shown = loop {
        match next_part(&mut response, request.target.timeout).await {
            Ok(None) => break !sink.finish()?,
            Ok(Some(part)) => {
                summary.body_bytes += part.len() as u64;
                if !sink.write(&part)? {
                    sink.finish()?;
                    break false;
                }
            }
            Err(trouble) => {
                sink.finish()?;
                return Err(told(request, trouble));
            }
        }
    };
    (summary.body, summary.total) = (head.elapsed(), begun.elapsed());
    if request.json {
        output::print(&summary.json(&request.target))?;
    } else if !request.quiet {
        tell(&response, &summary);
    }
    let status = summary.status;
    if !is_shown {
        Err(Failure::Unavailable(sink::refusal(&response)))
    } else if request.fail && (status.is_client_error() || status.is_server_error()) {
        Err(Failure::Unavailable(format!("the answer is {status}")))
    } else {
        Ok(())
    }
}

/// A failure, after those who read JSON have been told of it too.
fn told(request: &Request, trouble: Trouble) -> Failure {
    if request.json
        && let Err(error) = output::print(&summary::json_of(&trouble, &request.target))
    {
        return error.into();
    }
    trouble.into()
}

/// Says on stderr what the answer was.
fn tell(response: &Response<Body>, summary: &Summary) {
    // In a pipe a line is as long as it is.
    let width = if io::stderr().is_terminal() { terminal::columns_of_stderr() } else { usize::MAX };
    say(summary.text(width).trim_end());
    if let Some(location) = response.headers().get(LOCATION).filter(|_| summary.status.is_redirection()) {
        let location = printable(&String::from_utf8_lossy(location.as_bytes()));
        say(format_args!("note: redirected to {location}, and not followed"));
    }
}
