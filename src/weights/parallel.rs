//! Downloads large files over several connections, where one does not use the full bandwidth.
//!
//! A file is read over one connection until a small part has arrived. Then the following parts are
//! requested too, and returned in order. If a server does not send parts, the first connection goes on
//! alone.

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    pin::{Pin, pin},
};

use futures::future::{FutureExt, LocalBoxFuture, MaybeDone, maybe_done};

use super::{
    Chunk,
    http::{HttpSource, HttpStream, Server},
    source::{ByteStream, Length, RangeSource, Source},
};
use crate::error::{Error, Result};

/// Transfers at a time.
const CONNECTIONS: usize = 4;
/// Bytes per part; all parts in flight fit the 32 MiB that loading may hold.
const PART_BYTES: u64 = 8 << 20;

/// A folder on a web server; large files are downloaded in several parts at once.
pub struct Parallel<S: Server> {
    source: HttpSource<S>,
    part_bytes: u64,
}

/// A file that is downloaded in several parts at once.
pub struct ParallelStream<S: Server> {
    /// The first transfer; also used again if there are no parts.
    main: HttpStream<S>,
    /// Where it started.
    start: u64,
    /// Parts in flight, in order.
    parts: VecDeque<Part>,
    /// Start of the first of them, or of the next part.
    boundary: u64,
    /// End of the last of them; `None` before there are any.
    asked: Option<u64>,
    /// Received but not returned yet.
    ready: VecDeque<Chunk>,
    /// Bytes of the first part that came over the first transfer.
    surplus: Option<Chunk>,
    part_bytes: u64,
    /// Transfers at a time.
    connections: usize,
    /// Length of the file, which the server may not state.
    expected: Option<Length>,
}

/// The pieces of a part, once received.
type Part = Pin<Box<MaybeDone<LocalBoxFuture<'static, Result<VecDeque<Chunk>>>>>>;

impl<S: Server + 'static> Parallel<S> {
    /// Reads the files of `source`.
    pub fn new(source: HttpSource<S>) -> Parallel<S> {
        Parallel::with_parts(source, PART_BYTES)
    }

    pub(super) fn with_parts(source: HttpSource<S>, part_bytes: u64) -> Parallel<S> {
        Parallel { source, part_bytes }
    }
}

impl<S: Server + 'static> Source for Parallel<S> {
    type Stream = ParallelStream<S>;

    async fn open(&self, file: &str) -> Result<Option<ParallelStream<S>>> {
        self.open_at(file, 0).await
    }

    async fn open_near(&self, file: &str, start: u64) -> Result<Option<(ParallelStream<S>, u64)>> {
        Ok(self.open_at(file, start).await?.map(|stream| (stream, start)))
    }

    fn gguf(&self) -> Option<&str> {
        self.source.gguf()
    }

    fn locate(&self, file: &str) -> String {
        self.source.locate(file)
    }
}

impl<S: Server + 'static> RangeSource for Parallel<S> {
    async fn open_at(&self, file: &str, start: u64) -> Result<Option<ParallelStream<S>>> {
        let main = self.source.open_at(file, start).await?;
        Ok(main.map(|main| ParallelStream {
            main,
            start,
            parts: VecDeque::new(),
            boundary: start,
            asked: None,
            ready: VecDeque::new(),
            surplus: None,
            part_bytes: self.part_bytes,
            connections: if self.source.is_sparing() { 1 } else { CONNECTIONS },
            expected: None,
        }))
    }

    fn address(&self, file: &str) -> String {
        self.source.address(file)
    }
}

impl<S: Server + 'static> ByteStream for ParallelStream<S> {
    fn length(&self) -> Option<u64> {
        self.main.length()
    }

    fn expect(&mut self, length: Length) {
        self.expected = Some(length);
    }

    fn version(&self) -> Option<&str> {
        self.main.version()
    }

    async fn next(&mut self) -> Result<Option<Chunk>> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Ok(Some(piece));
            }
            self.ask_ahead();
            if self.is_over() {
                return Ok(None);
            }
            if self.parts.is_empty() || self.main.position() < self.boundary {
                let next = meanwhile(&mut self.parts, self.main.next()).await?;
                return Ok(next.map(|piece| self.before_boundary(piece)));
            }
            let Some(mut part) = self.parts.pop_front() else { continue };
            meanwhile(&mut self.parts, part.as_mut()).await;
            match part.as_mut().take_output() {
                Some(Ok(pieces)) => {
                    self.boundary += pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
                    self.ready = pieces;
                    self.surplus = None;
                    self.main = self.main.another(self.boundary, None);
                }
                Some(Err(error @ (Error::Aborted | Error::Integrity { .. }))) => return Err(error),
                // The first transfer reports errors of the server.
                _ => {
                    self.connections = 1;
                    self.parts.clear();
                    self.ready.extend(self.surplus.take());
                }
            }
        }
    }
}

impl<S: Server + 'static> ParallelStream<S> {
    /// Requests as many parts as may be in flight.
    fn ask_ahead(&mut self) {
        let at = self.main.position();
        let known = self.main.length().map(Length::Exactly).or(self.expected);
        let Some(known) = known.filter(|_| self.connections > 1) else { return };
        let (Length::Exactly(length) | Length::AtLeast(length)) = known;
        // Does not start early: a reader of the header alone stops before.
        let begins = at - self.start >= self.part_bytes / 4 && at + 2 * self.part_bytes < length;
        let Some(mut asked) = self.asked.or(begins.then_some(at + self.part_bytes)) else { return };
        if self.asked.is_none() {
            self.boundary = asked;
        }
        let others = usize::from(at < self.boundary);
        while self.parts.len() + others < self.connections && asked < length {
            let end = length.min(asked + self.part_bytes);
            // What follows the expected bytes comes with the last part.
            let is_open = end == length && known == Length::AtLeast(length);
            let part = self.main.another(asked, Some(end).filter(|_| !is_open));
            let pieces = read(part, 2 * self.part_bytes).boxed_local();
            self.parts.push_back(Box::pin(maybe_done(pieces)));
            asked = end;
        }
        self.asked = Some(asked);
    }

    /// Whether the last expected byte has been read. To request more would be an error with some
    /// servers.
    fn is_over(&self) -> bool {
        let Some(Length::Exactly(length) | Length::AtLeast(length)) = self.expected else {
            return false;
        };
        self.parts.is_empty() && self.asked == Some(length) && length <= self.boundary
    }

    /// The bytes of a piece of the first transfer that come before the first part.
    fn before_boundary(&mut self, piece: Chunk) -> Chunk {
        let surplus = self.main.position().saturating_sub(self.boundary) as usize;
        if surplus == 0 || self.parts.is_empty() {
            return piece;
        }
        let own = piece.len() - surplus;
        self.surplus = Some(piece.slice(own..piece.len()));
        piece.slice(0..own)
    }
}

/// All pieces of a part, if they have at most `most` bytes.
async fn read<S: Server>(mut part: HttpStream<S>, most: u64) -> Result<VecDeque<Chunk>> {
    let end = part.position() + most;
    let mut pieces = VecDeque::new();
    while let Some(piece) = part.next().await? {
        if part.position() > end {
            return Err(part.failed("the file is longer than it says"));
        }
        pieces.push_back(piece);
    }
    Ok(pieces)
}

/// Awaits a future while parts are being received.
async fn meanwhile<T>(parts: &mut VecDeque<Part>, wanted: impl Future<Output = T>) -> T {
    let mut wanted = pin!(wanted);
    poll_fn(|context| {
        for part in parts.iter_mut() {
            // The part keeps its pieces.
            let _ = part.as_mut().poll(context);
        }
        wanted.as_mut().poll(context)
    })
    .await
}
