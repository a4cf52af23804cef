//! Keys: pairs for CURVE, and the one that belongs to an Ed25519 key.

use crypto_box::aead::OsRng;
use crypto_box::aead::rand_core::RngCore;
use crypto_box::{PublicKey, SecretKey};
use curve25519_dalek::edwards::CompressedEdwardsY;
use sha2::{Digest, Sha512};
use std::fmt;
use std::io;
use zeroize::Zeroizing;

/// A public key of CURVE.
pub type CurveKey = [u8; 32];

/// A pair of keys of CURVE.
#[derive(Clone)]
pub struct KeyPair {
    pub(super) secret: SecretKey,
    pub(super) public: PublicKey,
}

impl KeyPair {
    /// A new pair that nobody had before.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub fn random() -> io::Result<KeyPair> {
        let mut secret = Zeroizing::new([0; 32]);
        fill(secret.as_mut())?;
        Ok(KeyPair::from_secret(&secret))
    }

    /// The pair that belongs to the Ed25519 keys made of this seed, as an Indy node has them.
    pub fn from_ed25519_seed(seed: &[u8; 32]) -> KeyPair {
        let digest: Zeroizing<[u8; 64]> = Zeroizing::new(Sha512::digest(seed).into());
        let mut secret = Zeroizing::new([0; 32]);
        secret.copy_from_slice(&digest[..32]);
        // The bits that Ed25519 sets and clears are those of X25519, which does so itself.
        KeyPair::from_secret(&secret)
    }

    /// The bytes are wiped by who made them, when they are dropped.
    fn from_secret(bytes: &Zeroizing<[u8; 32]>) -> KeyPair {
        let secret = SecretKey::from(**bytes);
        let public = secret.public_key();
        KeyPair { secret, public }
    }

    /// The key to give away.
    pub fn public(&self) -> CurveKey {
        *self.public.as_bytes()
    }
}

/// Without the secret.
impl fmt::Debug for KeyPair {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("KeyPair").field("public", &self.public.as_bytes()).finish_non_exhaustive()
    }
}

/// The CURVE key of who has this Ed25519 key; `None` if it is no key: not a point of the curve, or one of those that
/// keep nothing secret.
pub fn curve_key(verkey: &[u8; 32]) -> Option<CurveKey> {
    let point = CompressedEdwardsY(*verkey).decompress()?;
    (!point.is_small_order() && point.is_torsion_free()).then(|| point.to_montgomery().to_bytes())
}

pub(super) fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    fill(&mut bytes)?;
    Ok(bytes)
}

fn fill(bytes: &mut [u8]) -> io::Result<()> {
    OsRng.try_fill_bytes(bytes).map_err(|error| io::Error::other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use curve25519_dalek::{EdwardsPoint, Scalar};

    fn hex(text: &str) -> [u8; 32] {
        let bytes: Vec<u8> = (0..32).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect();
        bytes.try_into().unwrap()
    }

    /// The vector of libsodium's own test of the conversion.
    #[test]
    fn a_seed_and_its_verkey_have_the_keys_that_libsodium_gives_them() {
        let seed = hex("421151a459faeade3d247115f94aedae42318124095afabe4d1451a559faedee");
        let verkey = hex("b5076a8474a832daee4dd5b4040983b6623b5f344aca57d4d6ee4baf3f259e6e");
        let public = hex("f1814f0e8ff1043d8a44d25babff3cedcae6c22c3edaa48f857ae70de2baae50");
        assert_eq!(curve_key(&verkey), Some(public));
        assert_eq!(KeyPair::from_ed25519_seed(&seed).public(), public);
    }

    #[test]
    fn what_is_no_point_or_a_weak_one_is_no_key() {
        let two = {
            let mut y = [0; 32];
            y[0] = 2;
            y
        };
        assert_eq!(curve_key(&two), None);
        let identity = {
            let mut y = [0; 32];
            y[0] = 1;
            y
        };
        assert_eq!(curve_key(&identity), None);
        assert_eq!(curve_key(&[0; 32]), None, "of order four");
        let mixed = EdwardsPoint::mul_base(&Scalar::from(7_u64)) + curve25519_dalek::constants::EIGHT_TORSION[1];
        assert_eq!(curve_key(&mixed.compress().0), None);
    }

    #[test]
    fn the_secret_is_not_shown() {
        let keys = KeyPair::from_ed25519_seed(&[7; 32]);
        let shown = format!("{keys:?}");
        assert!(!shown.contains(&format!("{:?}", keys.secret.to_bytes())), "{shown}");
    }
}
