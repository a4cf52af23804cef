//! The config: what a file says, over the environment, over `.env`, over defaults; command lines go over all of it.
//!
//! Each table of the file has a module that takes it apart; what nobody takes is a mistake.

mod dotenv;
mod environment;
mod feed;
mod gateway;
mod layered;
mod recovery;

pub(crate) use environment::Environment;
pub(crate) use feed::{Feed, MOST_CONNECTIONS, MOST_TOPICS, Upstream};
pub(crate) use gateway::{Gateway, KeysAt};
pub(crate) use layered::{Layered, address};

use crate::failure::Failure;
use crate::files;
use carom_gateway::tables::{Table, TableError};
use std::path::{Path, PathBuf};

const LONGEST: u64 = 16 << 20;

/// Everything that is configured.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) gateway: Gateway,
    pub(crate) feeds: Vec<Feed>,
}

/// A file that is being taken apart.
struct File<'a> {
    path: &'a Path,
    table: Table,
}

impl Config {
    /// What this file says, or no file.
    pub(crate) fn read(file: Option<&Path>, environment: &Environment) -> Result<Config, Failure> {
        let file = match file {
            Some(path) => {
                let table =
                    Table::parse(&path.display().to_string(), &files::read(path, LONGEST)?).map_err(of_no_use)?;
                Some(File { path, table })
            }
            None => None,
        };
        Config::new(file, environment).map_err(of_no_use)
    }

    fn new(mut file: Option<File<'_>>, environment: &Environment) -> Result<Config, TableError> {
        let gateway = Gateway::read(file.as_mut(), environment)?;
        let feeds = feed::read(file.as_mut(), environment)?;
        if let Some(file) = file {
            file.table.finish()?;
        }
        Ok(Config { gateway, feeds })
    }
}

impl File<'_> {
    /// What is named in a file is found from there, not from where somebody happens to be.
    fn beside(&self, name: String) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(name)
    }
}

/// It is written as `file:line: key: problem`.
fn of_no_use(error: TableError) -> Failure {
    Failure::Input(error.to_string())
}
