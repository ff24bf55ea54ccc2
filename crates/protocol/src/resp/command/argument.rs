//! What a command takes.

/// What an argument stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// Bytes.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Double,
    /// The name of a key.
    Key,
    /// A pattern with `*`, `?` and `[]`.
    Pattern,
    /// Seconds or milliseconds since 1970.
    UnixTime,
    /// A word that stands for itself.
    PureToken,
    /// One of several.
    OneOf,
    /// Several, one after the other.
    Block,
}

impl ArgumentKind {
    /// Its name in `COMMAND DOCS`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Double => "double",
            Self::Key => "key",
            Self::Pattern => "pattern",
            Self::UnixTime => "unix-time",
            Self::PureToken => "pure-token",
            Self::OneOf => "oneof",
            Self::Block => "block",
        }
    }
}

/// One argument, or a few that belong together.
#[derive(Clone, Copy, Debug)]
pub struct ArgumentSpec {
    /// How documents call it.
    pub name: &'static str,
    /// What it stands for.
    pub kind: ArgumentKind,
    /// The word that stands before it, or that it is.
    pub token: Option<&'static str>,
    /// Whether it may be left out.
    pub is_optional: bool,
    /// Whether it may come again and again.
    pub is_multiple: bool,
    /// What a choice or a block is made of.
    pub parts: &'static [ArgumentSpec],
}

impl ArgumentSpec {
    const fn new(name: &'static str, kind: ArgumentKind) -> Self {
        Self { name, kind, token: None, is_optional: false, is_multiple: false, parts: &[] }
    }

    pub(super) const fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }

    pub(super) const fn multiple(mut self) -> Self {
        self.is_multiple = true;
        self
    }

    pub(super) const fn after(mut self, token: &'static str) -> Self {
        self.token = Some(token);
        self
    }
}

pub(super) const fn string(name: &'static str) -> ArgumentSpec {
    ArgumentSpec::new(name, ArgumentKind::String)
}

pub(super) const fn integer(name: &'static str) -> ArgumentSpec {
    ArgumentSpec::new(name, ArgumentKind::Integer)
}

pub(super) const fn double(name: &'static str) -> ArgumentSpec {
    ArgumentSpec::new(name, ArgumentKind::Double)
}

pub(super) const fn key(name: &'static str) -> ArgumentSpec {
    ArgumentSpec::new(name, ArgumentKind::Key)
}

pub(super) const fn pattern(name: &'static str) -> ArgumentSpec {
    ArgumentSpec::new(name, ArgumentKind::Pattern)
}

pub(super) const fn unix_time(name: &'static str) -> ArgumentSpec {
    ArgumentSpec::new(name, ArgumentKind::UnixTime)
}

/// A word that stands for itself.
pub(super) const fn word(name: &'static str, token: &'static str) -> ArgumentSpec {
    ArgumentSpec::new(name, ArgumentKind::PureToken).after(token)
}

pub(super) const fn one_of(name: &'static str, parts: &'static [ArgumentSpec]) -> ArgumentSpec {
    let mut choice = ArgumentSpec::new(name, ArgumentKind::OneOf);
    choice.parts = parts;
    choice
}

pub(super) const fn block(name: &'static str, parts: &'static [ArgumentSpec]) -> ArgumentSpec {
    let mut block = ArgumentSpec::new(name, ArgumentKind::Block);
    block.parts = parts;
    block
}
