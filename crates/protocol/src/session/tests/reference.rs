//! The reference page shows every frame, name and code as they are.

use serde_json::Value;

use super::super::control::{BOOT_FLAG, SEND_BASE_FLAG};
use super::super::kind::{Kind, Vocabulary};
use super::golden::goldens;
use crate::error_code::ErrorCode;

/// What a reset may carry.
const RESET_CODES: [ErrorCode; 14] = [
    ErrorCode::AuthInvalidToken,
    ErrorCode::AuthMissingToken,
    ErrorCode::AuthMtlsRequired,
    ErrorCode::AuthModeUnsupported,
    ErrorCode::AuthForbidden,
    ErrorCode::AuthHandshakeRequired,
    ErrorCode::SessionDenied,
    ErrorCode::SessionUnknown,
    ErrorCode::SessionTenantMismatch,
    ErrorCode::ResultSequenceGap,
    ErrorCode::Timeout,
    ErrorCode::SessionRotated,
    ErrorCode::SessionStaleBinding,
    ErrorCode::RequestInvalid,
];

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/session.md");
    std::fs::read_to_string(path).expect("the page")
}

#[test]
fn every_payload_on_the_page_is_a_golden_and_every_golden_is_there() {
    let page = page();
    let blocks = page.split("```json\n").skip(1).map(|rest| rest.split("```").next());
    let shown: Vec<Value> =
        blocks.map(|block| serde_json::from_str(block.expect("a block")).expect("JSON")).collect();
    let golden: Vec<Value> = goldens()
        .iter()
        .filter(|(name, _)| name.starts_with("prefixed"))
        .map(|(_, text)| serde_json::from_str(text).expect("JSON"))
        .collect();
    for frame in &golden {
        assert!(shown.contains(&frame["payload"]), "{} is missing", frame["type"]);
    }
    for block in &shown {
        let is_golden = |frame: &Value| frame == block || frame["payload"] == *block;
        assert!(golden.iter().any(is_golden), "{block} is no golden");
    }
}

#[test]
fn every_name_code_and_flag_is_on_the_page() {
    let page = page();
    for kind in Kind::all() {
        let row = format!("| `{}` | `{}` |", kind.name(), kind.name_in(Vocabulary::Plain));
        assert!(page.contains(&row), "{row}");
    }
    for code in RESET_CODES {
        assert!(page.contains(&format!("| `{}` |", code.name())), "{}", code.name());
    }
    for flag in [SEND_BASE_FLAG, BOOT_FLAG] {
        assert!(page.contains(&format!("| `{flag}<")), "{flag}");
    }
}
