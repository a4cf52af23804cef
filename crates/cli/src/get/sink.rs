//! Where a body goes: to stdout, if it is fit for a terminal when that is one; to a file; or nowhere.

use super::text::{Found, Text};
use crate::failure::Failure;
use crate::files::of_no_use;
use crate::output::printable;
use carom::agent::Body;
use http::Response;
use http::header::CONTENT_TYPE;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// The place, and how far the body is.
#[derive(Debug)]
pub(super) enum Sink {
    /// Only its length is of interest.
    Nowhere,
    /// Stdout, whatever it is.
    Stdout,
    /// Stdout, to be read by people.
    Terminal {
        text: Text,
        ends_line: bool,
    },
    File {
        path: PathBuf,
        file: File,
    },
}

impl Sink {
    /// Where it was asked for.
    pub(super) fn open(output: Option<&Path>, nowhere: bool) -> Result<Sink, Failure> {
        match output {
            Some(path) if path == Path::new("-") => Ok(Sink::Stdout),
            Some(path) => match File::create(path) {
                Ok(file) => Ok(Sink::File { path: path.to_owned(), file }),
                Err(error) => Err(Failure::Input(of_no_use(path, format_args!("cannot be written: {error}")))),
            },
            None if nowhere => Ok(Sink::Nowhere),
            None if io::stdout().is_terminal() => Ok(Sink::Terminal { text: Text::default(), ends_line: true }),
            None => Ok(Sink::Stdout),
        }
    }

    /// Takes the next part of a body; whether it takes more. On a terminal it does not when that was no text.
    pub(super) fn write(&mut self, part: &[u8]) -> Result<bool, Failure> {
        match self {
            Sink::Nowhere => {}
            Sink::Stdout => print(part)?,
            Sink::Terminal { text, ends_line } => {
                let (shown, goes_on) = match text.take(part) {
                    Found::Text(shown) => (shown, true),
                    Found::Binary(shown) => (shown, false),
                };
                print(&shown)?;
                *ends_line = shown.last().map_or(*ends_line, |last| *last == b'\n');
                return Ok(goes_on);
            }
            Sink::File { path, file } => file
                .write_all(part)
                .map_err(|error| Failure::Unavailable(of_no_use(path, format_args!("cannot be written: {error}"))))?,
        }
        Ok(true)
    }

    /// There is no more. What a terminal shows next is to begin a line; whether the body ended within a character.
    pub(super) fn finish(self) -> io::Result<bool> {
        match self {
            Sink::Terminal { text, ends_line } => {
                if !ends_line {
                    print(b"\n")?;
                }
                Ok(text.is_cut_short())
            }
            Sink::Nowhere | Sink::Stdout | Sink::File { .. } => Ok(false),
        }
    }
}

/// The status and the headers, and an empty line. Control characters in values are escaped, whatever stdout is.
pub(super) fn print_head(response: &Response<Body>) -> io::Result<()> {
    let status = response.status();
    let mut head = format!("{} {status}\n", crate::target::protocol(response.version())).into_bytes();
    for (name, value) in response.headers() {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(printable(&String::from_utf8_lossy(value.as_bytes())).as_bytes());
        head.push(b'\n');
    }
    head.push(b'\n');
    print(&head)
}

/// Why a body is not shown, and what can be done about it.
pub(super) fn refusal(response: &Response<Body>) -> String {
    let mut text = "the body is no text".to_owned();
    if let Some(kind) = response.headers().get(CONTENT_TYPE) {
        let _ = write!(text, " ({})", printable(&String::from_utf8_lossy(kind.as_bytes())));
    }
    text + ", and not for a terminal: -o FILE keeps it, -o - prints it all the same"
}

/// At once, for those who watch it come.
fn print(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}
