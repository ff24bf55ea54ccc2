//! The rules, and what a breach of one looks like.

use std::fmt;

macro_rules! rules {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// The rules, with the names that findings show.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Rule {
            $($(#[$doc])* $variant,)*
        }

        impl Rule {
            #[cfg(test)]
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];

            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

rules! {
    /// A long file has more than one subject.
    FileLength = "file-length",
    /// Long tests have a file of their own.
    InlineTests = "inline-tests",
    /// A test that is not run is not a test.
    IgnoredTest = "ignored-test",
    /// A test waits for the event itself.
    TestSleep = "test-sleep",
    /// A type has a name that readers know.
    Glossary = "glossary",
    /// Known defects are fixed or written down where users find them.
    Fixme = "fixme",
    /// `lib.rs` and `mod.rs` start with their purpose.
    ModuleDoc = "module-doc",
    /// `mod.rs` is a table of contents.
    ModLogic = "mod-logic",
    /// The pure crates take time, ids and randomness from their caller.
    Purity = "purity",
    /// What tasks of the server share is written down with a reason.
    Lock = "lock",
    /// Doors know nothing of each other, and nothing below them knows them.
    DoorImport = "door-import",
    /// Dependencies point down only.
    DependencyDirection = "dependency-direction",
    /// A path of one machine means nothing on another.
    MachinePath = "machine-path",
    /// Invisible differences make noise in reviews.
    TrailingWhitespace = "trailing-whitespace",
    /// Tools that join files depend on it.
    FinalNewline = "final-newline",
    /// A link leads somewhere.
    BrokenLink = "broken-link",
    /// What the page of requirements calls done is shown by a test that exists.
    Requirements = "requirements",
}

/// One breach of one rule. Ordered by place, so that a file's findings stand together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) rule: Rule,
    pub(crate) message: String,
}

impl Finding {
    pub(crate) fn new(rule: Rule, path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.into(), line, rule, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {} [{}]", self.path, self.line, self.message, self.rule.name())
    }
}
