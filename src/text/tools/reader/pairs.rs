//! Arguments that are written one by one, not as a JSON object.

use super::scan::{begun, last};
use super::{After, Progress, Reader, State};
use crate::text::tools::dialect::{Arguments, Call, Notation};
use crate::text::tools::head::{Cursor, Halt, overlap};
use crate::text::tools::reading::{Kind, Span};
use crate::text::tools::values::{Types, escaped, literal};

/// The mark before and after text that is taken as it is, in a value between tags.
const VERBATIM: [&str; 2] = ["<![CDATA[", "]]>"];

impl Reader {
    /// Between two arguments: the next key, or the end of the call.
    pub(super) fn key(&mut self, after: After, spans: &mut Vec<Span>) -> Progress {
        let Some(Call::Named { arguments: Arguments::Pairs { key, value, notation }, end, .. }) =
            self.format().map(|format| &format.call)
        else {
            return self.broken(0, "", spans);
        };
        let text = std::mem::take(&mut self.held);
        let mut cursor = Cursor { text: &text, at: 0 };
        let found = (|| {
            match after {
                After::Head => {}
                After::Plain => {
                    cursor.blank();
                    cursor.passes(VERBATIM[1])?;
                    cursor.expect(value[1].trim())?;
                }
                After::Value => cursor.expect(last(value[1].trim()))?,
            }
            cursor.blank();
            if matches!(notation, Notation::Literal(_))
                && after != After::Head
                && cursor.passes(",")?
            {
                cursor.blank();
            }
            if cursor.passes(end.first().unwrap_or(&""))? {
                return Ok(None);
            }
            cursor.key(key, value[0]).map(Some)
        })();
        let at = cursor.at;
        let found = found.map(|key| key.map(str::to_owned));
        self.held = text;
        let quote = if after == After::Plain { "\"" } else { "" };
        match found {
            Ok(None) => {
                let begin = if after == After::Head { "{" } else { "" };
                self.emit_arguments(at, format!("{quote}{begin}}}"), spans);
                self.state = State::Called;
                Ok(())
            }
            Ok(Some(key)) => {
                let tool = self.tool.and_then(|tool| self.reading.tools.get(tool));
                self.types = Types::of(tool, &key);
                let plain = *notation == Notation::Plain && self.types.only_strings();
                let begin = if after == After::Head { "{" } else { ", " };
                let open = if plain { "\"" } else { "" };
                let key = format!("{quote}{begin}\"{}\": {open}", escaped(&key));
                self.emit_arguments(at, key, spans);
                self.state = if plain { State::Plain(false, false) } else { State::Value };
                Ok(())
            }
            Err(Halt::Short) => Err(Halt::Short),
            Err(Halt::Wrong) => self.broken(at, &format!("{quote}}}"), spans),
        }
    }

    /// Ends arguments that break off with this JSON.
    fn broken(&mut self, at: usize, json: &str, spans: &mut Vec<Span>) -> Progress {
        let first = self.held.chars().next().map_or(0, char::len_utf8);
        self.emit_arguments(at.max(first), json.into(), spans);
        self.state = State::Called;
        Ok(())
    }

    /// Emits a string without quotes up to the text after it.
    pub(super) fn plain(&mut self, seen: bool, verbatim: bool, spans: &mut Vec<Span>) -> Progress {
        let [before, after] = self.around_value();
        // A line break after the opening tag and one before the closing one are no part of it.
        let pads = before.starts_with('\n') && !verbatim;
        if !seen {
            let mut cursor = Cursor { text: &self.held, at: 0 };
            if pads {
                cursor.passes("\n")?;
            }
            let verbatim = cursor.passes(VERBATIM[0])?;
            let at = cursor.at;
            self.emit(at, Kind::Silent, spans);
            self.state = State::Plain(true, verbatim);
            return Ok(());
        }
        let end = if verbatim { VERBATIM[1] } else { after.trim() };
        let found = self.held.find(end);
        let certain = found.unwrap_or_else(|| self.held.len() - begun(&self.held, end));
        let body = &self.held[..certain];
        let body = body.strip_suffix('\n').filter(|_| pads).unwrap_or(body).len();
        if body > 0 {
            self.emit(body, Kind::Escaped(self.calls - 1), spans);
        } else if found.is_some() {
            self.state = State::Key(After::Plain);
        } else {
            return Err(Halt::Short);
        }
        Ok(())
    }

    /// Emits any other value once it is complete.
    pub(super) fn value(&mut self, spans: &mut Vec<Span>) -> Progress {
        let [before, after] = self.around_value();
        let (value, len) = if after.is_empty() {
            let mut cursor = Cursor { text: &self.held, at: 0 };
            match literal(&mut cursor) {
                Ok(value) => (value, cursor.at),
                Err(Halt::Short) => return Err(Halt::Short),
                Err(Halt::Wrong) => return self.broken(0, "null}", spans),
            }
        } else {
            let end = after.trim();
            let verbatim = self.held.trim_start();
            let from = match overlap(verbatim, VERBATIM[0]) {
                Ok(()) => self.held.find(VERBATIM[1]).ok_or(Halt::Short)?,
                Err(Halt::Short) => return Err(Halt::Short),
                Err(Halt::Wrong) => 0,
            };
            let at = from + self.held[from..].find(end).ok_or(Halt::Short)?;
            let text = &self.held[..at];
            let text = match text.trim().strip_prefix(VERBATIM[0]) {
                Some(text) => text.strip_suffix(VERBATIM[1]).unwrap_or(text),
                None if before.starts_with('\n') => {
                    let text = text.strip_prefix('\n').unwrap_or(text);
                    text.strip_suffix('\n').unwrap_or(text)
                }
                None => text,
            };
            // The end's last character stays: should the answer stop here, it stands for the last brace.
            (self.types.value(text), at + end.len() - last(end).len())
        };
        self.emit_arguments(len, value.to_string(), spans);
        self.state = State::Key(After::Value);
        Ok(())
    }

    /// The texts around a value in the arguments.
    fn around_value(&self) -> [&'static str; 2] {
        match self.format().map(|format| &format.call) {
            Some(Call::Named { arguments: Arguments::Pairs { value, .. }, .. }) => *value,
            _ => [""; 2],
        }
    }
}
