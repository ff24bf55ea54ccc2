//! Workflows over HTTP: kept with every version, compared, brought back; and what is refused.

use http_body_util::{BodyExt, Full};
use hyper::Method;
use hyper::header::{CONTENT_TYPE, IF_MATCH};
use protocol::rest::tokens::Role;
use serde_json::{Value, json};

use crate::flows::{chain, edge, id, node, workflow};
use crate::support::{Reply, TestServer};

const PATH: &str = "/api/v1/workflows";

#[tokio::test]
async fn every_save_is_a_version_and_comes_back_byte_for_byte() {
    let server = TestServer::dev().await;
    let text = chain(1).to_string().replace("\"edges\"", "\n  \"unknown\" : 1.50,\n \"edges\"");
    let first = server.call(Method::POST, PATH, Some(&text)).await.expect(201);
    assert_eq!((&first["workflowId"], &first["version"]), (&json!(id(900)), &json!(1)));
    assert_eq!(first["problems"], json!([]));
    let same = server.call(Method::POST, PATH, Some(&text)).await.expect(201);
    assert_eq!(same["version"], 1, "the same again makes no version");
    let second = server.post(PATH, &chain(2)).await;
    assert_eq!(second.headers["etag"], "\"2\"");
    assert_eq!(second.expect(200)["version"], 2);
    let own = format!("{PATH}/{}", id(900));
    let server = server.restart().await;
    let old = server.get(&format!("{own}?version=1")).await;
    assert_eq!(
        (old.text.as_str(), &old.headers["etag"]),
        (text.as_str(), &"\"1\"".parse().expect("text"))
    );
    assert_eq!(server.get(&own).await.expect(200), chain(2));
    let versions = server.get(&format!("{own}/versions")).await.expect(200);
    let numbers: Vec<_> =
        versions["items"].as_array().expect("a list").iter().map(|one| &one["version"]).collect();
    assert_eq!(numbers, [2, 1]);
    assert_eq!(versions["items"][0]["author"], "dev");
    let list = server.get(PATH).await.expect(200);
    assert_eq!((&list["items"][0]["version"], &list["nextCursor"]), (&json!(2), &Value::Null));
    server.stop().await;
}

#[tokio::test]
async fn who_builds_on_an_old_version_hears_of_the_new_one() {
    let server = TestServer::dev().await;
    let save = async |query: &str, tag: Option<&str>, n: u32| -> Reply {
        let mut request = server.request(Method::POST, &format!("{PATH}{query}"));
        request.headers_mut().insert(CONTENT_TYPE, "application/json".parse().expect("text"));
        if let Some(tag) = tag {
            request.headers_mut().insert(IF_MATCH, tag.parse().expect("text"));
        }
        *request.body_mut() = Full::from(chain(n).to_string()).boxed();
        server.send(request).await
    };
    save("?baseVersion=1", None, 1).await.refused(409, "E.WORKFLOW.CONFLICT");
    save("?baseVersion=0", None, 1).await.expect(201);
    save("?baseVersion=0", None, 2).await.refused(409, "E.WORKFLOW.CONFLICT");
    assert_eq!(save("", Some("\"1\""), 2).await.expect(200)["version"], 2);
    save("", Some("\"1\""), 3).await.refused(409, "E.WORKFLOW.CONFLICT");
    assert_eq!(
        save("?baseVersion=2&comment=why", Some("\"2\""), 3).await.expect(200)["version"],
        3
    );
    for (query, tag) in
        [("?baseVersion=1", Some("\"2\"")), ("?baseVersion=x", None), ("", Some("three"))]
    {
        save(query, tag, 4).await.refused(422, "E.REQUEST.INVALID");
    }
    let versions = server.get(&format!("{PATH}/{}/versions", id(900))).await.expect(200);
    assert_eq!(versions["items"][0]["comment"], "why");
    server.stop().await;
}

#[tokio::test]
async fn versions_are_compared_and_brought_back() {
    let server = TestServer::dev().await;
    server.post(PATH, &chain(2)).await.expect(201);
    let url = json!({"parameters": {"url": "b"}, "retry": {"maxAttempts": 1}});
    server
        .post(PATH, &workflow(&[node(2, url), node(3, json!({}))], &[edge(2, 3)]))
        .await
        .expect(200);
    let own = format!("{PATH}/{}", id(900));
    let diff = server.get(&format!("{own}/diff")).await.expect(200);
    assert_eq!((&diff["from"], &diff["to"]), (&json!(1), &json!(2)));
    assert_eq!(diff["added"][0]["nodeId"], id(3));
    assert_eq!(diff["removed"][0]["nodeId"], id(1));
    assert_eq!(diff["changed"][0]["nodeId"], id(2));
    assert_eq!(diff["changed"][0]["fields"], json!([{"path": "parameters", "to": {"url": "b"}}]));
    assert_eq!(diff["edgesAdded"][0]["target"], format!("{}:", id(3)));
    assert_eq!(diff["edgesRemoved"][0]["source"], format!("{}:", id(1)));
    let back = server.get(&format!("{own}/diff?from=2&to=1")).await.expect(200);
    assert_eq!((&back["added"][0]["nodeId"], &back["from"]), (&json!(id(1)), &json!(2)));
    let back = server.post(&format!("{own}/restore"), &json!({"version": 1})).await.expect(200);
    assert_eq!(back["version"], 3);
    assert_eq!(server.get(&own).await.expect(200), chain(2));
    let none = server.post(&format!("{own}/restore"), &json!({"version": 9})).await;
    none.refused(404, "E.WORKFLOW.NOT_FOUND");
    server.get(&format!("{own}/diff?from=1&to=9")).await.refused(404, "E.WORKFLOW.NOT_FOUND");
    server.get(&format!("{own}/diff?from=x")).await.refused(422, "E.REQUEST.INVALID");
    server.stop().await;
}

#[tokio::test]
async fn workflows_are_listed_page_by_page() {
    let server = TestServer::dev().await;
    for n in [901, 902, 903] {
        let mut flow = chain(1);
        flow["id"] = json!(id(n));
        server.post(PATH, &flow).await.expect(201);
    }
    let page = async |query: &str| {
        let page = server.get(&format!("{PATH}{query}")).await.expect(200);
        let items = page["items"].as_array().expect("a list").clone();
        let ids: Vec<_> = items.iter().map(|one| one["workflowId"].clone()).collect();
        (ids, page["nextCursor"].as_str().map(str::to_owned))
    };
    let (first, cursor) = page("?limit=2").await;
    assert_eq!(first, [id(901), id(902)]);
    let (second, cursor) = page(&format!("?limit=2&cursor={}", cursor.expect("more"))).await;
    assert_eq!((second, cursor), (vec![json!(id(903))], None));
    for wrong in ["?limit=0", "?limit=201", "?name=x"] {
        server.get(&format!("{PATH}{wrong}")).await.refused(422, "E.REQUEST.INVALID");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_draft_with_errors_is_kept_and_does_not_run() {
    let server = TestServer::dev().await;
    let draft = workflow(&[node(1, json!({}))], &[edge(1, 7)]);
    let saved = server.post(PATH, &draft).await.expect(201);
    assert_eq!(saved["problems"][0]["code"], "E.FLOW.UNKNOWN_NODE");
    let start = json!({"workflowId": id(900)});
    server.post("/api/v1/runs", &start).await.refused(422, "E.FLOW.INVALID");
    server.post(PATH, &chain(1)).await.expect(200);
    let run = server.post("/api/v1/runs", &start).await.expect(202);
    let run = server.run(run["runId"].as_str().expect("an id")).await;
    assert_eq!((&run["workflowVersion"], &run["workflowId"]), (&json!(2), &json!(id(900))));
    server.post(PATH, &chain(3)).await.expect(200);
    let second = json!({"workflowId": id(900), "version": 2});
    let run = server.post("/api/v1/runs", &second).await.expect(202);
    let run = server.run(run["runId"].as_str().expect("an id")).await;
    assert_eq!((&run["workflowVersion"], &run["counts"]["total"]), (&json!(2), &json!(1)));
    let old = json!({"workflowId": id(900), "version": 1});
    server.post("/api/v1/runs", &old).await.refused(422, "E.FLOW.INVALID");
    for body in [json!({"workflow": draft}), draft] {
        let checked = server.post(&format!("{PATH}/validate"), &body).await.expect(200);
        assert_eq!(
            (&checked["valid"], &checked["problems"][0]["severity"]),
            (&json!(false), &json!("error"))
        );
    }
    let checked = server.post(&format!("{PATH}/validate"), &chain(1)).await.expect(200);
    assert_eq!(checked["valid"], true);
    for wrong in [json!([]), json!({}), json!({"id": "one"})] {
        server.post(PATH, &wrong).await.refused(422, "E.REQUEST.INVALID");
    }
    server.call(Method::POST, PATH, Some("{")).await.refused(400, "E.REQUEST.MALFORMED");
    server.stop().await;
}

#[tokio::test]
async fn a_deleted_workflow_is_gone_until_it_is_saved_again() {
    let server = TestServer::locked().await;
    server.post(PATH, &chain(1)).await.expect(201);
    let own = format!("{PATH}/{}", id(900));
    let other = server.token("other", Role::Admin).await;
    for (method, path) in [
        (Method::GET, ""),
        (Method::DELETE, ""),
        (Method::GET, "/versions"),
        (Method::GET, "/diff"),
    ] {
        let answer = server.call_as(Some(&other), method, &format!("{own}{path}"), None).await;
        answer.refused(404, "E.WORKFLOW.NOT_FOUND");
    }
    let gone = server.call(Method::DELETE, &own, None).await;
    assert_eq!((gone.status.as_u16(), gone.text.as_str()), (204, ""));
    server.call(Method::DELETE, &own, None).await.refused(404, "E.WORKFLOW.NOT_FOUND");
    for path in ["", "/versions", "/diff"] {
        server.get(&format!("{own}{path}")).await.refused(404, "E.WORKFLOW.NOT_FOUND");
    }
    server.get(&format!("{PATH}/one")).await.refused(404, "E.WORKFLOW.NOT_FOUND");
    let start = json!({"workflowId": id(900)});
    server.post("/api/v1/runs", &start).await.refused(404, "E.WORKFLOW.NOT_FOUND");
    assert_eq!(server.get(PATH).await.expect(200)["items"], json!([]));
    assert_eq!(server.post(PATH, &chain(1)).await.expect(200)["version"], 2);
    server.stop().await;
}
