//! The tree over a ledger (RFC 6962): a hash for all of it, and proofs that one ledger is the beginning of another.

use sha2::{Digest, Sha256};
use std::fmt;

/// A hash of the tree.
pub type Hash = [u8; 32];

/// The hash of an entry.
pub fn leaf_hash(entry: &[u8]) -> Hash {
    Sha256::new().chain_update([0]).chain_update(entry).finalize().into()
}

/// The hash of two parts that are one beside the other.
pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    Sha256::new().chain_update([1]).chain_update(left).chain_update(right).finalize().into()
}

/// How long a ledger is, and the hash of all of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Head {
    /// The number of entries.
    pub size: u64,
    /// The hash of all.
    pub root: Hash,
}

impl Head {
    /// The root as nodes write it: in base58.
    pub fn root_base58(&self) -> String {
        bs58::encode(self.root).into_string()
    }
}

impl fmt::Display for Head {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} transactions with root {}", self.size, self.root_base58())
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Head({self})")
    }
}

/// A tree that only grows. It keeps the roots of its full parts alone, largest first: one for each bit of its size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    size: u64,
    peaks: Vec<Hash>,
}

impl Tree {
    /// Appends an entry, known by its [hash](leaf_hash).
    pub fn append(&mut self, leaf: Hash) {
        let mut peak = leaf;
        // As many parts become one as there are ones at the end of the size, as in counting.
        for _ in 0..self.size.trailing_ones() {
            let left = self.peaks.pop().expect("a peak for each bit");
            peak = node_hash(&left, &peak);
        }
        self.peaks.push(peak);
        self.size += 1;
    }

    /// Its size and root.
    pub fn head(&self) -> Head {
        let mut peaks = self.peaks.iter().rev().copied();
        let root = match peaks.next() {
            Some(last) => peaks.fold(last, |right, left| node_hash(&left, &right)),
            None => Sha256::digest([]).into(),
        };
        Head { size: self.size, root }
    }
}

impl FromIterator<Hash> for Tree {
    fn from_iter<I: IntoIterator<Item = Hash>>(leaves: I) -> Tree {
        let mut tree = Tree::default();
        leaves.into_iter().for_each(|leaf| tree.append(leaf));
        tree
    }
}

/// Why a proof proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// There is no proof that a longer ledger is the beginning of a shorter one.
    #[error("{old} are not the beginning of {new}")]
    Shrunk {
        /// The one that is longer.
        old: Head,
        /// The one that is not.
        new: Head,
    },
    /// The proof is not for these two.
    #[error("the proof does not show that {old} are the beginning of {new}")]
    Wrong {
        /// What should be the beginning.
        old: Head,
        /// Of this.
        new: Head,
    },
}

/// Checks that the ledger with the head `old` is the beginning of the one with the head `new`. Of an empty one nothing has to
/// be shown, nor of two that are the same.
///
/// # Errors
/// When the proof does not show it.
pub fn verify(old: &Head, new: &Head, proof: &[Hash]) -> Result<(), ProofError> {
    if old.size > new.size {
        return Err(ProofError::Shrunk { old: *old, new: *new });
    }
    let shown = if old.size == new.size { old.root == new.root } else { old.size == 0 || leads(old, new, proof) };
    if shown { Ok(()) } else { Err(ProofError::Wrong { old: *old, new: *new }) }
}

/// Both roots follow from the proof, which goes up from the last entry of the old ledger: what lies to the left belongs to
/// both, what lies to the right to the new one alone.
fn leads(old: &Head, new: &Head, proof: &[Hash]) -> bool {
    let (mut at, mut last) = (old.size - 1, new.size - 1);
    let shift = at.trailing_ones();
    (at, last) = (at >> shift, last >> shift);
    let mut proof = proof.iter();
    // An old ledger that is one full part is where the proof starts, and is not repeated in it.
    let start = if at == 0 { Some(&old.root) } else { proof.next() };
    let Some(&start) = start else { return false };
    let (mut old_root, mut new_root) = (start, start);
    for hash in proof {
        if last == 0 {
            return false;
        }
        if at & 1 == 1 || at == last {
            (old_root, new_root) = (node_hash(hash, &old_root), node_hash(hash, &new_root));
            while at & 1 == 0 && at != 0 {
                (at, last) = (at >> 1, last >> 1);
            }
        } else {
            new_root = node_hash(&new_root, hash);
        }
        (at, last) = (at >> 1, last >> 1);
    }
    last == 0 && old_root == old.root && new_root == new.root
}

/// Makes the proof that the first `old` of these entries are the beginning of all, as a node does. Empty if there is nothing to
/// show.
///
/// # Panics
/// When there are fewer.
pub fn prove(leaves: &[Hash], old: usize) -> Vec<Hash> {
    let mut proof = Vec::new();
    if old > 0 {
        prove_part(leaves, old, true, &mut proof);
    }
    proof
}

fn prove_part(leaves: &[Hash], old: usize, whole: bool, proof: &mut Vec<Hash>) {
    let root = |leaves: &[Hash]| leaves.iter().copied().collect::<Tree>().head().root;
    if old == leaves.len() {
        if !whole {
            proof.push(root(leaves));
        }
        return;
    }
    let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
    if old <= left.len() {
        prove_part(left, old, whole, proof);
        proof.push(root(right));
    } else {
        prove_part(right, old - left.len(), false, proof);
        proof.push(root(left));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The entries and roots that Certificate Transparency's implementations test with.
    fn entries() -> Vec<Hash> {
        let entries: [&[u8]; 8] = [
            b"",
            b"\x00",
            b"\x10",
            b"\x20\x21",
            b"\x30\x31",
            b"\x40\x41\x42\x43",
            b"\x50\x51\x52\x53\x54\x55\x56\x57",
            b"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f",
        ];
        entries.map(leaf_hash).to_vec()
    }

    #[test]
    fn known_ledgers_have_the_known_roots() {
        let roots = [
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
            "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
            "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
            "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
            "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
        ];
        let mut tree = Tree::default();
        assert_eq!(hex(&tree.head().root), roots[0]);
        for (leaf, root) in entries().into_iter().zip(&roots[1..]) {
            tree.append(leaf);
            assert_eq!(hex(&tree.head().root), *root);
        }
    }

    #[test]
    fn known_proofs_are_made_and_verified() {
        let proof =
            |old: usize, new: usize| prove(&entries()[..new], old).iter().map(|hash| hex(hash)).collect::<Vec<_>>();
        assert!(proof(1, 1).is_empty());
        assert_eq!(
            proof(1, 8),
            [
                "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
                "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
                "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
            ]
        );
        assert_eq!(
            proof(6, 8),
            [
                "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
                "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
                "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            ]
        );
        assert_eq!(
            proof(2, 5),
            [
                "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
                "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
            ]
        );
    }

    #[test]
    fn every_proof_is_good_for_its_own_two_and_for_nothing_else() {
        let leaves: Vec<_> = (0..40_u8).map(|number| leaf_hash(&[number])).collect();
        let heads: Vec<_> =
            (0..=leaves.len()).map(|size| leaves[..size].iter().copied().collect::<Tree>().head()).collect();
        for new in 1..=leaves.len() {
            for old in 1..=new {
                let proof = prove(&leaves[..new], old);
                assert_eq!(verify(&heads[old], &heads[new], &proof), Ok(()), "{old} of {new}");
                if old == new {
                    continue;
                }
                let mut other = heads[old];
                other.root[old % 32] ^= 1;
                assert!(verify(&other, &heads[new], &proof).is_err());
                let mut other = heads[new];
                other.root[new % 32] ^= 0x80;
                assert!(verify(&heads[old], &other, &proof).is_err());
                for bit in 0..proof.len() * 256 {
                    let mut changed = proof.clone();
                    changed[bit / 256][bit / 8 % 32] ^= 1 << (bit % 8);
                    assert!(verify(&heads[old], &heads[new], &changed).is_err(), "{old} of {new}, bit {bit}");
                    if new > 12 && bit > 8 {
                        break;
                    }
                }
                assert!(verify(&heads[old], &heads[new], &proof[1..]).is_err());
                assert!(verify(&heads[old], &heads[new], &[&proof[..], &proof[..1]].concat()).is_err());
                assert!(verify(&heads[new], &heads[old], &proof).is_err());
            }
        }
    }
}
