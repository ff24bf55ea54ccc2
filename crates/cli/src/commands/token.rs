//! `astra token`: through the API, or in a data folder that no server has open.

use std::path::PathBuf;

use model::{TenantId, Timestamp, WorkerId};
use protocol::rest::tokens::{CreateToken, CreatedToken, Role, TokenInfo, Tokens};

use crate::args::examples;
use crate::config::{self, Flags, ServerFlags};
use crate::context::Context;
use crate::duration::Span;
use crate::embedded::{self, NewToken};
use crate::failure::{ExitCode, Failure, Result};
use crate::format;
use crate::output::{Columns, Output};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Make a token. It is shown once.
    #[command(before_help = examples(&[
        "astra token create --role admin --data /var/lib/astra   the first one, before the server starts",
        "astra token create --role worker --name rack-3 --expires 90d",
        "astra token create --role worker --worker-id w1         for this worker and no other",
        "astra token create --role client -o quiet               the token alone",
    ]))]
    Create {
        /// What its bearer may do: admin, client, worker or viewer.
        #[arg(long, value_parser = parse_role)]
        role: Role,
        /// The one worker that it speaks for, with `--role worker`. Default: any.
        #[arg(long, value_name = "WORKER")]
        worker_id: Option<WorkerId>,
        /// A note for people.
        #[arg(long)]
        name: Option<String>,
        /// When it ends: a moment (RFC 3339) or a duration from now. Default: never.
        #[arg(long, value_name = "MOMENT|DURATION")]
        expires: Option<String>,
        #[command(flatten)]
        place: Place,
    },
    /// List tokens, without their secrets.
    #[command(before_help = examples(&[
        "astra token list",
        "astra token list --data /var/lib/astra",
    ]))]
    List {
        #[command(flatten)]
        place: Place,
    },
    /// End a token at once.
    #[command(before_help = examples(&[
        "astra token revoke 4be01c9a55d2f017",
    ]))]
    Revoke {
        /// The token's id, as `astra token list` shows it.
        token_id: String,
        #[command(flatten)]
        place: Place,
    },
}

/// Where the tokens are.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Place {
    /// Work in this data folder itself, while no server has it open.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Whose token, with `--data`.
    #[arg(long, default_value = "default", requires = "data")]
    tenant: TenantId,
}

fn parse_role(word: &str) -> std::result::Result<Role, String> {
    Role::from_word(word).ok_or_else(|| "not one of admin, client, worker, viewer".into())
}

pub(crate) async fn run(command: Command, flags: &Flags, output: Output) -> Result<ExitCode> {
    let context = || Context::new(&config::load(flags, ServerFlags::default())?, output);
    match command {
        Command::Create { role, worker_id, name, expires, place } => {
            let expires_at = expires.as_deref().map(moment).transpose()?;
            let token = NewToken { tenant: place.tenant, role, worker_id, name, expires_at };
            let created = match place.data {
                Some(data) => match embedded::create_token(&data, token.clone()).await {
                    Err(failure) if is_in_use(&failure) => create(&context()?, token).await?,
                    other => other?,
                },
                None => create(&context()?, token).await?,
            };
            show_created(&created, output);
        }
        Command::List { place: Place { data: Some(data), tenant } } => {
            list(&embedded::list_tokens(&data, &tenant).await?, output);
        }
        Command::List { place: Place { data: None, .. } } => {
            list(&context()?.get("/api/v1/tokens").await?, output);
        }
        Command::Revoke { token_id, place: Place { data: Some(data), tenant } } => {
            show(&embedded::revoke_token(&data, &tenant, &token_id).await?, output);
        }
        Command::Revoke { token_id, place: Place { data: None, .. } } => {
            let path = format!("/api/v1/tokens/{}", format::percent_encoded(&token_id));
            show(&context()?.delete(&path).await?, output);
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

fn moment(text: &str) -> Result<Timestamp> {
    let moment = match text.parse::<Span>() {
        Ok(span) => Some(format::now().after(span.0)),
        Err(_) => text.parse().ok(),
    };
    moment.ok_or_else(|| {
        let message = format!("--expires {text} is neither a moment nor a duration");
        Failure::usage(message, "like 2026-12-31T00:00:00Z or 90d")
    })
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

fn show(token: &TokenInfo, output: Output) {
    output.answer(token, format!("{} {}", token.token_id, state(token)), &token.token_id);
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
