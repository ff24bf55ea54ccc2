//! Becomes a program, and no other.
//!
//! What the standard library offers looks for a program on the path and hands a file that the
//! kernel does not know to a shell. Neither may happen here, so the call is made directly.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::ptr;

/// A program with everything that it is given, ready to take over.
pub(super) struct Program {
    file: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl Program {
    /// The program in `file` with these arguments, its name first, and this process's environment.
    pub(super) fn new(file: &OsStr, arguments: impl Iterator<Item = OsString>) -> io::Result<Self> {
        let variables = std::env::vars_os().map(|(name, value)| {
            let mut pair = name.into_vec();
            pair.push(b'=');
            pair.extend(value.into_vec());
            CString::new(pair)
        });
        Ok(Self {
            file: CString::new(file.as_bytes())?,
            arguments: arguments
                .map(|argument| CString::new(argument.into_vec()))
                .collect::<Result<_, _>>()?,
            environment: variables.collect::<Result<_, _>>()?,
        })
    }

    /// Comes back only if the program did not take over.
    #[expect(unsafe_code, reason = "nothing safe starts exactly this file")]
    pub(super) fn take_over(self) -> io::Error {
        let (arguments, environment) = (pointers(&self.arguments), pointers(&self.environment));
        // SAFETY: the default action of a signal runs no code of ours.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        // SAFETY: the file is a C string; both lists hold C strings that live as long as `self`,
        // and end with a null pointer.
        unsafe { libc::execve(self.file.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
        io::Error::last_os_error()
    }
}

/// What the kernel takes: pointers, and a null pointer at the end.
fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
    let texts = texts.iter().map(CString::as_c_str).map(CStr::as_ptr);
    texts.chain([ptr::null()]).collect()
}
