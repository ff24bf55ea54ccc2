//! All commands, by what they are about.

mod actions;
mod connection;
mod generic;
mod hashes;
mod jobs;
mod lists;
mod plans;
mod pubsub;
mod queues;
mod server;
mod sets;
mod sorted_sets;
mod strings;
mod transactions;
mod workers;

use super::CommandSpec;

/// The tables in the order in which they are shown.
const GROUPS: &[&[CommandSpec]] = &[
    connection::COMMANDS,
    server::COMMANDS,
    pubsub::COMMANDS,
    transactions::COMMANDS,
    generic::COMMANDS,
    strings::COMMANDS,
    lists::COMMANDS,
    hashes::COMMANDS,
    sets::COMMANDS,
    sorted_sets::COMMANDS,
    workers::COMMANDS,
    plans::COMMANDS,
    actions::COMMANDS,
    jobs::COMMANDS,
    queues::COMMANDS,
];

/// How many commands there are.
const N_COMMANDS: usize = {
    let mut n = 0;
    let mut group = 0;
    while group < GROUPS.len() {
        n += GROUPS[group].len();
        group += 1;
    }
    n
};

/// All commands in one table.
pub(super) static ALL: [&CommandSpec; N_COMMANDS] = join();

const fn join() -> [&'static CommandSpec; N_COMMANDS] {
    let mut all = [&GROUPS[0][0]; N_COMMANDS];
    let mut n = 0;
    let mut group = 0;
    while group < GROUPS.len() {
        let mut i = 0;
        while i < GROUPS[group].len() {
            all[n] = &GROUPS[group][i];
            n += 1;
            i += 1;
        }
        group += 1;
    }
    all
}
