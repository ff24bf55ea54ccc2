//! `astra`: the one binary.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    // Workers with a sandbox start programs through this binary. It comes before everything else,
    // because it needs a process of one thread.
    if let Some(code) = worker::sandbox::launch::if_asked(std::env::args_os()) {
        return code;
    }
    cli::main()
}
