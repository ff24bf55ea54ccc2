//! Both ends of a session against each other, against chance, and against forgers.

mod bad_input;
mod machines;
mod pair;
mod prop;
mod resp;
mod retries;
mod support;
mod token;
mod vocabulary;
mod world;
