//! The credentials that a gateway presents to NATS.

use carom_core::options::OptionsError;
use std::path::PathBuf;

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
