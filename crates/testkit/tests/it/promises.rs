//! PROMISES.md names tests; each of them exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A name with this many underscores is that of a test; options have fewer.
const UNDERSCORES: usize = 3;

#[test]
fn every_test_named_in_promises_md_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("PROMISES.md")).unwrap();
    let mut sources = Vec::new();
    ["crates", "live", "bench"].into_iter().for_each(|folder| find_sources(&root.join(folder), &mut sources));
    let functions: BTreeSet<String> = sources.iter().flat_map(|path| functions_in(path)).collect();
    let (mut tests, mut missing) = (0, Vec::new());
    for name in page.split('`').skip(1).step_by(2) {
        let exists = match name.strip_suffix(".rs") {
            Some(module) if !module.contains('*') => sources.iter().any(|path| path.ends_with(name)),
            None if is_test(name) => {
                tests += 1;
                functions.contains(name)
            }
            Some(_) | None => continue,
        };
        if !exists {
            missing.push(name);
        }
    }
    assert!(tests > 100, "only {tests} names look like tests");
    assert_eq!(missing, Vec::<&str>::new());
}

fn is_test(name: &str) -> bool {
    let is_word = name.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase() || byte.is_ascii_digit());
    is_word && name.matches('_').count() >= UNDERSCORES
}

fn find_sources(folder: &Path, sources: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find_sources(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(path);
        }
    }
}

fn functions_in(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let name = |rest: &str| rest.chars().take_while(|c| *c == '_' || c.is_ascii_alphanumeric()).collect();
    text.split("fn ").skip(1).map(name).collect()
}
