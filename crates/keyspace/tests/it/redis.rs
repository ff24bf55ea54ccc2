//! A real Redis of our own, on a free port of this machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use bytes::Bytes;
use resp_rs::ParseError;
use resp_rs::resp3::{Frame, parse_frame};

/// Somebody else may take the port between our look and the start.
const STARTS_MAX: usize = 5;

const CHUNK_BYTES: usize = 1 << 16;

const MISSING: &str = "redis-server is missing, and these tests compare with it; install it, for \
                       example: apt-get install redis-server";

/// A server with one connection. It ends when this is dropped.
pub(crate) struct Redis {
    server: Child,
    stream: TcpStream,
    received: Bytes,
}

impl Redis {
    pub(crate) fn start() -> Self {
        for _ in 0..STARTS_MAX {
            let port = free_port();
            let mut server = spawn(port);
            if is_ready(&mut server) {
                let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("connects");
                stream.set_nodelay(true).expect("a socket");
                return Self { server, stream, received: Bytes::new() };
            }
            server.wait().expect("a child");
        }
        panic!("redis-server did not start in {STARTS_MAX} attempts");
    }

    /// Sends commands in one go, and gives their replies.
    pub(crate) fn ask(&mut self, commands: &[Vec<Bytes>]) -> Vec<Frame> {
        let mut text = Vec::new();
        for arguments in commands {
            write!(text, "*{}\r\n", arguments.len()).expect("memory");
            for argument in arguments {
                write!(text, "${}\r\n", argument.len()).expect("memory");
                text.extend_from_slice(argument);
                text.extend_from_slice(b"\r\n");
            }
        }
        self.stream.write_all(&text).expect("sends");
        commands.iter().map(|_| self.reply()).collect()
    }

    fn reply(&mut self) -> Frame {
        loop {
            match parse_frame(self.received.clone()) {
                Ok((frame, rest)) => {
                    self.received = rest;
                    return frame;
                }
                Err(ParseError::Incomplete) => self.receive(),
                Err(error) => panic!("redis-server replies nonsense: {error}"),
            }
        }
    }

    fn receive(&mut self) {
        let mut chunk = vec![0; CHUNK_BYTES];
        let n_bytes = self.stream.read(&mut chunk).expect("receives");
        assert!(n_bytes > 0, "redis-server closed the connection");
        self.received = [&self.received[..], &chunk[..n_bytes]].concat().into();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

fn spawn(port: u16) -> Child {
    let port = port.to_string();
    Command::new("redis-server")
        .args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect(MISSING)
}

/// Whether the server came to the line that says so.
fn is_ready(server: &mut Child) -> bool {
    let output = BufReader::new(server.stdout.take().expect("a pipe"));
    output.lines().map_while(Result::ok).any(|line| line.contains("Ready to accept connections"))
}
