//! API keys: who a client is, known by the digest of what it sends.
