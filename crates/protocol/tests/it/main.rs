//! Both ends of a session against each other, against chance, and against forgers.

mod machines;
mod pair;
mod prop;
mod token;
mod world;
