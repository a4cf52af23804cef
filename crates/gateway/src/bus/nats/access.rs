//! Who a gateway is to NATS, as files say it: read when it connects, and again whenever it has to connect anew.

use super::options::NatsError;
use super::reports::Reports;
use crate::credential::Credential;
use async_nats::{Auth, AuthError, ConnectOptions};
use carom_core::options::OptionsError;
use std::path::PathBuf;
use std::sync::Arc;

/// See the [module](self). One of them, or nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Access {
    pub(super) credentials_file: Option<PathBuf>,
    pub(super) token_file: Option<PathBuf>,
    /// A name, and a file with the password that goes with it.
    pub(super) user: Option<(String, PathBuf)>,
}

impl Access {
    pub(super) fn validate(&self) -> Result<(), OptionsError> {
        let Access { credentials_file, token_file, user } = self;
        if user.as_ref().is_some_and(|(name, _)| name.is_empty()) {
            return Err(OptionsError::new("user", "must not be empty"));
        }
        if token_file.is_some() && credentials_file.is_some() {
            return Err(OptionsError::new("token_file", "makes no sense along with a credentials_file"));
        }
        if user.is_some() && (token_file.is_some() || credentials_file.is_some()) {
            return Err(OptionsError::new("user", "makes no sense along with a token_file or a credentials_file"));
        }
        Ok(())
    }

    /// Options to connect with, as whoever this is. `line` is what the connection is for.
    pub(super) async fn options(
        &self,
        line: &'static str,
        reports: &Arc<Reports>,
    ) -> Result<ConnectOptions, NatsError> {
        if let Some(path) = &self.credentials_file {
            let unusable = |source| NatsError::Credentials { path: path.clone(), source };
            return ConnectOptions::with_credentials_file(path).await.map_err(unusable);
        }
        let (user, file) = match (&self.user, &self.token_file) {
            (Some((user, password)), _) => (Some(user.clone()), password),
            (None, Some(token)) => (None, token),
            (None, None) => return Ok(ConnectOptions::new()),
        };
        let secret = Credential::file(file.clone());
        // Now, so that whoever starts something hears what is wrong with the file.
        secret.present().await?;
        let reports = Arc::clone(reports);
        Ok(ConnectOptions::with_auth_callback(move |_| {
            let (user, secret, reports) = (user.clone(), secret.clone(), Arc::clone(&reports));
            // In a task of its own: the client wants a future that threads could share.
            let reading = tokio::spawn(async move { auth(user, &secret, line, &reports).await });
            async move { reading.await.unwrap_or_else(|stopped| Err(AuthError::new(stopped))) }
        }))
    }
}

/// What is in the file now.
async fn auth(
    user: Option<String>,
    secret: &Credential,
    line: &'static str,
    reports: &Reports,
) -> Result<Auth, AuthError> {
    let presented = secret.present().await.map_err(|error| {
        reports.unpresentable(line, &error);
        AuthError::new(error)
    })?;
    let (mut auth, secret) = (Auth::new(), presented.secret().to_owned());
    match user {
        Some(user) => (auth.username, auth.password) = (Some(user), Some(secret)),
        None => auth.token = Some(secret),
    }
    Ok(auth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_two_at_once() {
        let (file, user) = (Some(PathBuf::from("f")), Some(("me".to_owned(), PathBuf::from("f"))));
        for (access, option) in [
            (Access { credentials_file: file.clone(), token_file: file.clone(), user: None }, "token_file"),
            (Access { token_file: file.clone(), user: user.clone(), ..Access::default() }, "user"),
            (Access { credentials_file: file, user: user.clone(), ..Access::default() }, "user"),
            (Access { user: Some((String::new(), PathBuf::from("f"))), ..Access::default() }, "user"),
        ] {
            assert!(access.validate().unwrap_err().to_string().contains(option), "{access:?}");
        }
        assert!(Access::default().validate().is_ok());
        assert!(Access { user, ..Access::default() }.validate().is_ok());
    }
}
