//! A resolver that remembers: what was known last is at hand at once after a restart, even without a nameserver.

use super::{Publisher, Resolution, Resolve, ResolverState};
use crate::seed::seed;
use crate::{Backend, clock};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use carom_core::backend::are_the_same;
use sha1::{Digest, Sha1};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};
use tokio::task::JoinHandle;

/// The first line of a file that is ours.
const HEADER: &str = "carom backends 1";
/// No file that we wrote is longer.
const LONGEST: u64 = 64 << 20;

/// Wraps another resolver, writes every good set to a file, and on start offers what the file holds at once, marked stale,
/// until the other has answered.
///
/// A set is good when it is complete, not stale, not empty, and came without trouble: one that is short of what a nameserver
/// could not say does not replace one that was whole. The file is written when such a set is other than the one written last,
/// and once after the start; so [`stale_since`](Resolution::stale_since) of what is remembered counts from when the set was
/// last written, which is when it last changed, and not from when it was last confirmed.
///
/// A file that is torn or not one of ours is ignored with a warning, and one that cannot be written is no more than a
/// warning either. What is not ours is never written over. Give each service its own file.
///
/// ```no_run
/// use carom::resolver::{Fixed, Remembered, Resolver};
///
/// # fn example(resolver: Fixed) -> Result<(), Box<dyn std::error::Error>> {
/// let resolver = Resolver::start(Remembered::new(resolver, "/var/lib/orders/backends"))?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Remembered<R> {
    wrapped: R,
    path: PathBuf,
}

impl<R: Resolve> Remembered<R> {
    /// Remembers in this file what the other resolver says.
    pub fn new(wrapped: R, path: impl Into<PathBuf>) -> Remembered<R> {
        Remembered { wrapped, path: path.into() }
    }
}

impl<R: Resolve> Resolve for Remembered<R> {
    async fn run(self, publisher: Publisher) {
        let path: Arc<Path> = self.path.into();
        let remembered = recall(&path).await;
        if let Some(memory) = &remembered {
            publisher.relay(memory.clone());
        }
        let (inner, resolution) = publisher.within();
        // The other may end, as a fixed one does: then its publisher is gone, and following ends with it.
        tokio::join!(self.wrapped.run(inner), follow(resolution, remembered, publisher, path));
    }
}

/// Passes on what the wrapped resolver says, and keeps the file up to date beside it.
async fn follow(
    mut resolution: tokio::sync::watch::Receiver<Resolution>,
    mut remembered: Option<Resolution>,
    publisher: Publisher,
    path: Arc<Path>,
) {
    // The first good set is written even if it is the one remembered: it has been confirmed now.
    let mut kept: Arc<[Backend]> = Arc::new([]);
    let mut writing: Option<JoinHandle<()>> = None;
    let keeper = Arc::new(Keeper { path, refused: AtomicBool::new(false) });
    loop {
        let over = tokio::select! {
            changed = resolution.changed() => changed.is_err(),
            () = ended(&mut writing) => false,
        };
        let mut known = resolution.borrow_and_update().clone();
        if known.state == ResolverState::Running {
            remembered = None;
        } else if let Some(memory) = &remembered {
            let last_error = known.last_error.take();
            known = Resolution { last_error, ..memory.clone() };
        }
        let good = known.state == ResolverState::Running
            && known.stale_since.is_none()
            && known.complete
            && known.last_error.is_none();
        if good && !known.backends.is_empty() && !are_the_same(&kept, &known.backends) && writing.is_none() {
            kept = Arc::clone(&known.backends);
            let (keeper, backends) = (Arc::clone(&keeper), Arc::clone(&kept));
            writing = Some(tokio::task::spawn_blocking(move || keeper.keep(&backends)));
        }
        publisher.relay(known);
        if over && writing.is_none() {
            return;
        }
        if over {
            ended(&mut writing).await;
        }
    }
}

/// Waits for the writer to end, if there is one.
async fn ended(writing: &mut Option<JoinHandle<()>>) {
    match writing {
        Some(task) => {
            // A writer that panicked has said so; the next set is written all the same.
            let _ = task.await;
            *writing = None;
        }
        None => std::future::pending().await,
    }
}

async fn recall(path: &Arc<Path>) -> Option<Resolution> {
    let asked = Arc::clone(path);
    let (backends, age) = match tokio::task::spawn_blocking(move || read(&asked)).await.ok()? {
        Ok(remembered) => remembered,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "remembered backends cannot be used");
            return None;
        }
    };
    let now = clock::now();
    Some(Resolution {
        state: ResolverState::Running,
        backends: backends.into(),
        stale_since: Some(now.checked_sub(age).unwrap_or(now)),
        complete: true,
        ..Resolution::unknown()
    })
}

/// Writes the file, if it is there to be written.
struct Keeper {
    path: Arc<Path>,
    /// There is something that is not ours, and that has been told.
    refused: AtomicBool,
}

impl Keeper {
    fn keep(&self, backends: &[Backend]) {
        let ours = is_ours(&self.path);
        let refused = matches!(ours, Ok(false));
        if refused && self.refused.swap(true, Ordering::Relaxed) {
            return;
        }
        let written = match ours {
            Ok(true) => write(&self.path, backends),
            Ok(false) => Err(io::Error::other("there is something else, which is left alone")),
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            tracing::warn!(path = %self.path.display(), %error, "backends could not be remembered");
        }
    }
}

/// Whether what is there may be written over: nothing, or a file that we began.
fn is_ours(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(known) if !known.is_file() => return Ok(false),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    }
    let (header, mut begin) = (format!("{HEADER}\n"), Vec::new());
    match File::open(path) {
        Ok(file) => file.take(header.len() as u64).read_to_end(&mut begin)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    // One that was torn within the header is ours, and so is an empty one: nobody misses it.
    Ok(header.as_bytes().starts_with(&begin))
}

/// Reads what was written, and how long ago that was.
fn read(path: &Path) -> io::Result<(Vec<Backend>, Duration)> {
    // Of anything else one cannot tell how long reading takes.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let file = File::open(path)?;
    let written = file.metadata()?.modified()?;
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text)?;
    let backends = decode(&text).map_err(|problem| io::Error::new(io::ErrorKind::InvalidData, problem))?;
    Ok((backends, SystemTime::now().duration_since(written).unwrap_or_default()))
}

/// Writes beside the file, makes sure that it is on the disk, and then puts it in its place.
fn write(path: &Path, backends: &[Backend]) -> io::Result<()> {
    // By chance rather than by process: containers that share a folder have the same processes.
    let name = path.file_name().ok_or_else(|| io::Error::other("the path names no file"))?.to_string_lossy();
    let beside = format!(".{name}.{:016x}", seed());
    let (beside, folder) = (path.with_file_name(beside), path.parent().filter(|folder| *folder != Path::new("")));
    let text = encode(backends)?;
    let written = File::create_new(&beside)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // Whatever was left of it is in nobody's way, but nobody's use either.
        let _ = fs::remove_file(&beside);
    }
    written?;
    // The name is on the disk only when the folder is. Where folders cannot be opened, the system sees to it.
    if let Ok(folder) = File::open(folder.unwrap_or(Path::new("."))) {
        folder.sync_all()?;
    }
    Ok(())
}

/// A line for each backend, and at the end how many there are and the hash of all before it.
fn encode(backends: &[Backend]) -> io::Result<String> {
    let mut text = format!("{HEADER}\n");
    for backend in backends {
        if backend.name().contains(['\n', '\r']) {
            return Err(io::Error::other(format!("a backend's name has a line break: {:?}", backend.name())));
        }
        let (address, priority, weight) = (backend.socket_addr(), backend.priority(), backend.weight());
        text += &format!("{address} {priority} {weight} {}\n", backend.name());
    }
    text += &format!("end {} {}\n", backends.len(), hash(&text));
    Ok(text)
}

fn decode(text: &str) -> Result<Vec<Backend>, &'static str> {
    if text.strip_prefix(HEADER).is_none_or(|rest| !rest.starts_with('\n')) {
        return Err("not a file of remembered backends");
    }
    let body_length = text.trim_end_matches('\n').rfind('\n').ok_or("cut short")? + 1;
    let (body, end) = text.split_at(body_length);
    let lines: Vec<_> = body.lines().skip(1).collect();
    if end != format!("end {} {}\n", lines.len(), hash(body)) {
        return Err("cut short or damaged");
    }
    let backends: Option<Vec<_>> = lines.into_iter().map(decode_line).collect();
    backends.filter(|backends| !backends.is_empty()).ok_or("holds no backends")
}

fn decode_line(line: &str) -> Option<Backend> {
    let mut words = line.splitn(4, ' ');
    let address = words.next()?.parse().ok()?;
    let (priority, weight) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(Backend::new(words.next()?, address).with_priority(priority, weight))
}

fn hash(text: &str) -> String {
    STANDARD.encode(Sha1::digest(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Vec<Backend> {
        vec![
            Backend::fixed("10.0.0.1:80".parse().unwrap()),
            Backend::new("a name with spaces", "[2001:db8::1]:443".parse().unwrap()).with_priority(10, 65535),
        ]
    }

    #[test]
    fn what_is_written_is_read() {
        let read = decode(&encode(&some()).unwrap()).unwrap();
        assert!(are_the_same(&read, &some()), "{read:?}");
    }

    #[test]
    fn a_file_cut_anywhere_is_refused() {
        let text = encode(&some()).unwrap();
        for end in 0..text.len() {
            assert!(decode(&text[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn a_file_changed_anywhere_is_refused() {
        let text = encode(&some()).unwrap();
        for i in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[i] ^= 1;
            if let Ok(changed) = String::from_utf8(bytes) {
                assert!(decode(&changed).is_err(), "changed at {i}");
            }
        }
    }
}
