//! Tokens over HTTP: made, listed, revoked, expired.

use hyper::Method;
use protocol::rest::tokens::Role;
use serde_json::json;
use server::auth::Caller;

use crate::support::TestServer;

#[tokio::test]
async fn a_token_opens_the_door_until_it_is_revoked() {
    let server = TestServer::locked().await;
    let body = json!({"role": "viewer", "name": "dashboard"});
    let created = server.post("/api/v1/tokens", &body).await.expect(201);
    let token = created["token"].as_str().expect("a token").to_owned();
    let id = created["info"]["token_id"].as_str().expect("an id").to_owned();
    assert!(token.starts_with(&format!("astra_{id}_")));
    let look =
        async |token: &str| server.call_as(Some(token), Method::GET, "/api/v1/tasks", None).await;
    look(&token).await.expect(200);
    let list = server.get("/api/v1/tokens").await;
    assert!(!list.text.contains(&token[token.len() - 64..]), "the secret is not kept");
    assert_eq!(list.expect(200)["tokens"].as_array().expect("a list").len(), 2);
    for _ in 0..2 {
        let path = format!("/api/v1/tokens/{id}");
        let revoked = server.call(Method::DELETE, &path, None).await.expect(200);
        assert!(revoked["revoked_at"].is_string());
    }
    let after = look(&token).await;
    after.refused(401, "E.AUTH.INVALID_TOKEN");
    assert_eq!(after.headers["www-authenticate"], "Bearer");
    server.stop().await;
}

#[tokio::test]
async fn tokens_survive_a_restart() {
    let server = TestServer::locked().await;
    let token = server.token("default", Role::Client).await;
    let server = server.restart().await;
    let answer = server.call_as(Some(&token), Method::GET, "/api/v1/queues", None).await;
    answer.expect(200);
    server.stop().await;
}

#[tokio::test]
async fn bad_tokens_all_look_the_same() {
    let server = TestServer::locked().await;
    let app = server.server().app();
    let bearer =
        Caller { tenant: "default".parse().expect("a name"), role: Role::Admin, worker: None };
    let now = app.clock.now();
    let expired = app.auth.create(bearer, None, Some(now), now).await.expect("a token").0;
    let good = server.token("default", Role::Admin).await;
    let mut wrong_secret = good.clone();
    let last = if wrong_secret.pop() == Some('0') { '1' } else { '0' };
    wrong_secret.push(last);
    let long = "x".repeat(10_000);
    let bad = [&expired, &wrong_secret, "astra_0_0", "dev-token", "", "nonsense", &long];
    let missing = server.call_as(None, Method::GET, "/api/v1/tasks", None).await;
    missing.refused(401, "E.AUTH.INVALID_TOKEN");
    for token in bad {
        let answer = server.call_as(Some(token), Method::GET, "/api/v1/tasks", None).await;
        answer.refused(401, "E.AUTH.INVALID_TOKEN");
        assert_eq!(answer.text, missing.text);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_tenant_cannot_touch_the_tokens_of_another() {
    let server = TestServer::locked().await;
    let theirs = server.token("theirs", Role::Admin).await;
    let list = server.call_as(Some(&theirs), Method::GET, "/api/v1/tokens", None).await.expect(200);
    let id = list["tokens"][0]["token_id"].as_str().expect("an id");
    assert_eq!(list["tokens"].as_array().expect("a list").len(), 1);
    let path = format!("/api/v1/tokens/{id}");
    server.call(Method::DELETE, &path, None).await.refused(404, "E.TOKEN.NOT_FOUND");
    server.call_as(Some(&theirs), Method::GET, "/api/v1/tokens", None).await.expect(200);
    server.stop().await;
}

#[tokio::test]
async fn a_token_cannot_end_before_it_begins() {
    let server = TestServer::locked().await;
    let cases = [
        (
            json!({"role": "viewer", "expires_at": "2001-01-01T00:00:00Z"}),
            "expires_at lies in the past",
        ),
        (json!({"role": "viewer", "expires_at": "later"}), "expires_at is not a moment"),
        (json!({"role": "king"}), "role: unknown variant `king`"),
        (json!({"role": "viewer", "name": "x".repeat(257)}), "name is longer than 256 characters"),
    ];
    for (body, message) in cases {
        let answer = server.post("/api/v1/tokens", &body).await;
        answer.refused(422, "E.REQUEST.INVALID");
        assert!(answer.message().starts_with(message), "{}", answer.text);
    }
    server.stop().await;
}
