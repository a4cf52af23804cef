//! Where credentials come from, and when they are looked at again.

use carom_gateway::credential::{Credential, CredentialError};
use std::ffi::OsString;
#[cfg(unix)]
use std::path::{Path, PathBuf};
use std::time::Duration;
use testkit::temp_dir::TempDir;
use testkit::wait::soon;
use tokio::time::timeout;

fn shell(script: impl Into<String>) -> Credential {
    Credential::command(["sh".to_owned(), "-c".to_owned(), script.into()])
}

async fn secret(credential: &Credential) -> String {
    credential.present().await.unwrap().secret().to_owned()
}

#[tokio::test]
async fn a_file_is_read_for_every_connection() {
    let folder = TempDir::new();
    let path = folder.write("token", "one\n");
    let credential = Credential::file(&path);
    assert_eq!(secret(&credential).await, "one");
    folder.write("token", "  two\r\n");
    assert_eq!(secret(&credential).await, "two");
    std::fs::remove_file(&path).unwrap();
    let error = credential.present().await.unwrap_err();
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
}

#[tokio::test]
async fn a_command_is_run_once_for_all_connections() {
    let folder = TempDir::new();
    let runs = folder.write("runs", "");
    let credential = shell(format!("echo run >> '{}'; echo ' token '", runs.display()));
    let (one, other) = tokio::join!(secret(&credential), secret(&credential));
    assert_eq!((&*one, &*other, &*secret(&credential).await), ("token", "token", "token"));
    assert_eq!(std::fs::read_to_string(runs).unwrap(), "run\n");
}

#[tokio::test]
async fn a_command_that_takes_longer_than_an_attempt_is_waited_for_by_the_next_one() {
    let folder = TempDir::new();
    let runs = folder.write("runs", "");
    let go = runs.with_file_name("go");
    let script = "echo run >> \"$0\"; while [ ! -e \"$1\" ]; do sleep 0.02; done; echo token";
    let argv: [OsString; 5] =
        ["sh".into(), "-c".into(), script.into(), runs.clone().into_os_string(), go.into_os_string()];
    let credential = Credential::command(argv);
    for _ in 0..3 {
        let attempt = timeout(Duration::from_millis(50), credential.present()).await;
        assert!(attempt.is_err(), "it cannot be ready yet");
    }
    folder.write("go", "");
    assert_eq!(secret(&credential).await, "token");
    assert_eq!(std::fs::read_to_string(runs).unwrap(), "run\n", "one run for all of them");
}

#[tokio::test]
async fn a_command_is_run_again_when_what_it_printed_was_refused() {
    let folder = TempDir::new();
    let path = folder.write("token", "monday");
    let credential = Credential::command([OsString::from("cat"), path.into_os_string()]);
    let presented = credential.present().await.unwrap();
    folder.write("token", "tuesday");
    assert_eq!(secret(&credential).await, "monday");
    presented.refused();
    assert_eq!(secret(&credential).await, "tuesday");
    presented.refused();
    assert_eq!(secret(&credential).await, "tuesday", "an older one says nothing about it");
}

#[tokio::test]
async fn commands_that_fail_hang_or_print_without_end_are_errors_that_show_nothing_they_printed() {
    let failing = shell("echo secret; echo secret >&2; exit 3").present().await.unwrap_err();
    assert!(matches!(failing, CredentialError::Failed { .. }) && failing.to_string().contains("exit status: 3"));

    let hanging = shell("echo secret; exec sleep 1000").command_timeout(Duration::from_millis(200));
    let hanging = soon(hanging.present()).await.unwrap_err();
    assert!(matches!(hanging, CredentialError::TimedOut { .. }));

    let endless = Credential::command(["yes", "secret"]).present().await.unwrap_err();
    assert!(matches!(endless, CredentialError::TooLong));
    let silent = Credential::command(["true"]).present().await.unwrap_err();
    assert!(matches!(silent, CredentialError::Empty));
    let missing = Credential::command(["/no/such/program", "secret"]).present().await.unwrap_err();
    assert!(missing.to_string().contains("/no/such/program"), "{missing}");
    let nothing = Credential::command([""; 0]).present().await.unwrap_err();
    assert!(matches!(nothing, CredentialError::NoProgram));

    for error in [failing, hanging, endless, silent, missing, nothing] {
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
}

#[cfg(unix)]
fn pipe(folder: &TempDir) -> PathBuf {
    let path = folder.write("taken", "").with_file_name("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

#[cfg(unix)]
#[tokio::test]
async fn what_a_command_has_started_is_killed_with_it() {
    let folder = TempDir::new();
    let pipe = pipe(&folder);
    // Everybody holds the pipe, which opens when it is read and ends when all of them are gone.
    let script = "exec 3> \"$0\"; sleep 1000 & yes secret";
    let argv: [OsString; 4] = ["sh".into(), "-c".into(), script.into(), pipe.clone().into_os_string()];
    let credential = Credential::command(argv);
    let (tell, gone) = tokio::sync::oneshot::channel();
    // A thread of its own, which nobody waits for when it is wrong.
    std::thread::spawn(move || tell.send(std::fs::read(pipe)));
    assert!(matches!(credential.present().await.unwrap_err(), CredentialError::TooLong));
    let left = timeout(Duration::from_secs(60), gone).await.expect("nobody is left").unwrap();
    assert_eq!(left.unwrap(), b"");
}

#[tokio::test]
async fn a_command_has_ended_though_something_it_left_holds_its_output() {
    let folder = TempDir::new();
    let lives = folder.write("lives", "");
    let script = "while [ -e \"$0\" ]; do sleep 0.02; done & echo token";
    let argv: [OsString; 4] = ["sh".into(), "-c".into(), script.into(), lives.into_os_string()];
    assert_eq!(secret(&Credential::command(argv)).await, "token");
}

#[cfg(unix)]
#[tokio::test]
async fn only_regular_files_are_read() {
    let folder = TempDir::new();
    let pipe = pipe(&folder);
    for path in [&*pipe, pipe.parent().unwrap(), Path::new("/dev/zero")] {
        let error = Credential::file(path).present().await.unwrap_err();
        let expected = format!("cannot read the credential in {}: it is not a regular file", path.display());
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn nothing_shows_a_credential() {
    let credentials = [Credential::fixed("secret"), shell("echo secret")];
    for credential in credentials {
        let presented = credential.present().await.unwrap();
        assert_eq!(presented.secret(), "secret");
        assert!(!format!("{credential:?} {presented:?}").contains("secret"));
    }
}
