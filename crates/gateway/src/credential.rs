//! Credentials: what an upstream wants to see, read again when it is refused.
