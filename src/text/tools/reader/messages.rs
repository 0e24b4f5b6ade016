//! Answers of several messages: gpt-oss's, each with a header that says what it is.

use super::scan::begun;
use super::{Progress, Reader, State};
use crate::text::tools::dialect::Dialect;
use crate::text::tools::harmony::{Body, ENDS, Header};
use crate::text::tools::head::{Halt, Head};
use crate::text::tools::reading::{Kind, Part, Span};

/// Between two messages of the same kind in an answer of several.
const GAP: &str = "\n\n";

impl Reader {
    /// The header of a message.
    pub(super) fn header(&mut self, spans: &mut Vec<Span>) -> Progress {
        let header = Header::read(&self.held, &self.known());
        match header {
            Ok(header) => self.begin(header, spans),
            Err(Halt::Short) => return Err(Halt::Short),
            Err(Halt::Wrong) => {
                let marker =
                    Dialect::Harmony.markers().find(|marker| self.held.starts_with(marker));
                match marker {
                    Some(marker) => self.emit(marker.len(), Kind::Silent, spans),
                    None => self.state = State::Message(Part::Content),
                }
            }
        }
        Ok(())
    }

    /// Emits a header.
    pub(super) fn begin(&mut self, header: Header, spans: &mut Vec<Span>) {
        let (part, said) = match header.body {
            Body::Call { name, empty } => {
                let arguments = empty.then(|| "{}".into());
                let head = Head { name, len: header.len, arguments };
                let _ = self.call(head, 0, spans);
                self.state = State::Message(self.arguments());
                return;
            }
            Body::Content => (Part::Content, self.said[0]),
            Body::Reasoning => (Part::Reasoning, self.said[1]),
        };
        let kind = if said { Kind::Instead(part, GAP.into()) } else { Kind::Silent };
        self.emit(header.len, kind, spans);
        self.state = State::Message(part);
    }

    /// The body of a message, up to the end of it or the next header.
    pub(super) fn message(&mut self, part: Part, spans: &mut Vec<Span>) -> Progress {
        let found = ENDS.iter().filter_map(|end| Some((self.held.find(end)?, *end))).min();
        let undecided = ENDS.iter().map(|end| begun(&self.held, end)).max().unwrap_or(0);
        let certain = found.map_or(self.held.len() - undecided, |(at, _)| at);
        match found {
            _ if certain > 0 => self.emit(certain, Kind::Text(part), spans),
            None => return Err(Halt::Short),
            Some((_, end)) => {
                let begins = matches!(end, "<|start|>" | "<|channel|>");
                self.emit(if begins { 0 } else { end.len() }, Kind::Silent, spans);
                self.state = State::Header;
            }
        }
        match part {
            Part::Content => self.said[0] |= certain > 0,
            Part::Reasoning => {
                self.said[1] |= certain > 0;
                self.thought = self.emitted;
            }
            Part::Arguments(_) => {}
        }
        Ok(())
    }
}
