//! A static file server on 127.0.0.1 for the demo page and the end-to-end tests: a thread for each
//! connection, because browsers open connections that they leave idle.

use crate::http::{ByteRange, CONTENT_SECURITY_POLICY, Request, file_for, media_type};
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How many ports above the wanted one are tried before any free one is taken.
const PORTS_TRIED: u16 = 20;
/// How long a connection may stay silent.
const IDLE: Duration = Duration::from_secs(120);
/// Longest head of a request, in bytes.
const HEAD_LIMIT: u64 = 32 * 1024;

/// A running server; it takes no more connections once dropped.
pub struct Site {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    accept: Option<JoinHandle<()>>,
}

impl Site {
    /// Serves the files below `root` on `port`, or on the next port that is free.
    pub fn start(root: &Path, port: u16) -> Result<Self> {
        let listener = listen(port)?;
        let address = listener.local_addr()?;
        let stopping = Arc::new(AtomicBool::new(false));
        let (stop, root) = (Arc::clone(&stopping), root.to_owned());
        let accept = thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let root = root.clone();
                // A browser that hangs up is no fault, and there is nobody to tell.
                thread::spawn(move || stream.and_then(|stream| converse(&stream, &root)).ok());
            }
        });
        Ok(Self { address, stopping, accept: Some(accept) })
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
        self.stopping.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for a connection.
        let woken = TcpStream::connect(self.address).is_ok();
        if let (true, Some(accept)) = (woken, self.accept.take()) {
            let _ = accept.join();
        }
    }
}

fn listen(port: u16) -> Result<TcpListener> {
    let next = (0..=PORTS_TRIED).filter_map(|step| port.checked_add(step));
    let free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok();
    next.chain([0]).find_map(free).context("no port is free on 127.0.0.1")
}

/// Answers the requests of one connection until it is closed.
fn converse(stream: &TcpStream, root: &Path) -> io::Result<()> {
    stream.set_read_timeout(Some(IDLE))?;
    stream.set_write_timeout(Some(IDLE))?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    loop {
        let head = read_head(&mut reader)?;
        if head.is_empty() {
            return Ok(());
        }
        let Some(request) = Request::parse(&head) else {
            return refuse(stream, "400 Bad Request", false);
        };
        answer(stream, &request, root)?;
        if !request.keep_open {
            return Ok(());
        }
    }
}

/// The lines up to the blank one; empty where the connection was closed instead.
fn read_head(reader: &mut impl BufRead) -> io::Result<String> {
    let mut reader = reader.take(HEAD_LIMIT);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && reader.read_until(b'\n', &mut head)? > 0 {}
    Ok(String::from_utf8_lossy(&head).into_owned())
}

fn answer(stream: &TcpStream, request: &Request, root: &Path) -> io::Result<()> {
    let with_body = match request.method {
        "GET" => true,
        "HEAD" => false,
        _ => {
            return refuse(stream, "405 Method Not Allowed\r\nAllow: GET, HEAD", request.keep_open);
        }
    };
    let Some((path, mut file, length)) = open(root, request.target) else {
        return refuse(stream, "404 Not Found", request.keep_open);
    };
    let whole = (String::from("200 OK"), 0, length);
    let (status, start, count) = match request.range.map(|range| ByteRange::parse(range, length)) {
        None | Some(ByteRange::Whole) => whole,
        Some(ByteRange::Part { start, end }) => {
            let status =
                format!("206 Partial Content\r\nContent-Range: bytes {start}-{end}/{length}");
            (status, start, end - start + 1)
        }
        Some(ByteRange::Unsatisfiable) => {
            let status = format!("416 Range Not Satisfiable\r\nContent-Range: bytes */{length}");
            return refuse(stream, &status, request.keep_open);
        }
    };
    let media_type = media_type(&path);
    let head = format!(
        "Content-Type: {media_type}\r\n\
         Accept-Ranges: bytes\r\n\
         Cache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\n\
         Referrer-Policy: no-referrer\r\n\
         Content-Security-Policy: {CONTENT_SECURITY_POLICY}\r\n"
    );
    send_head(stream, &status, &head, count, request.keep_open)?;
    if with_body {
        file.seek(SeekFrom::Start(start))?;
        io::copy(&mut file.take(count), &mut &*stream)?;
    }
    Ok(())
}

fn open(root: &Path, target: &str) -> Option<(PathBuf, File, u64)> {
    let path = file_for(root, target)?;
    let file = File::open(&path).ok()?;
    let metadata = file.metadata().ok()?;
    metadata.is_file().then_some((path, file, metadata.len()))
}

fn refuse(stream: &TcpStream, status: &str, keep_open: bool) -> io::Result<()> {
    send_head(stream, status, "", 0, keep_open)
}

fn send_head(
    mut stream: &TcpStream,
    status: &str,
    headers: &str,
    length: u64,
    keep_open: bool,
) -> io::Result<()> {
    let connection = if keep_open { "keep-alive" } else { "close" };
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: {connection}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn idle_connections_hold_nobody_up() {
        let (_folder, site) = site();
        let _idle: Vec<_> = (0..50).map(|_| TcpStream::connect(site.address).unwrap()).collect();
        assert!(ask(&site, "GET", "/", "").0.starts_with("HTTP/1.1 200"));
    }

    #[test]
    fn one_connection_serves_several_requests() {
        let (_folder, site) = site();
        let mut stream = TcpStream::connect(site.address).unwrap();
        let again = "GET /ten.bin HTTP/1.1\r\nHost: x\r\n\r\n";
        let last = "GET /ten.bin HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        write!(stream, "{again}{again}{last}").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert_eq!(text.matches("HTTP/1.1 200").count(), 3);
        assert_eq!(text.matches("0123456789").count(), 3);
    }

    #[test]
    fn a_malformed_request_is_refused_and_the_connection_closed() {
        let (_folder, site) = site();
        let mut stream = TcpStream::connect(site.address).unwrap();
        write!(stream, "nonsense\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 400"), "{text}");
    }

    #[test]
    fn a_busy_port_gives_the_next_one() {
        let (folder, first) = site();
        let second = Site::start(folder.path(), first.address.port()).unwrap();
        assert_ne!(first.address.port(), second.address.port());
        assert!(ask(&second, "GET", "/", "").0.starts_with("HTTP/1.1 200"));
    }
}
