//! Why a message of a bus makes no sense.

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub(crate) enum Senseless {
    #[error("a topic is of no kind that is known")]
    Topic,
    #[error("an instrument has a name that no topic can have")]
    Instrument,
    #[error("a tick is no JSON")]
    Tick,
    #[error("a tick has no price: no `ltp` that is a number")]
    NoPrice,
    #[error("an order is no JSON object")]
    Order,
    #[error("an order names no user")]
    NobodysOrder,
    #[error("an order names another user than the one whose bus it is on")]
    StrangeOrder,
    #[error("what is said of credentials is no JSON object")]
    Credentials,
    #[error("what is said of credentials names another user than its topic")]
    StrangeCredentials,
}
