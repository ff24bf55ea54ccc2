//! `astra token`: through the API, or in a data folder that no server has open.

use std::path::PathBuf;

use model::{TenantId, Timestamp, WorkerId};
use protocol::rest::tokens::{CreateToken, CreatedToken, Role, TokenInfo, Tokens};

use crate::config::{self, Flags, ServerFlags};
use crate::context::Context;
use crate::duration::Span;
use crate::embedded::{self, NewToken};
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::{self, Output, Show};
use crate::words;

const CREATE_EXAMPLES: &str = "\
Examples:
  astra token create --role admin --data /var/lib/astra   the first one, before the server starts
  astra token create --role worker --name rack-3 --expires 90d
  astra token create --role worker --worker-id w1         for this worker and no other
  astra token create --role client -o quiet               the token alone
";
const LIST_EXAMPLES: &str = "\
Examples:
  astra token list
  astra token list --data /var/lib/astra
";
const REVOKE_EXAMPLES: &str = "\
Examples:
  astra token revoke 4be01c9a55d2f017
";

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Make a token. It is shown once.
    #[command(before_help = CREATE_EXAMPLES)]
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
    #[command(before_help = LIST_EXAMPLES)]
    List {
        #[command(flatten)]
        place: Place,
    },
    /// End a token at once.
    #[command(before_help = REVOKE_EXAMPLES)]
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
            output.show(&created);
        }
        Command::List { place: Place { data: Some(data), tenant } } => {
            output.show(&embedded::list_tokens(&data, &tenant).await?);
        }
        Command::List { place: Place { data: None, .. } } => {
            let context = context()?;
            output.show(&context.ask(context.client.get::<Tokens>("/api/v1/tokens")).await?);
        }
        Command::Revoke { token_id, place: Place { data: Some(data), tenant } } => {
            output.show(&embedded::revoke_token(&data, &tenant, &token_id).await?);
        }
        Command::Revoke { token_id, place: Place { data: None, .. } } => {
            let context = context()?;
            let path = format!("/api/v1/tokens/{}", words::percent_encoded(&token_id));
            output.show(&context.ask(context.client.delete::<TokenInfo>(&path)).await?);
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
    context.ask(context.client.post("/api/v1/tokens", &request)).await
}

fn moment(text: &str) -> Result<Timestamp> {
    let moment = match text.parse::<Span>() {
        Ok(span) => Some(words::now().after(span.0)),
        Err(_) => text.parse().ok(),
    };
    moment.ok_or_else(|| {
        let message = format!("--expires {text} is neither a moment nor a duration");
        Failure::usage(message, "like 2026-12-31T00:00:00Z or 90d")
    })
}

impl Show for CreatedToken {
    fn text(&self) -> String {
        let worker = self.info.worker_id.as_ref();
        let worker = worker.map_or_else(String::new, |worker| format!(" of {worker} alone"));
        let about = format!("{} token {}{worker}", self.info.role.word(), self.info.token_id);
        format!(
            "{}\n\n  {about}; it is shown this once. Use it with ASTRA_TOKEN or --token.",
            self.token
        )
    }

    fn quiet(&self) -> String {
        self.token.clone()
    }
}

impl Show for TokenInfo {
    fn text(&self) -> String {
        format!("{} {}", self.token_id, state(self))
    }

    fn quiet(&self) -> String {
        self.token_id.clone()
    }
}

impl Show for Tokens {
    fn text(&self) -> String {
        if self.tokens.is_empty() {
            return "no tokens; make one with `astra token create --role ROLE`".into();
        }
        let rows = self.tokens.iter().map(|token| {
            [
                token.token_id.clone(),
                token.role.word().into(),
                token.worker_id.clone().unwrap_or_else(|| "-".into()),
                token.name.clone().unwrap_or_else(|| "-".into()),
                words::ago(&token.created_at),
                state(token),
            ]
        });
        output::table(["ID", "ROLE", "WORKER", "NAME", "MADE", "STATE"], rows.collect())
    }

    fn quiet(&self) -> String {
        let ids: Vec<_> = self.tokens.iter().map(|token| token.token_id.as_str()).collect();
        ids.join("\n")
    }

    fn json_lines(&self) -> Vec<String> {
        self.tokens.iter().map(output::json).collect()
    }
}

fn state(token: &TokenInfo) -> String {
    match (&token.revoked_at, &token.expires_at) {
        (Some(moment), _) => format!("revoked {}", words::ago(moment)),
        (None, Some(moment)) => format!("good until {moment}"),
        (None, None) => "good".into(),
    }
}
