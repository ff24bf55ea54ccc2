//! How much a keyspace may hold, and how much one reply may carry.

/// What a keyspace may hold. Over a limit a command is refused, and nothing changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Names, values and what it costs to keep them, in bytes.
    pub bytes_max: usize,
    /// Keys.
    pub keys_max: usize,
    /// One value, or one name, in bytes.
    pub value_bytes_max: usize,
    /// Elements of one collection.
    pub elements_max: usize,
    /// What one reply carries, in bytes.
    pub reply_bytes_max: usize,
    /// What one reply carries, in elements.
    pub reply_elements_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes_max: 256 << 20,
            keys_max: 1_000_000,
            value_bytes_max: 8 << 20,
            elements_max: 1_000_000,
            reply_bytes_max: 64 << 20,
            reply_elements_max: 1_000_000,
        }
    }
}
