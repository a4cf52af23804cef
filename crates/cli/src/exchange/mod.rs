//! `carom exchange`: a simulated exchange, as a server of its own.

use crate::args;
use crate::failure::{Failure, say, with_causes};
use crate::files;
use crate::orders::{Order, Orders};
use crate::output::{announce, print, reachable};
use crate::secret::Secret;
use carom::OptionsError;
use carom_gateway::simulated::{Exchange, Market, Options, StartError};
use std::net::SocketAddr;
use std::path::{self, Path, PathBuf};
use std::time::Duration;

/// No token comes near.
const LONGEST_TOKEN: u64 = 64 << 10;
/// As exchanges that serve have it.
const MOST_SYMBOLS: usize = 1_000_000;

/// What is to be done.
struct Request {
    options: Options,
    token: Option<Token>,
    /// What it is like, for people.
    summary: String,
}

/// What connections must present.
struct Token {
    secret: Secret,
    /// Where it can be read again.
    file: Option<PathBuf>,
}

pub(crate) fn run(args: args::Exchange) -> Result<(), Failure> {
    if args.list {
        return list(args.symbols, args.seed);
    }
    let request = Request::new(args)?;
    crate::block_on(crate::runtime()?, serve(request))
}

/// What is listed, without anybody being served.
fn list(symbols: usize, seed: u64) -> Result<(), Failure> {
    if !(1..=MOST_SYMBOLS).contains(&symbols) {
        return Err(Failure::Usage(format!("--symbols must be from 1 to {MOST_SYMBOLS}, not {symbols}")));
    }
    let market = Market::new(symbols, seed);
    let lines: String = market.instruments().map(|instrument| format!("{instrument}\n")).collect();
    Ok(print(&lines)?)
}

impl Request {
    fn new(args: args::Exchange) -> Result<Request, Failure> {
        let args::Exchange { listen, symbols, rate, seed, token, token_file, .. } = args;
        let token = match (token, token_file) {
            (Some(secret), _) => Some(Token { secret, file: None }),
            (None, Some(file)) => {
                // What comes from stdin comes once.
                let secret = read_token(&file)?;
                Some(Token { secret, file: Some(file).filter(|file| file != Path::new("-")) })
            }
            (None, None) => None,
        };
        if token.as_ref().is_some_and(|token| token.secret.reveal().is_empty()) {
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
            .token(token.as_ref().map(|token| token.secret.reveal().to_owned()))
            .max_connections(connections)
            .max_topics_per_connection(topics)
            .ack_delay(args.ack_delay.unwrap_or(Duration::ZERO))
            .kill_every(args.kill_every);
        Ok(Request { options, token, summary })
    }
}

async fn serve(request: Request) -> Result<(), Failure> {
    let mut orders = Orders::watch()?;
    let Request { options, mut token, summary } = request;
    let exchange = Exchange::start(options).await.map_err(|error| match error {
        StartError::Options(error) => Failure::Usage(as_typed(&error)),
        error => Failure::Unavailable(with_causes(&error)),
    })?;
    announce(&banner(exchange.local_addr(), &summary, token.as_ref()));
    while orders.next().await == Order::Reload {
        reload(&exchange, token.as_mut());
    }
    exchange.stop().await;
    Ok(())
}

fn reload(exchange: &Exchange, token: Option<&mut Token>) {
    let Some(Token { secret, file: Some(file) }) = token else {
        return say("there is no file to read a token from, and nothing changes");
    };
    match read_token(file) {
        // Those who have presented it stay.
        Ok(read) if read == *secret => say("the token was read again, and is the same"),
        Ok(read) => {
            exchange.change_token(read.reveal());
            *secret = read;
            say("the token was read again");
        }
        Err(failure) => say(format_args!("warning: the token stays as it was: {failure}")),
    }
}

fn read_token(file: &Path) -> Result<Secret, Failure> {
    let Ok(token) = files::read(file, LONGEST_TOKEN)?.trim().parse::<Secret>();
    let problem = "there is no token in it";
    if token.reveal().is_empty() { Err(Failure::Input(files::of_no_use(file, problem))) } else { Ok(token) }
}

/// Options are named as they are typed: `max_connections` is `--max-connections`.
fn as_typed(error: &OptionsError) -> String {
    let (option, text) = (error.option(), error.to_string());
    format!("--{}{}", option.replace('_', "-"), text.strip_prefix(option).unwrap_or_default())
}

fn banner(at: SocketAddr, summary: &str, token: Option<&Token>) -> String {
    let credential = match token {
        None => String::new(),
        Some(Token { file: Some(file), .. }) => {
            // The config may be anywhere.
            let file = path::absolute(file).unwrap_or_else(|_| file.clone());
            format!("  credential_file = {}\n", quoted(&file.display().to_string()))
        }
        // Whoever has typed it knows it, and it is not for those who read this later.
        Some(Token { file: None, .. }) => "  credential = \"THE TOKEN\"\n".to_owned(),
    };
    format!(
        "exchange: ws://{at}\n  {summary}\n\nTo try it, in the config of `carom gateway -c FILE`:\n  [[feed]]\n  broker = \"simulated\"\n  \
         user = \"demo\"\n{credential}  url = \"ws://{}\"\n",
        reachable(at)
    )
}

/// A text as TOML writes it, which is how JSON does.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(file: Option<&str>) -> Token {
        let Ok(secret) = "hush".parse();
        Token { secret, file: file.map(PathBuf::from) }
    }

    #[test]
    fn what_is_to_be_tried_works_from_anywhere() {
        let at = SocketAddr::from(([0, 0, 0, 0], 7001));
        let shown = banner(at, "all", Some(&token(Some("/run/a \"b\\\u{7}"))));
        assert!(
            shown.starts_with("exchange: ws://0.0.0.0:7001\n") && shown.ends_with("url = \"ws://127.0.0.1:7001\"\n")
        );
        let line = shown.lines().find_map(|line| line.strip_prefix("  credential_file = ")).unwrap();
        assert_eq!(line, r#""/run/a \"b\\\u0007""#);
        let shown = banner(at, "all", Some(&token(Some("token"))));
        let file = path::absolute("token").unwrap();
        assert!(shown.contains(&quoted(&file.display().to_string())), "{shown}");
    }

    #[test]
    fn that_a_token_is_needed_is_shown_and_the_token_is_not() {
        let at = SocketAddr::from(([127, 0, 0, 1], 7001));
        let shown = banner(at, "all", Some(&token(None)));
        assert!(shown.contains("\n  credential = \"THE TOKEN\"\n") && !shown.contains("hush"), "{shown}");
        assert!(!banner(at, "all", None).contains("credential"));
    }
}
