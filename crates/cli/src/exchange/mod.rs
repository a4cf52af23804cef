//! `carom exchange`: a simulated exchange, as a server of its own.

use crate::args;
use crate::failure::{Failure, say, with_causes};
use crate::files;
use crate::orders::{Order, Orders};
use crate::output::print;
use carom::OptionsError;
use carom_gateway::simulated::{Exchange, Options, StartError};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// No token comes near.
const LONGEST_TOKEN: u64 = 64 << 10;

/// What is to be done.
struct Request {
    options: Options,
    token_file: Option<PathBuf>,
    /// What it is like, for people.
    summary: String,
}

pub(crate) fn run(args: args::Exchange) -> Result<(), Failure> {
    let request = Request::new(args)?;
    crate::runtime()?.block_on(serve(request))
}

impl Request {
    fn new(args: args::Exchange) -> Result<Request, Failure> {
        let args::Exchange { listen, symbols, rate, seed, token, token_file, .. } = args;
        let token = match (token, &token_file) {
            (Some(token), _) => Some(token.reveal().to_owned()),
            (None, Some(file)) => Some(read_token(file)?),
            (None, None) => None,
        };
        if token.as_ref().is_some_and(|token| token.is_empty()) {
            return Err(Failure::Usage("the token is empty".to_owned()));
        }
        let (connections, topics) = (args.max_connections, args.max_topics_per_connection);
        let summary = format!(
            "{symbols} symbols, {rate} ticks/s, seed {seed}, {connections} connections of {topics} symbols{}",
            if token.is_some() { ", with a token" } else { "" }
        );
        let options = Options::default()
            .listen(listen)
            .symbols(symbols)
            .rate(rate)
            .seed(seed)
            .token(token)
            .max_connections(connections)
            .max_topics_per_connection(topics)
            .ack_delay(args.ack_delay.unwrap_or(Duration::ZERO))
            .kill_every(args.kill_every);
        Ok(Request { options, token_file, summary })
    }
}

async fn serve(request: Request) -> Result<(), Failure> {
    let mut orders = Orders::watch()?;
    let exchange = Exchange::start(request.options).await.map_err(|error| match error {
        StartError::Options(error) => Failure::Usage(as_typed(&error)),
        error => Failure::Unavailable(with_causes(&error)),
    })?;
    print(&banner(&exchange.url(), &request.summary, request.token_file.as_deref()))?;
    while orders.next().await == Order::Reload {
        reload(&exchange, request.token_file.as_deref());
    }
    exchange.stop().await;
    Ok(())
}

fn reload(exchange: &Exchange, token_file: Option<&Path>) {
    let Some(file) = token_file else { return };
    match read_token(file) {
        Ok(token) => {
            exchange.change_token(token);
            say("the token was read again");
        }
        Err(failure) => say(format_args!("warning: the token stays as it was: {failure}")),
    }
}

fn read_token(file: &Path) -> Result<String, Failure> {
    let token = files::read(file, LONGEST_TOKEN)?.trim().to_owned();
    if token.is_empty() { Err(Failure::Input(files::of_no_use(file, "there is no token in it"))) } else { Ok(token) }
}

/// Options are named as they are typed: `max_connections` is `--max-connections`.
fn as_typed(error: &OptionsError) -> String {
    let (option, text) = (error.option(), error.to_string());
    format!("--{}{}", option.replace('_', "-"), text.strip_prefix(option).unwrap_or_default())
}

fn banner(url: &str, summary: &str, token_file: Option<&Path>) -> String {
    let credential = token_file.map_or_else(String::new, |file| format!("credential_file = {:?}\n  ", file.display()));
    format!(
        "exchange: {url}\n  {summary}\n\nTo try it, in the config of `carom gateway -c FILE`:\n  [[feed]]\n  broker = \"simulated\"\n  \
         user = \"demo\"\n  {credential}url = \"{url}\"\n"
    )
}
