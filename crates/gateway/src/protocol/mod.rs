//! OpenAlgo's client protocol: what clients ask for and what they are told, as bytes.
