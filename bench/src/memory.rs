//! Heap bytes that a pool and a set keep for each idle connection, counted in a process of their own.
#![allow(unsafe_code, reason = "an allocator cannot be written without it")]

use crate::bars::{Bar, Limit};
use crate::peers::carom::AtOnce;
use crate::report;
use carom::set::{ConnectionSnapshot, Idleness};
use carom::{Backend, Pool, Set, connect_fn};
use serde_json::{Value, json};
use std::alloc::{GlobalAlloc, Layout, System};
use std::env;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const CONNECTIONS: usize = 100_000;
/// Of a set, each to another backend.
const SHARED: usize = 10_000;
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// The pool has yet to take in the last connections, and may watch over those that have idled for a while.
const SETTLING: Duration = Duration::from_secs(1);

/// Prints and keeps what a process started with `--memory` counted.
pub fn report() -> io::Result<()> {
    let counted = counted_in_a_process()?;
    let bytes_each = |of: &str| {
        let row = counted.iter().find(|row| row["of"] == of)?;
        row["bytes_per_connection"].as_f64()
    };
    let bar = Bar {
        what: format!("memory of {CONNECTIONS} idle connections: bytes each"),
        figure: bytes_each("pool"),
        limit: Limit::AtMost(600.0),
    };
    println!("\n{bar}");
    if let Some(bytes) = bytes_each("set") {
        println!("memory of {SHARED} idle-marked connections of a set, each to another backend: {bytes:.0} bytes each");
    }
    report::write("memory.json", counted)
}

/// The part of the process started with `--memory`: its one line of output has the rows.
pub fn count_and_print() {
    COUNTING.store(true, Ordering::Relaxed);
    let row = |of: &str, connections: usize, bytes: isize| {
        let each = bytes as f64 / connections as f64;
        json!({ "of": of, "connections": connections, "bytes": bytes, "bytes_per_connection": each })
    };
    let rows = [
        row("pool", CONNECTIONS, on_own_runtime(bytes_of_idle_connections())),
        row("set", SHARED, on_own_runtime(bytes_of_shared_connections())),
    ];
    println!("{}", json!(rows));
}

/// What somebody makes, and how many bytes of the heap it keeps. Nobody else may be at work.
pub fn kept<T>(make: impl FnOnce() -> T) -> (T, isize) {
    let before = IN_USE.load(Ordering::Relaxed);
    COUNTING.store(true, Ordering::Relaxed);
    let made = make();
    COUNTING.store(false, Ordering::Relaxed);
    (made, IN_USE.load(Ordering::Relaxed) - before)
}

/// Its end frees whatever is left of the work, so that one count does not disturb the next.
fn on_own_runtime(work: impl Future<Output = isize>) -> isize {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("the runtime starts");
    runtime.block_on(work)
}

/// Nothing when the process was cut or failed.
fn counted_in_a_process() -> io::Result<Vec<Value>> {
    let mut process = Command::new(env::current_exe()?).arg("--memory").stdout(Stdio::piped()).spawn()?;
    let deadline = Instant::now() + TIME_LIMIT;
    while process.try_wait()?.is_none() {
        if Instant::now() >= deadline {
            process.kill()?;
            process.wait()?;
            return Ok(Vec::new());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = process.wait_with_output()?;
    Ok(serde_json::from_slice(&output.stdout).unwrap_or_default())
}

async fn bytes_of_idle_connections() -> isize {
    let opened = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&opened);
    let connector = connect_fn(move |_backend| {
        counter.fetch_add(1, Ordering::Relaxed);
        async { Ok::<(), io::Error>(()) }
    });
    let before = IN_USE.load(Ordering::Relaxed);
    let pool = Pool::builder(connector)
        .backends([SocketAddr::from((Ipv4Addr::LOCALHOST, 1))])
        .spares(CONNECTIONS)
        .maximum(CONNECTIONS)
        .build()
        .expect("the options are valid");
    while opened.load(Ordering::Relaxed) < CONNECTIONS {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(SETTLING).await;
    let after = IN_USE.load(Ordering::Relaxed);
    drop(pool);
    after - before
}

/// Everybody has let go of them, and the detector has seen it.
async fn bytes_of_shared_connections() -> isize {
    let before = IN_USE.load(Ordering::Relaxed);
    let (max_idle, interval) = (Duration::from_secs(60), Duration::from_millis(100));
    let set = Set::builder(AtOnce)
        .backends([SocketAddr::from((Ipv4Addr::LOCALHOST, 1))])
        .max_idle(max_idle)
        .idle_interval(interval)
        .build()
        .expect("the options are valid");
    for at in 0..SHARED {
        let address = SocketAddr::from(([10, 0, (at / 250) as u8, (at % 250) as u8], 6650));
        drop(set.lease_to(&Backend::fixed(address)).await.expect("the lease succeeds"));
    }
    let marked = |of: &ConnectionSnapshot| matches!(of.idleness, Idleness::IdleMarked { .. });
    while !set.connections().iter().all(marked) {
        tokio::time::sleep(interval).await;
    }
    let after = IN_USE.load(Ordering::Relaxed);
    drop(set);
    after - before
}

#[global_allocator]
static HEAP: Heap = Heap;

/// Off while times are measured: then an allocation costs one more relaxed load, and no shared line is written.
static COUNTING: AtomicBool = AtomicBool::new(false);

/// May be negative, as what was allocated before counting began can be freed after.
static IN_USE: AtomicIsize = AtomicIsize::new(0);

/// The system's allocator, counting the bytes asked for.
struct Heap;

impl Heap {
    fn count(&self, bytes: isize) {
        if COUNTING.load(Ordering::Relaxed) {
            IN_USE.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.count(size as isize - layout.size() as isize);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
