//! `carom ledger`: what a pool of Indy nodes says, to those who hold no connection to it.

mod answer;
mod progress;
mod request;
mod status;
mod trouble;

use crate::args;
use crate::failure::Failure;
use crate::files;
use answer::Layout;
use carom_indy::{Pool, PoolError};
use progress::Bar;
use request::{Question, Request};
use status::Status;

pub(crate) fn run(args: args::Ledger) -> Result<(), Failure> {
    let request = Request::new(args)?;
    crate::block_on(crate::runtime()?, ask(request))
}

async fn ask(request: Request) -> Result<(), Failure> {
    let pool = open(&request).await?;
    let text = match &request.question {
        Question::Status => answer::status(&Status::of(&pool).await?, request.layout),
        Question::Transaction { number, ledger, request: asked } => {
            let reply = pool.send(asked).await.map_err(trouble::of_request)?;
            answer::transaction(&reply, *number, *ledger, &pool.head(), request.layout)?
        }
        Question::Submit(asked) => {
            let reply = pool.send(asked).await.map_err(trouble::of_request)?;
            answer::reply(reply, request.layout)?
        }
    };
    Ok(crate::output::print(&text)?)
}

/// Opens the pool, showing on a terminal how far it is with catching up.
async fn open(request: &Request) -> Result<Pool, Failure> {
    let mut opening =
        Pool::open(&*request.genesis).ack_timeout(request.ack_timeout).reply_timeout(request.reply_timeout);
    if let Some(folder) = &request.cache {
        opening = opening.cache(folder);
    }
    let bar = Bar::on_terminal();
    if let Some(bar) = bar.clone() {
        opening = opening.progress(move |at, of| bar.show(at, of));
    }
    let opened = opening.await;
    if let Some(bar) = bar {
        bar.clear();
    }
    opened.map_err(|error| match error {
        PoolError::Genesis(error) => Failure::Input(files::of_no_use(&request.genesis_file, error)),
        error => trouble::of_pool(error),
    })
}
