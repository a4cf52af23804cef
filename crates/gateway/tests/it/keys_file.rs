//! Keys in a file: made, written, read, read again while they are used, and refused with file, line and key.

use carom_gateway::keys::{Identity, Keys, KeysError, NewKey};
use std::error::Error;
use std::path::PathBuf;

/// A file of this test alone.
fn file(name: &str, text: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("keys-{name}-{}.toml", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

fn asha() -> Identity {
    Identity::new("simulated", "asha")
}

#[test]
fn a_new_key_is_known_once_its_table_is_in_the_file() {
    let (key, other) = (NewKey::generate().unwrap(), NewKey::generate().unwrap());
    let awkward = Identity::new("zerodha", "a \"quoted\"\\\n user");
    let text = key.table(&asha(), Some("laptop"), Some("2026-11-15")) + "\n" + &other.table(&awkward, None, None);
    let keys = Keys::from_file(file("new", &text)).unwrap();
    assert_eq!(keys.check(key.reveal()), Some(asha()));
    assert_eq!(keys.check(other.reveal()), Some(awkward.clone()));
    assert_eq!((keys.len(), keys.identities()), (2, vec![asha(), awkward]));
    for wrong in ["", "x", &key.reveal()[1..], &key.reveal().to_uppercase(), &format!("{} ", key.reveal())] {
        assert_eq!(keys.check(wrong), None, "{wrong}");
    }
}

#[test]
fn keys_are_256_bits_of_chance_and_hide_themselves() {
    let (one, two) = (NewKey::generate().unwrap(), NewKey::generate().unwrap());
    assert!(one.reveal().len() == 64 && one.reveal().bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert_ne!(one.reveal(), two.reveal());
    let keys = Keys::in_memory([(asha(), one.sha256())]);
    let digest =
        one.table(&asha(), None, None).lines().find(|line| line.starts_with("sha256")).unwrap()[10..74].to_owned();
    for shown in [format!("{one:?}"), format!("{keys:?}")] {
        assert!(!shown.contains(one.reveal()) && !shown.contains(&digest), "{shown}");
    }
}

#[test]
fn a_digest_is_no_key() {
    let key = NewKey::generate().unwrap();
    let table = key.table(&asha(), None, None);
    let digest = table.lines().find(|line| line.starts_with("sha256")).unwrap()[10..74].to_owned();
    assert_eq!(Keys::in_memory([(asha(), key.sha256())]).check(&digest), None);
}

#[test]
fn reloading_takes_effect_in_every_clone_and_a_broken_file_changes_nothing() {
    let (old, new) = (NewKey::generate().unwrap(), NewKey::generate().unwrap());
    let path = file("reload", &old.table(&asha(), None, None));
    let keys = Keys::from_file(&path).unwrap();
    let clone = keys.clone();

    file("reload", "[[key]]\nuser = \"asha\"\n");
    let error = keys.reload().unwrap_err();
    let expected = format!("{}:1: key.broker: is missing; accepted: the name of a broker", path.display());
    assert_eq!(error.to_string(), expected);
    assert!(error.source().is_none(), "or whoever shows causes too says it twice");
    assert_eq!(clone.check(old.reveal()), Some(asha()));

    file("reload", &new.table(&asha(), None, None));
    assert_eq!(keys.reload().unwrap(), 1);
    assert_eq!((clone.check(old.reveal()), clone.check(new.reveal())), (None, Some(asha())));

    std::fs::remove_file(&path).unwrap();
    assert!(matches!(keys.reload(), Err(KeysError::Unreadable { file, .. }) if file == path));
    assert_eq!(clone.check(new.reveal()), Some(asha()));
}

#[test]
fn keys_can_be_part_of_a_larger_file() {
    let key = NewKey::generate().unwrap();
    let path = file("config", &format!("[gateway]\nlisten = \"x\"\n\n{}", key.table(&asha(), None, None)));
    assert_eq!(Keys::from_config(&path).unwrap().check(key.reveal()), Some(asha()));
    let error = Keys::from_file(&path).unwrap_err().to_string();
    assert!(error.ends_with(":1: gateway: there is no such key; accepted: `key`"), "{error}");
}

#[test]
fn mistakes_are_named_with_file_line_and_key_and_never_repeat_a_key() {
    let key = NewKey::generate().unwrap();
    let table = key.table(&asha(), None, None);
    let digest = table.lines().nth(3).unwrap();
    for (name, text, problem) in [
        ("type", "[[key]]\nuser = 7\n".to_owned(), ":2: key.user: an integer is no text; accepted: the name of a user"),
        ("empty", table.replace("asha", " "), ":2: key.user: it is empty; accepted: the name of a user"),
        ("short", table.replace(&digest[10..74], &digest[10..72]), ":4: key.sha256: there are 62 digits"),
        (
            "odd",
            format!("[[key]]\nuser = \"a\"\nbroker = \"b\"\nsha256 = \"{}\"\n", "a".repeat(63)),
            ":4: key.sha256: there are 63 digits",
        ),
        ("letters", table.replace(&digest[10..74], &"x".repeat(64)), ":4: key.sha256: there is something else"),
        ("twice", format!("{table}\n{table}"), ":9: key.sha256: is in line 4 already"),
        ("unknown", format!("{table}usr = 1\n"), ":5: key.usr: there is no such key; did you mean `user`?"),
        ("created", format!("{table}created = true\n"), ":5: key.created: true is no text; accepted: a date or a text"),
        ("syntax", format!("{table}broken\n"), ":5: "),
    ] {
        let error = Keys::from_file(file(name, &text)).unwrap_err().to_string();
        assert!(error.contains(problem), "{name}: {error}");
        assert!(!error.contains(&digest[20..60]), "{name}: {error}");
    }
}
