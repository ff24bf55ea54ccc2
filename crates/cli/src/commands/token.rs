//! `astra token`: through the API; the first one in a data folder that no server has open.

use std::path::PathBuf;

use model::{TenantId, WorkerId};
use protocol::rest::tokens::{CreateToken, CreatedToken, Role, TokenInfo, Tokens};

use crate::config::{self, Flags, ServerFlags};
use crate::context::Context;
use crate::duration::Moment;
use crate::embedded::{self, NewToken};
use crate::failure::{ExitCode, Failure, Result};
use crate::format;
use crate::output::{Columns, Output};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Make a token. It is shown once.
    Create {
        /// The role: admin, client, worker or viewer.
        #[arg(long, value_parser = parse_role)]
        role: Role,
        /// The only worker that may use it, with `--role worker`. Default: any.
        #[arg(long, value_name = "WORKER")]
        worker_id: Option<WorkerId>,
        /// A note for people.
        #[arg(long)]
        name: Option<String>,
        /// When it expires: a moment (RFC 3339) or a duration from now. Default: never.
        #[arg(long, value_name = "MOMENT|DURATION")]
        expires: Option<Moment>,
        /// Write to this data folder directly. No server may have it open.
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// The tenant, with `--data`.
        #[arg(long, default_value = "default", requires = "data")]
        tenant: TenantId,
    },
    /// List tokens, without their secrets.
    List,
    /// Revoke a token at once.
    Revoke {
        /// The token's id, as `astra token list` shows it.
        token_id: String,
    },
}

fn parse_role(word: &str) -> std::result::Result<Role, String> {
    Role::from_word(word).ok_or_else(|| "not one of admin, client, worker, viewer".into())
}

pub(crate) async fn run(command: Command, flags: &Flags, output: Output) -> Result<ExitCode> {
    let context = || Context::new(&config::load(flags, ServerFlags::default())?, output);
    match command {
        Command::Create { role, worker_id, name, expires, data, tenant } => {
            let expires_at = expires.map(|moment| moment.0);
            let token = NewToken { tenant, role, worker_id, name, expires_at };
            let created = match data {
                Some(data) => match embedded::create_token(&data, token.clone()).await {
                    Err(failure) if is_in_use(&failure) => create(&context()?, token).await?,
                    other => other?,
                },
                None => create(&context()?, token).await?,
            };
            show_created(&created, output);
        }
        Command::List => list(&context()?.get("/api/v1/tokens").await?, output),
        Command::Revoke { token_id } => {
            let path = format!("/api/v1/tokens/{}", format::percent_encoded(&token_id));
            let token: TokenInfo = context()?.delete(&path).await?;
            output.answer(&token, format!("{} {}", token.token_id, state(&token)), &token.token_id);
        }
    }
    Ok(ExitCode::Success)
}

/// A server has the folder open: it has to be asked.
fn is_in_use(failure: &Failure) -> bool {
    failure.exit == ExitCode::Conflict
}

async fn create(context: &Context, token: NewToken) -> Result<CreatedToken> {
    let request = CreateToken {
        role: token.role,
        worker_id: token.worker_id.map(|worker| worker.to_string()),
        name: token.name,
        expires_at: token.expires_at.map(|moment| moment.to_string()),
    };
    context.post("/api/v1/tokens", &request).await
}

fn show_created(created: &CreatedToken, output: Output) {
    let worker = created.info.worker_id.as_ref();
    let worker = worker.map_or_else(String::new, |worker| format!(" of {worker} alone"));
    let about = format!("{} token {}{worker}", created.info.role.word(), created.info.token_id);
    let text = format!(
        "{}\n\n  {about}; it is shown this once. Use it with ASTRA_TOKEN or --token.",
        created.token
    );
    output.answer(created, text, &created.token);
}

fn list(tokens: &Tokens, output: Output) {
    output.list(
        tokens,
        &tokens.tokens,
        &Columns {
            none: "no tokens; make one with `astra token create --role ROLE`",
            id: |token| token.token_id.clone(),
            header: ["ID", "ROLE", "WORKER", "NAME", "MADE", "STATE"],
            row: |token| {
                [
                    token.token_id.clone(),
                    token.role.word().into(),
                    format::or_dash(token.worker_id.clone()),
                    format::or_dash(token.name.clone()),
                    format::ago(&token.created_at),
                    state(token),
                ]
            },
        },
    );
}

fn state(token: &TokenInfo) -> String {
    match (&token.revoked_at, &token.expires_at) {
        (Some(moment), _) => format!("revoked {}", format::ago(moment)),
        (None, Some(moment)) => format!("good until {moment}"),
        (None, None) => "good".into(),
    }
}
