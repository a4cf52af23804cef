//! `carom key new`: a key that is shown once, and its digest where a gateway finds it.

mod program;

use carom_gateway::keys::{Identity, Keys};
use program::carom;
use std::path::PathBuf;

fn path(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("key-new-{name}-{}.toml", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

#[tokio::test]
async fn the_key_is_on_stdout_and_its_table_on_stderr() {
    let ran = carom(["key", "new", "--user", "asha", "--name", "laptop"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let key = ran.stdout.strip_suffix('\n').unwrap();
    assert!(key.len() == 64 && !ran.stderr.contains(key), "{ran:?}");
    let file = path("stderr");
    std::fs::write(&file, &ran.stderr).unwrap();
    assert_eq!(Keys::from_file(&file).unwrap().check(key), Some(Identity::new("simulated", "asha")));
    assert!(ran.stderr.contains("name = \"laptop\"\ncreated = \"20"), "{ran:?}");
}

#[tokio::test]
async fn keys_are_added_to_a_file_for_its_owner_alone() {
    let file = path("added");
    let name = file.to_str().unwrap();
    let one = carom(["key", "new", "--user", "asha", "--file", name]).await;
    std::fs::write(&file, format!("# ours\n{}", std::fs::read_to_string(&file).unwrap().trim_end())).unwrap();
    let two = carom(["key", "new", "-u", "ben", "-b", "kite", "-f", name]).await;
    assert_eq!((one.code, two.code), (Some(0), Some(0)), "{one:?} {two:?}");
    let keys = Keys::from_file(&file).unwrap();
    assert_eq!(keys.check(one.stdout.trim()), Some(Identity::new("simulated", "asha")));
    assert_eq!(keys.check(two.stdout.trim()), Some(Identity::new("kite", "ben")));
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("# ours\n[[key]]\n") && text.contains("\n\n[[key]]\n"), "{text}");
    assert!(!text.contains(one.stdout.trim()) && !one.stderr.contains("[[key]]"), "{one:?}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test]
async fn a_file_that_makes_no_sense_is_left_alone() {
    let file = path("broken");
    std::fs::write(&file, "[[key]]\nusr = \"asha\"\n").unwrap();
    let name = file.to_str().unwrap();
    let ran = carom(["key", "new", "--user", "asha", "--file", name]).await;
    assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{ran:?}");
    assert!(ran.stderr.starts_with(&format!("error: {name}:1: key.user: is missing")), "{ran:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "[[key]]\nusr = \"asha\"\n");
}

#[tokio::test]
async fn nothing_is_shown_that_is_not_kept() {
    let file = path("taken");
    let beside = format!("{}.new", file.display());
    std::fs::write(&beside, "").unwrap();
    for (name, problem) in [
        (file.to_str().unwrap(), "somebody else is at it; if not, remove `"),
        ("/no/such/folder/keys.toml", "cannot be written"),
    ] {
        let ran = carom(["key", "new", "--user", "asha", "--file", name]).await;
        assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
        assert!(ran.stderr.contains(problem), "{ran:?}");
    }
    std::fs::remove_file(&beside).unwrap();
}

#[tokio::test]
async fn somebody_has_to_be_named() {
    for (args, problem) in [(&["key", "new"][..], "--user"), (&["key", "new", "--user", " "], "--user names nobody")] {
        let ran = carom(args).await;
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{ran:?}");
        assert!(ran.stderr.contains(problem), "{ran:?}");
    }
}
