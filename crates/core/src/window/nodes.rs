//! Nodes: those who answer, all of them equal, each under a name of its own.

use crate::backend::Backend;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// One of the nodes that requests are sent to. Two that are not equal are different nodes, whatever their names.
pub trait Node: Eq {
    /// What it is known by: in errors, in snapshots, and to those who ask for some nodes only. No other has it.
    fn name(&self) -> &str;
}

impl Node for Backend {
    fn name(&self) -> &str {
        Backend::name(self)
    }
}

/// The nodes there are at a time, by name.
pub(super) type Nodes<N> = Arc<[Arc<N>]>;

/// Why a list of nodes is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodesError {
    /// It is empty.
    Empty,
    /// Two have this name.
    Twice(Arc<str>),
}

impl fmt::Display for NodesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodesError::Empty => write!(f, "there are no nodes"),
            NodesError::Twice(name) => write!(f, "two nodes are named `{name}`"),
        }
    }
}

impl Error for NodesError {}

/// Puts nodes in order, so that the same nodes always make the same list.
pub(super) fn in_order<N: Node>(nodes: impl IntoIterator<Item = N>) -> Result<Nodes<N>, NodesError> {
    let mut nodes: Vec<Arc<N>> = nodes.into_iter().map(Arc::new).collect();
    if nodes.is_empty() {
        return Err(NodesError::Empty);
    }
    nodes.sort_by(|one, other| one.name().cmp(other.name()));
    match nodes.windows(2).find(|pair| pair[0].name() == pair[1].name()) {
        Some(pair) => Err(NodesError::Twice(pair[0].name().into())),
        None => Ok(nodes.into()),
    }
}
