//! Files of a web server. Interrupted transfers are resumed.

use std::{cell::Cell, future::Future, pin::pin, rc::Rc, time::Duration};

use futures::future::{Either, select};

use super::{
    Chunk,
    address::Address,
    source::{ByteStream, RangeSource, Source},
};
use crate::error::{Error, Result};

/// Waits between attempts; after the last attempt the transfer has failed.
const WAITS: [Duration; 5] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];

/// Bytes of a sparing stream's first request; each one that follows asks for four times as many, up to
/// the most.
const PIECE_BYTES: u64 = 64 << 10;
const MOST_PIECE_BYTES: u64 = 4 << 20;

/// A server that sends nothing for this long has failed.
const SILENCE: Duration = Duration::from_secs(60);

/// Sends requests to a web server, without interpreting the answers.
#[allow(async_fn_in_trait)] // single-threaded by design: no future crosses threads
pub trait Server {
    /// Its length is that of the body, not of the file.
    type Body: ByteStream;

    /// Requests the bytes of a file from `start` to before `end`, or to the end of the file; with a
    /// `Range` header only if that is not the whole file.
    ///
    /// # Errors
    /// [`Error::Fetch`] if there is no answer, [`Error::Aborted`] if the caller has cancelled.
    async fn get(&self, address: &str, start: u64, end: Option<u64>) -> Result<Answer<Self::Body>>;

    /// Resolves after this time.
    fn wait(&self, time: Duration) -> impl Future<Output = ()>;
}

/// An answer of a server.
#[derive(Debug)]
pub struct Answer<B> {
    pub status: u16,
    /// The status text, possibly empty.
    pub reason: String,
    /// Whether it claims to be an HTML page.
    pub is_page: bool,
    /// The `Content-Range` header; other origins may hide it.
    pub content_range: Option<String>,
    /// A value that changes with the file (ETag); other origins may hide it.
    pub version: Option<String>,
    pub body: B,
}

/// A folder on a web server, or a GGUF file in it.
pub struct HttpSource<S> {
    shared: Rc<Shared<S>>,
}

struct Shared<S> {
    server: S,
    address: Address,
    /// Whether the server has ever sent a file. Until then, a failure more likely means a wrong address
    /// than a broken connection, and there is no retry.
    reached: Cell<bool>,
    /// Whether files are asked for in pieces, of which only those that are read are sent.
    is_sparing: bool,
}

/// A file on a web server.
pub struct HttpStream<S: Server> {
    shared: Rc<Shared<S>>,
    /// As requested: with the signature, which errors must not show.
    address: String,
    /// For messages.
    name: String,
    /// Position of the next byte.
    position: u64,
    /// End of the transfer, if before the end of the file.
    end: Option<u64>,
    /// Length of the file.
    length: Option<u64>,
    version: Option<String>,
    /// `None` after an interruption.
    body: Option<S::Body>,
    /// Bytes at the start of the body that come before `position`.
    surplus: u64,
    /// Bytes of the next request, if it is for a piece.
    piece: Option<u64>,
    /// End of the piece that the body is.
    piece_end: Option<u64>,
}

/// Why there is no body.
enum Setback {
    /// There is no such file.
    Absent,
    /// The file ends before the requested start.
    End,
    /// Temporary: another attempt may succeed.
    Passing(Error),
    Final(Error),
}

impl<S: Server> HttpSource<S> {
    /// Sets the address of a folder, or of a GGUF file; nothing is read yet.
    pub fn new(server: S, address: &str) -> HttpSource<S> {
        HttpSource::at(server, Address::new(address))
    }

    /// The same, for readers of headers: the server is not asked for what is not read.
    pub fn sparing(server: S, address: &str) -> HttpSource<S> {
        HttpSource::with(server, Address::new(address), true)
    }

    pub(super) fn at(server: S, address: Address) -> HttpSource<S> {
        HttpSource::with(server, address, false)
    }

    fn with(server: S, address: Address, is_sparing: bool) -> HttpSource<S> {
        HttpSource {
            shared: Rc::new(Shared { server, address, reached: Cell::new(false), is_sparing }),
        }
    }

    pub(super) fn is_sparing(&self) -> bool {
        self.shared.is_sparing
    }
}

impl<S: Server> Source for HttpSource<S> {
    type Stream = HttpStream<S>;

    async fn open(&self, file: &str) -> Result<Option<HttpStream<S>>> {
        self.open_at(file, 0).await
    }

    async fn open_near(&self, file: &str, start: u64) -> Result<Option<(HttpStream<S>, u64)>> {
        Ok(self.open_at(file, start).await?.map(|stream| (stream, start)))
    }

    fn gguf(&self) -> Option<&str> {
        self.shared.address.file()
    }

    fn locate(&self, file: &str) -> String {
        self.shared.address.readable(file)
    }
}

impl<S: Server> RangeSource for HttpSource<S> {
    async fn open_at(&self, file: &str, start: u64) -> Result<Option<HttpStream<S>>> {
        let mut stream = HttpStream {
            shared: self.shared.clone(),
            address: self.shared.address.signed(file),
            name: self.locate(file),
            position: start,
            end: None,
            length: None,
            version: None,
            body: None,
            surplus: 0,
            piece: self.is_sparing().then_some(PIECE_BYTES),
            piece_end: None,
        };
        let mut waits = WAITS.iter();
        loop {
            let error = match stream.connect().await {
                Ok(()) => return Ok(Some(stream)),
                Err(Setback::Absent) => return Ok(None),
                Err(Setback::End) => {
                    stream.length = Some(start);
                    return Ok(Some(stream));
                }
                Err(Setback::Final(error)) => return Err(error),
                Err(Setback::Passing(error)) => error,
            };
            match waits.next().filter(|_| self.shared.reached.get()) {
                Some(wait) => self.shared.server.wait(*wait).await,
                None => return Err(error),
            }
        }
    }

    fn address(&self, file: &str) -> String {
        self.shared.address.of(file)
    }
}

impl<S: Server> ByteStream for HttpStream<S> {
    fn length(&self) -> Option<u64> {
        self.length
    }

    fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    async fn next(&mut self) -> Result<Option<Chunk>> {
        let mut waits = WAITS.iter();
        loop {
            let error = match self.advance().await {
                Ok(chunk) => return Ok(chunk),
                Err(Setback::End) => return Ok(None),
                Err(Setback::Absent) => return Err(self.failed("there is no such file any more")),
                Err(Setback::Final(error)) => return Err(error),
                Err(Setback::Passing(error)) => error,
            };
            self.body = None;
            match waits.next() {
                Some(wait) => self.shared.server.wait(*wait).await,
                None => return Err(error),
            }
        }
    }
}

impl<S: Server> HttpStream<S> {
    /// Position of the next byte.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Another transfer of the same, unchanged file, from `start` to before `end` or to the end of the
    /// file. It begins with the first read.
    ///
    /// With an `end`, a server without range support is an error.
    pub(super) fn another(&self, start: u64, end: Option<u64>) -> HttpStream<S> {
        HttpStream {
            shared: self.shared.clone(),
            address: self.address.clone(),
            name: self.name.clone(),
            position: start,
            end,
            length: self.length,
            version: self.version.clone(),
            body: None,
            surplus: 0,
            piece: None,
            piece_end: None,
        }
    }

    /// Reads the next bytes, over a new connection if there is none.
    async fn advance(&mut self) -> Result<Option<Chunk>, Setback> {
        if self.end.or(self.length) == Some(self.position) {
            return Ok(None);
        }
        if self.body.is_none() {
            self.connect().await?;
        }
        loop {
            let Some(body) = &mut self.body else { return Err(Setback::End) };
            let next = patiently(&self.shared.server, body.next()).await;
            let Some(chunk) = next.map_err(|error| self.setback(error))? else {
                // The next piece, unless the file ends here.
                if self.piece_end == Some(self.position) && self.length != Some(self.position) {
                    self.connect().await?;
                    continue;
                }
                return self.end();
            };
            let length = chunk.len() as u64;
            let skipped = self.surplus.min(length);
            self.surplus -= skipped;
            if skipped == length {
                continue;
            }
            let chunk = chunk.slice(skipped as usize..chunk.len());
            self.position += chunk.len() as u64;
            if let Some(end) = self.end.or(self.length).filter(|end| *end < self.position) {
                return Err(Setback::Final(self.changed(end, self.position)));
            }
            return Ok(Some(chunk));
        }
    }

    /// Handles the end of the body.
    fn end(&mut self) -> Result<Option<Chunk>, Setback> {
        match self.end.or(self.length) {
            Some(expected) if self.position < expected => Err(Setback::Passing(Error::Truncated {
                what: self.name.clone(),
                expected,
                found: self.position,
            })),
            None if self.surplus > 0 => {
                let found = self.position - self.surplus;
                Err(Setback::Final(self.changed(self.position, found)))
            }
            _ => Ok(None),
        }
    }

    /// Requests the bytes from `position` on.
    async fn connect(&mut self) -> Result<(), Setback> {
        let (server, start) = (&self.shared.server, self.position);
        let piece_end = self.piece.map(|bytes| start + bytes);
        let end = self.end.or(piece_end);
        let answer = patiently(server, server.get(&self.address, start, end)).await;
        let answer = answer.map_err(|error| self.setback(error))?;
        let status = answer.status;
        match status {
            200 | 206 => {}
            404 | 410 => return Err(Setback::Absent),
            416 if start > 0 && self.length.is_none() => return Err(Setback::End),
            // An empty file has no piece.
            416 if start == 0 && self.piece.is_some() => {
                self.length = Some(0);
                return Ok(());
            }
            416 => return Err(Setback::Final(self.changed(self.length.unwrap_or(0), start))),
            _ => {
                let reason = format!("HTTP status {status} {}", answer.reason);
                let mut reason = reason.trim_end().to_owned();
                if let 401 | 403 = status {
                    reason += ", as for what is private or gated, and on some hubs for a name that \
                               does not exist";
                }
                let error = self.failed(&reason);
                let is_passing = matches!(status, 408 | 425 | 429 | 500..);
                return Err(if is_passing {
                    Setback::Passing(error)
                } else {
                    Setback::Final(error)
                });
            }
        }
        if answer.is_page {
            let error = Error::Malformed {
                what: self.name.clone(),
                expected: "file of a model".into(),
                found: "found an HTML page; the server probably has no such file".into(),
            };
            // If part of the file was read already, the page is probably a network's login page.
            return Err(if start > 0 { Setback::Passing(error) } else { Setback::Final(error) });
        }
        self.shared.reached.set(true);
        if self.end.is_some() && status != 206 {
            return Err(Setback::Final(self.failed("the server sends no parts of files")));
        }
        let range = answer.content_range.as_deref().and_then(content_range);
        let (first, stated) = match range.filter(|_| status == 206) {
            Some((first, total)) => (first, total),
            None => (if status == 206 { start } else { 0 }, None),
        };
        // A server that sends the whole file is asked for no more pieces.
        self.piece_end = piece_end.filter(|_| status == 206);
        self.piece =
            self.piece.filter(|_| status == 206).map(|bytes| MOST_PIECE_BYTES.min(4 * bytes));
        // For a part, the length of the body is not that of the file.
        let is_part = self.end.is_some() || self.piece_end.is_some();
        let rest = answer.body.length().filter(|_| !is_part);
        let length = stated.or(rest.map(|length| first + length));
        if first > start {
            return Err(Setback::Final(self.failed(&format!(
                "asked for the bytes from {start} on, the server sent those from {first} on"
            ))));
        }
        if let (Some(had), Some(has)) = (self.length, length)
            && had != has
        {
            return Err(Setback::Final(self.changed(had, has)));
        }
        if let (Some(had), Some(has)) = (&self.version, &answer.version)
            && had != has
        {
            let (what, expected, found) = (self.name.clone(), had.clone(), has.clone());
            return Err(Setback::Final(Error::Integrity { what, expected, found }));
        }
        self.length = self.length.or(length);
        self.version = self.version.take().or(answer.version);
        self.surplus = start - first;
        self.body = Some(answer.body);
        Ok(())
    }

    pub(super) fn failed(&self, reason: &str) -> Error {
        Error::Fetch { what: self.name.clone(), reason: reason.into() }
    }

    /// Classifies a failed transfer.
    fn setback(&self, error: Error) -> Setback {
        match error {
            Error::Fetch { reason, .. } => Setback::Passing(self.failed(&reason)),
            _ => Setback::Final(error),
        }
    }

    fn changed(&self, expected: u64, found: u64) -> Error {
        let bytes = |count| format!("{count} bytes");
        let what = self.name.clone();
        Error::Integrity { what, expected: bytes(expected), found: bytes(found) }
    }
}

/// Waits for a server, but at most for [`SILENCE`].
async fn patiently<T>(server: &impl Server, answer: impl Future<Output = Result<T>>) -> Result<T> {
    match select(pin!(answer), pin!(server.wait(SILENCE))).await {
        Either::Left((result, _)) => result,
        Either::Right(_) => {
            let reason = format!("the server sent nothing for {} seconds", SILENCE.as_secs());
            Err(Error::Fetch { what: String::new(), reason })
        }
    }
}

/// The first byte and the file length in `bytes first-last/length`.
fn content_range(header: &str) -> Option<(u64, Option<u64>)> {
    let (range, length) = header.strip_prefix("bytes ")?.split_once('/')?;
    let first = range.split_once('-')?.0.parse().ok()?;
    Some((first, length.parse().ok()))
}
