//! `astra`: the one binary. Reading order: `args`, `run`, then one file per command.

mod args;
mod bench;
mod chaos;
mod commands;
mod config;
mod contact;
mod context;
mod cuts;
mod demo;
mod duration;
mod embedded;
mod events;
mod exit_code;
mod failure;
mod generate;
mod interrupts;
mod journal;
mod json_diff;
mod lab;
mod logging;
mod output;
mod process;
mod profile;
mod proxy;
mod run;
mod selector;
#[cfg(test)]
#[path = "../../../tests/waiting.rs"]
mod waiting;
mod words;
mod workflow_run;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    // Workers with a sandbox start programs through this binary. It comes before everything else,
    // because it needs a process of one thread.
    if let Some(code) = worker::runner::sandbox::launch::if_asked(std::env::args_os()) {
        return code;
    }
    run::main().into()
}
