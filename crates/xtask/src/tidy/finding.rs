//! The rules, and what a breach of one looks like.

use std::fmt;

macro_rules! rules {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// The rules; their names are used in the list of exceptions.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Rule {
            $($(#[$doc])* $variant,)*
        }

        impl Rule {
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
    /// A function fits on a screen.
    FunctionLength = "function-length",
    /// More arguments than this want a struct.
    FunctionArguments = "function-arguments",
    /// Blocks within blocks within blocks cannot be followed.
    Nesting = "nesting",
    /// A long file has more than one subject.
    FileLength = "file-length",
    /// Long tests have a file of their own.
    InlineTests = "inline-tests",
    /// `todo!`, `unimplemented!`, `dbg!`.
    LeftoverMacro = "leftover-macro",
    /// A test that is not run is not a test.
    IgnoredTest = "ignored-test",
    /// A test waits for the event itself.
    TestSleep = "test-sleep",
    /// Known defects are fixed or written down where users find them.
    Fixme = "fixme",
    /// `expect` with a reason disappears when it is not needed; `allow` stays for ever.
    AllowAttribute = "allow-attribute",
    /// `expect` states why it cannot fail.
    Unwrap = "unwrap",
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

impl Rule {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|rule| rule.name() == name)
    }
}

/// One breach of one rule. Ordered by place, so that a file's findings stand together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) rule: Rule,
    /// The function it is about, where the rule is about functions.
    pub(crate) function: Option<String>,
    pub(crate) message: String,
}

impl Finding {
    pub(crate) fn new(rule: Rule, path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.into(), line, rule, function: None, message: message.into() }
    }

    pub(crate) fn in_function(self, name: &str) -> Self {
        Self { function: Some(name.into()), ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {} [{}]", self.path, self.line, self.message, self.rule.name())
    }
}
