//! Open files: every client is one, and systems allow few unless they are asked.

/// Allows as many as there can be, and warns when that is too few for so many clients; `said` is where they are allowed.
#[cfg(unix)]
pub(crate) fn raise(clients: usize, said: &str) {
    use crate::failure::say;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // Where it does not work, it is as it was; whether that is enough is seen next.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    // None is no limit.
    let allowed = getrlimit(Resource::Nofile).current;
    if let Some(allowed) = allowed.filter(|&allowed| allowed < clients as u64) {
        say(format_args!(
            "warning: this system allows {allowed} open files (ulimit -Hn), and {said} {clients}: fewer will get in"
        ));
    }
}

/// There is no such limit.
#[cfg(not(unix))]
pub(crate) fn raise(_: usize, _: &str) {}
