//! What one program says, kept whole for another that reads it later.
//!
//! Little stays in memory; more goes to a file that has no name, so that it is gone with the last
//! who holds it, however that one ends.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::process::Stdio;

use bytes::Bytes;
use tempfile::SpooledTempFile;
use tempfile::spooled_tempfile;

/// What is held in memory.
pub const SPOOL_MEMORY_BYTES: usize = 1024 * 1024;
/// The most that one program can hand to another.
pub const SPOOL_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Takes what a program says.
#[derive(Debug)]
pub struct Spool {
    kept: SpooledTempFile,
    n_kept: u64,
    bytes_max: u64,
}

/// Everything that a program said, or what a program is given to read.
#[derive(Debug)]
pub enum Spooled {
    /// In memory.
    Bytes(Bytes),
    /// In a file without a name.
    File(File),
}

/// Output that cannot be handed on.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// There is too much of it.
    #[error("it wrote more than {0} bytes, which is more than can be handed to another task")]
    TooLong(u64),
    /// There is no room for it.
    #[error("its output could not be kept for another task: {0}")]
    Disk(#[from] io::Error),
    /// It was not read to its end.
    #[error("its output was not read to its end, because a process that it left behind holds it")]
    Unfinished,
}

impl Spool {
    /// Takes at most `bytes_max`.
    pub fn new(bytes_max: u64) -> Self {
        Self { kept: spooled_tempfile(SPOOL_MEMORY_BYTES), n_kept: 0, bytes_max }
    }

    /// Adds what was said. The file is written in place: what is read at once is small, and the
    /// kernel takes it into memory first.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        self.n_kept += bytes.len() as u64;
        if self.n_kept > self.bytes_max {
            return Err(SpoolError::TooLong(self.bytes_max));
        }
        Ok(self.kept.write_all(bytes)?)
    }

    /// Nothing more is said.
    pub(super) fn finish(mut self) -> Result<Spooled, SpoolError> {
        if self.kept.is_rolled() {
            return Ok(Spooled::File(self.kept.into_file()?));
        }
        self.kept.rewind()?;
        let mut bytes = Vec::new();
        self.kept.read_to_end(&mut bytes)?;
        Ok(Spooled::Bytes(bytes.into()))
    }
}

impl Spooled {
    /// The same once more, for one more reader.
    pub fn reader(&self) -> io::Result<Self> {
        match self {
            Self::Bytes(bytes) => Ok(Self::Bytes(bytes.clone())),
            // Opened anew, so that each reader begins at the start and none can write.
            Self::File(file) => {
                File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).map(Self::File)
            }
        }
    }

    /// What the program gets as its standard input, and what is to be written to it.
    pub(super) fn into_stdin(self) -> (Stdio, Bytes) {
        match self {
            Self::Bytes(bytes) => (Stdio::piped(), bytes),
            Self::File(file) => (Stdio::from(file), Bytes::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_is_kept_in_memory_and_much_in_a_file() {
        for n_bytes in [0, 1, SPOOL_MEMORY_BYTES, SPOOL_MEMORY_BYTES + 1, 3 * SPOOL_MEMORY_BYTES] {
            let said: Vec<u8> = (0..=255).cycle().take(n_bytes).collect();
            let mut spool = Spool::new(SPOOL_BYTES_MAX);
            for part in said.chunks(32 * 1024) {
                spool.push(part).expect("room");
            }
            let spooled = spool.finish().expect("kept");
            assert_eq!(matches!(spooled, Spooled::File(_)), n_bytes > SPOOL_MEMORY_BYTES);
            for _ in 0..2 {
                assert!(read(spooled.reader().expect("again")) == said, "{n_bytes} bytes");
            }
        }
    }

    #[test]
    fn a_reader_cannot_write() {
        let mut spool = Spool::new(SPOOL_BYTES_MAX);
        spool.push(&vec![b'x'; 2 * SPOOL_MEMORY_BYTES]).expect("room");
        let spooled = spool.finish().expect("kept");
        let Spooled::File(mut file) = spooled.reader().expect("again") else {
            panic!("so much is in a file")
        };
        file.write_all(b"forged").expect_err("read only");
    }

    #[test]
    fn too_much_is_an_error_and_never_a_shorter_text() {
        let mut spool = Spool::new(3);
        spool.push(b"abc").expect("room");
        assert!(matches!(spool.push(b"d"), Err(SpoolError::TooLong(3))));
    }

    fn read(spooled: Spooled) -> Vec<u8> {
        match spooled {
            Spooled::Bytes(bytes) => bytes.to_vec(),
            Spooled::File(mut file) => {
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes).expect("read");
                bytes
            }
        }
    }
}
