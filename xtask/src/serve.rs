//! A static file server on 127.0.0.1 for the demo page and the end-to-end tests.

use crate::http::{ByteRange, CONTENT_SECURITY_POLICY, file_for, media_type};
use anyhow::{Context, Result, anyhow};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use tiny_http::{Header, Method, Request, Response, Server, StatusCode};

/// How many ports above the wanted one are tried before any free one is taken.
const PORTS_TRIED: u16 = 20;

/// A running server; it stops when dropped.
pub struct Site {
    address: SocketAddr,
    server: Arc<Server>,
    accept: Option<JoinHandle<()>>,
}

impl Site {
    /// Serves the files below `root` on `port`, or on the next port that is free.
    pub fn start(root: &Path, port: u16) -> Result<Self> {
        let listener = listen(port)?;
        let address = listener.local_addr()?;
        let server = Server::from_listener(listener, None).map_err(|error| anyhow!(error))?;
        let server = Arc::new(server);
        let (requests, root) = (Arc::clone(&server), root.to_owned());
        let accept = thread::spawn(move || {
            for request in requests.incoming_requests() {
                let root = root.clone();
                // A reader that stops half-way must not hold up the others.
                thread::spawn(move || answer(request, &root));
            }
        });
        Ok(Self { address, server, accept: Some(accept) })
    }

    /// The address to open.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Serves until the process ends.
    pub fn serve_forever(mut self) {
        if let Some(accept) = self.accept.take() {
            let _ = accept.join();
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.server.unblock();
        if let Some(accept) = self.accept.take() {
            let _ = accept.join();
        }
    }
}

fn listen(port: u16) -> Result<TcpListener> {
    let next = (0..=PORTS_TRIED).filter_map(|step| port.checked_add(step));
    let free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok();
    next.chain([0]).find_map(free).context("no port is free on 127.0.0.1")
}

fn answer(request: Request, root: &Path) {
    let outcome = match request.method() {
        Method::Get | Method::Head => match open(root, request.url()) {
            Some((path, file, length)) => respond(request, &path, file, length),
            None => refuse(request, 404, "not found"),
        },
        _ => refuse(request, 405, "only GET and HEAD"),
    };
    // The browser may have gone away; there is nobody left to tell.
    drop(outcome);
}

fn open(root: &Path, target: &str) -> Option<(PathBuf, File, u64)> {
    let path = file_for(root, target)?;
    let file = File::open(&path).ok()?;
    let metadata = file.metadata().ok()?;
    metadata.is_file().then_some((path, file, metadata.len()))
}

fn respond(request: Request, path: &Path, mut file: File, length: u64) -> std::io::Result<()> {
    let range = request.headers().iter().find(|header| header.field.equiv("Range"));
    let range =
        range.map_or(ByteRange::Whole, |header| ByteRange::parse(header.value.as_str(), length));
    let (status, start, count) = match range {
        ByteRange::Whole => (200, 0, length),
        ByteRange::Part { start, end } => (206, start, end - start + 1),
        ByteRange::Unsatisfiable => {
            let headers = vec![header("Content-Range", &format!("bytes */{length}"))];
            let empty = Response::new(StatusCode(416), headers, std::io::empty(), Some(0), None);
            return request.respond(empty);
        }
    };
    let mut headers = vec![
        header("Content-Type", media_type(path)),
        header("Accept-Ranges", "bytes"),
        header("Cache-Control", "no-store"),
        header("X-Content-Type-Options", "nosniff"),
        header("Referrer-Policy", "no-referrer"),
        header("Content-Security-Policy", CONTENT_SECURITY_POLICY),
    ];
    if status == 206 {
        let end = start + count - 1;
        headers.push(header("Content-Range", &format!("bytes {start}-{end}/{length}")));
    }
    file.seek(SeekFrom::Start(start))?;
    let body = file.take(count);
    // Never chunked: a page that shows progress needs Content-Length.
    let response = Response::new(StatusCode(status), headers, body, Some(count as usize), None);
    request.respond(response.with_chunked_threshold(usize::MAX))
}

fn refuse(request: Request, status: u16, text: &str) -> std::io::Result<()> {
    let mut response = Response::from_string(text).with_status_code(status);
    if status == 405 {
        response.add_header(header("Allow", "GET, HEAD"));
    }
    request.respond(response)
}

fn header(name: &str, value: &str) -> Header {
    Header::from_bytes(name, value).expect("header names and values here are ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpStream;

    fn site() -> (tempfile::TempDir, Site) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("index.html"), "<p>hello").unwrap();
        std::fs::write(folder.path().join("ten.bin"), b"0123456789").unwrap();
        let site = Site::start(folder.path(), 0).unwrap();
        (folder, site)
    }

    /// Status line and headers, and the body, of one request.
    fn ask(site: &Site, method: &str, target: &str, headers: &str) -> (String, String) {
        let mut stream = TcpStream::connect(site.address).unwrap();
        write!(
            stream,
            "{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n"
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    #[test]
    fn a_folder_gives_its_index_with_the_policy() {
        let (_folder, site) = site();
        let (head, body) = ask(&site, "GET", "/", "");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("Content-Type: text/html; charset=utf-8"), "{head}");
        assert!(head.contains("Cache-Control: no-store"), "{head}");
        assert!(head.contains("require-trusted-types-for 'script'"), "{head}");
        assert!(head.contains("Content-Length: 8"), "{head}");
        assert_eq!(body, "<p>hello");
    }

    #[test]
    fn ranges_give_their_bytes_only() {
        let (_folder, site) = site();
        let (head, body) = ask(&site, "GET", "/ten.bin", "Range: bytes=3-5\r\n");
        assert!(head.starts_with("HTTP/1.1 206"), "{head}");
        assert!(head.contains("Content-Range: bytes 3-5/10"), "{head}");
        assert_eq!(body, "345");
        let (head, body) = ask(&site, "GET", "/ten.bin", "Range: bytes=10-\r\n");
        assert!(head.starts_with("HTTP/1.1 416"), "{head}");
        assert!(head.contains("Content-Range: bytes */10"), "{head}");
        assert_eq!(body, "");
    }

    #[test]
    fn head_gives_the_length_and_no_body() {
        let (_folder, site) = site();
        let (head, body) = ask(&site, "HEAD", "/ten.bin", "");
        assert!(head.contains("Content-Length: 10"), "{head}");
        assert_eq!(body, "");
    }

    #[test]
    fn what_is_not_served_is_refused() {
        let (_folder, site) = site();
        assert!(ask(&site, "GET", "/missing.js", "").0.starts_with("HTTP/1.1 404"));
        assert!(ask(&site, "GET", "/../Cargo.toml", "").0.starts_with("HTTP/1.1 404"));
        assert!(ask(&site, "POST", "/", "").0.starts_with("HTTP/1.1 405"));
    }

    #[test]
    fn an_idle_connection_holds_nobody_up() {
        let (_folder, site) = site();
        let _idle: Vec<_> = (0..20).map(|_| TcpStream::connect(site.address).unwrap()).collect();
        assert!(ask(&site, "GET", "/", "").0.starts_with("HTTP/1.1 200"));
    }

    #[test]
    fn a_busy_port_gives_the_next_one() {
        let (folder, first) = site();
        let second = Site::start(folder.path(), first.address.port()).unwrap();
        assert_ne!(first.address.port(), second.address.port());
        assert!(ask(&second, "GET", "/", "").0.starts_with("HTTP/1.1 200"));
    }
}
