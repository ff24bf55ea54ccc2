//! What a definition becomes.

mod seed_003;
