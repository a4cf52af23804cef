//! A folder of its own for a test.

use std::path::PathBuf;

/// A folder of its own, gone with it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Made anew, with a name that no other test uses.
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("carom-gateway-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// Writes a file in it, all at once: nobody sees half of it.
    pub(crate) fn write(&self, name: &str, content: &str) -> PathBuf {
        let (path, new) = (self.0.join(name), self.0.join(format!("{name}.new")));
        std::fs::write(&new, content).unwrap();
        std::fs::rename(&new, &path).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
