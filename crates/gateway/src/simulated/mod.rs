//! A simulated exchange: seeded prices, an upstream server of its own, and the adapter that speaks to it.
