//! scratch
#[tokio::main]
async fn main() {
    let s = server::app::Server::start(server::app::Options {
        data_dir: std::env::args().nth(1).expect("dir").into(),
        http: "127.0.0.1:18080".parse().expect("a"),
        dev: true,
    })
    .await
    .expect("start");
    eprintln!("{}", s.http_addr());
    tokio::time::sleep(std::time::Duration::from_secs(
        std::env::args().nth(2).and_then(|x| x.parse().ok()).unwrap_or(300),
    ))
    .await;
    s.stop().await;
}
