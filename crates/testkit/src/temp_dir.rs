//! Temporary directories.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A directory of one test, removed when this is dropped.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// Creates an empty directory.
    #[expect(clippy::new_without_default, reason = "it creates a directory")]
    pub fn new() -> TempDir {
        static CREATED: AtomicUsize = AtomicUsize::new(0);
        let name = format!("carom-{}-{}", process::id(), CREATED.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        TempDir(path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of `name` in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The names of the files in it.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// Writes a file and returns its path. A file of that name is replaced atomically: a reader sees the old or the new content.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let (path, new) = (self.join(name), self.join(&format!("{name}.new")));
        fs::write(&new, content).unwrap();
        fs::rename(&new, &path).unwrap();
        path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
