//! Events as a whole: from facts to bytes.
