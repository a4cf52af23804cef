//! `carom key new`: a key that is shown once, and its digest where a gateway finds it.

use crate::program::{Running, carom};
use carom_gateway::keys::{Identity, Keys};
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

/// Each either has its turn, and its key is kept, or says that it has not.
#[tokio::test]
async fn of_many_at_once_nobody_loses_a_key() {
    let file = path("many");
    let name = file.to_str().unwrap();
    let runs = (0..24).map(|n| {
        let user = format!("user{n}");
        async move { carom(["key", "new", "--user", &user, "--file", name]).await }
    });
    let ran = futures_util::future::join_all(runs).await;
    let keys = Keys::from_file(&file).unwrap();
    let made: Vec<_> = ran.iter().filter(|ran| ran.code == Some(0)).collect();
    assert!(!made.is_empty(), "{ran:?}");
    assert_eq!(keys.len(), made.len(), "{ran:?}");
    for ran in &ran {
        match ran.code {
            Some(0) => assert!(keys.check(ran.stdout.trim()).is_some(), "{ran:?}"),
            _ => assert!(ran.stdout.is_empty() && ran.stderr.contains("somebody else is at it"), "{ran:?}"),
        }
    }
}

#[tokio::test]
async fn somebody_else_who_is_at_it_is_waited_for() {
    let file = path("waited");
    let beside = format!("{}.new", file.display());
    std::fs::write(&beside, "").unwrap();
    let mut making = Running::start(["key", "new", "--user", "asha", "--file", file.to_str().unwrap()]);
    making.told("note: waiting for somebody else who is at it").await;
    std::fs::remove_file(&beside).unwrap();
    assert_eq!(making.line().await.len(), 64);
    assert_eq!(Keys::from_file(&file).unwrap().len(), 1);
}

#[cfg(unix)]
#[tokio::test]
async fn what_is_no_regular_file_is_refused() {
    let folder = path("folder");
    std::fs::create_dir_all(&folder).unwrap();
    for file in [folder.to_str().unwrap(), "/dev/null"] {
        let ran = carom(["key", "new", "--user", "asha", "--file", file]).await;
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{ran:?}");
        assert_eq!(ran.stderr, format!("error: `{file}`: is no regular file, and cannot be replaced\n"));
    }
    std::fs::remove_dir(&folder).unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn whoever_could_read_the_file_still_can_and_others_cannot() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    let file = path("group");
    std::fs::write(&file, "# ours\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    // Only some may give a file away; for the others it stays their own.
    let _ = chown(&file, Some(4321), Some(1234));
    let before = std::fs::metadata(&file).unwrap();
    let ran = carom(["key", "new", "--user", "asha", "--file", file.to_str().unwrap()]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let after = std::fs::metadata(&file).unwrap();
    assert_eq!((after.uid(), after.gid(), after.mode() & 0o777), (before.uid(), before.gid(), 0o640));
    assert!(Keys::from_file(&file).unwrap().check(ran.stdout.trim()).is_some());
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
    assert!(!std::fs::exists(format!("{name}.new")).unwrap(), "the next one has its turn");
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
