//! The log: on stderr, in the format and at the level of the settings.

use tracing_subscriber::filter::LevelFilter;

use crate::config::{LogConfig, LogFormat, LogLevel};

/// Starts the log. A second call changes nothing.
pub(crate) fn start(config: &LogConfig, level_default: LogLevel) {
    let level = match config.level.unwrap_or(level_default) {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let builder = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr);
    let _ = match config.format {
        LogFormat::Text => builder.with_ansi(crate::output::stderr_is_terminal()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}
