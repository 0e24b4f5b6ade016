//! Parses an answer's text into reasoning, content and tool calls.

mod messages;
mod pairs;
mod scan;

use super::dialect::{Arguments, Call, Dialect, Format};
use super::harmony::{ENDS, Header};
use super::head::{Halt, Head, overlap};
use super::reading::{Kind, Part, Reading, Span, THINK, Thinking};
use super::values::Types;
use scan::{Scan, begun};

/// Parses an answer's text as it is streamed, and emits each span as soon as its kind is certain.
///
/// The result does not depend on how the text is cut.
pub struct Reader {
    reading: Reading,
    /// Names of special tokens that are removed from the content.
    hidden: Vec<&'static str>,
    state: State,
    held: String,
    /// Number of calls so far.
    calls: usize,
    /// The types of the argument that is being read.
    types: Types,
    /// The tool of the last call, in the reading.
    tool: Option<usize>,
    /// Whether a message was emitted as content, and as reasoning.
    said: [bool; 2],
    /// Number of bytes emitted so far.
    emitted: usize,
    /// End of the reasoning so far, in bytes.
    thought: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Only white space since this point.
    Blank(Since),
    Text,
    /// In the reasoning; whether any of it was emitted.
    Thought(bool),
    /// In the arguments of a call, a JSON object.
    Arguments(Scan),
    /// After the arguments, in the rest of the call.
    Rest,
    Members(Scan),
    /// Before a key of the arguments, or their end.
    Key(After),
    /// In a value that is a string without quotes; whether any of it was seen, and whether it is verbatim.
    Plain(bool, bool),
    /// Before any other value.
    Value,
    /// After a call.
    Called,
    /// Before or in the header of a message.
    Header,
    Message(Part),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Since {
    Start,
    Thought,
    Call,
}

/// What is before a key.
#[derive(Clone, Copy, Debug, PartialEq)]
enum After {
    Head,
    /// A string without quotes; its end was not emitted.
    Plain,
    /// Any other value.
    Value,
}

/// `Ok` to advance again with the held text; an error if more text is needed.
type Progress = Result<(), Halt>;

impl Reader {
    /// A reader of an answer; special tokens stay in the content if `shows_special`.
    pub fn new(reading: Reading, shows_special: bool) -> Reader {
        let hidden = reading.markers.iter().map(|(_, name)| *name).filter(|_| !shows_special);
        let state = match reading.thinking {
            _ if reading.dialect == Some(Dialect::Harmony) => match reading.continues {
                true => State::Message(Part::Content),
                false => State::Header,
            },
            Thinking::Begun => State::Thought(false),
            Thinking::Amid => State::Thought(true),
            Thinking::Never if reading.dialect.is_none() || reading.continues => State::Text,
            Thinking::Never | Thinking::Possible => State::Blank(Since::Start),
        };
        Reader {
            hidden: hidden.collect(),
            state,
            reading,
            held: String::new(),
            calls: 0,
            types: Types::default(),
            tool: None,
            said: [false; 2],
            emitted: 0,
            thought: 0,
        }
    }

    /// Takes the next piece of text.
    pub fn push(&mut self, text: &str) -> Vec<Span> {
        self.held.push_str(text);
        let mut spans = Vec::new();
        while !self.held.is_empty() && self.advance(&mut spans) == Ok(()) {}
        spans
    }

    /// Ends the text.
    pub fn finish(&mut self) -> Vec<Span> {
        let mut spans = Vec::new();
        while !self.held.is_empty() {
            if self.advance(&mut spans).is_err() {
                self.settle(&mut spans);
            }
        }
        spans
    }

    /// Number of calls.
    pub fn calls(&self) -> usize {
        self.calls
    }

    /// Number of bytes of reasoning.
    pub fn thought(&self) -> usize {
        self.thought
    }

    /// Consumes the start of the held text, or says why it cannot yet.
    fn advance(&mut self, spans: &mut Vec<Span>) -> Progress {
        match self.state {
            State::Blank(since) => self.blank(since, spans),
            State::Text => self.text(spans),
            State::Thought(emitted) => self.think(emitted, spans),
            State::Arguments(scan) => {
                let kind = Kind::Text(self.arguments());
                self.scan(scan, kind, State::Arguments, spans)
            }
            State::Members(scan) => self.scan(scan, Kind::Silent, State::Members, spans),
            State::Rest => self.rest(spans),
            State::Key(after) => self.key(after, spans),
            State::Plain(seen, verbatim) => self.plain(seen, verbatim, spans),
            State::Value => self.value(spans),
            State::Called => self.called(spans),
            State::Header => self.header(spans),
            State::Message(part) => self.message(part, spans),
        }
    }

    fn blank(&mut self, since: Since, spans: &mut Vec<Span>) -> Progress {
        let lead = self.lead();
        let body = &self.held[lead..];
        if since == Since::Start && self.reading.thinking == Thinking::Possible {
            match overlap(body, THINK[0]) {
                Ok(()) => {
                    self.emit(lead + THINK[0].len(), Kind::Silent, spans);
                    (self.thought, self.state) = (self.emitted, State::Thought(false));
                    return Ok(());
                }
                Err(Halt::Short) => return Err(Halt::Short),
                Err(Halt::Wrong) => {}
            }
        }
        if body.is_empty() {
            return Err(Halt::Short);
        }
        if self.reading.dialect.is_some_and(Dialect::bare) && body.starts_with('{') {
            match self.head(lead) {
                Ok(head) => return self.call(head, lead, spans),
                Err(Halt::Short) => return Err(Halt::Short),
                Err(Halt::Wrong) => {}
            }
        }
        // White space before a call or after reasoning is not content.
        let quiet = match self.find() {
            Found::Marker(at) if at == lead => match self.head(lead) {
                Err(Halt::Short) => return Err(Halt::Short),
                head => head.is_ok(),
            },
            Found::Nothing(at) if at == lead => return Err(Halt::Short),
            _ => false,
        };
        if quiet || since == Since::Thought {
            self.emit(lead, Kind::Silent, spans);
        }
        self.state = State::Text;
        Ok(())
    }

    fn text(&mut self, spans: &mut Vec<Span>) -> Progress {
        match self.find() {
            Found::Marker(0) => match self.head(0) {
                Ok(head) => self.call(head, 0, spans),
                Err(Halt::Short) => Err(Halt::Short),
                Err(Halt::Wrong) => {
                    self.no_call(spans);
                    Ok(())
                }
            },
            Found::Hidden(0, len) => {
                self.emit(len, Kind::Silent, spans);
                Ok(())
            }
            Found::Nothing(0) => Err(Halt::Short),
            Found::Marker(at) | Found::Hidden(at, _) | Found::Nothing(at) => {
                self.emit(at, Kind::Text(Part::Content), spans);
                Ok(())
            }
        }
    }

    fn think(&mut self, emitted: bool, spans: &mut Vec<Span>) -> Progress {
        let lead = if emitted { 0 } else { self.lead() };
        if lead > 0 {
            self.emit(lead, Kind::Silent, spans);
            self.thought = self.emitted;
            return Ok(());
        }
        let end = THINK[1];
        let found = self.held.find(end);
        let certain = found.unwrap_or_else(|| self.held.len() - begun(&self.held, end));
        let body = self.held[..certain].trim_end().len();
        if body > 0 {
            self.emit(body, Kind::Text(Part::Reasoning), spans);
            (self.thought, self.state) = (self.emitted, State::Thought(true));
            return Ok(());
        }
        match found {
            None => Err(Halt::Short),
            Some(at) => {
                self.emit(at + end.len(), Kind::Silent, spans);
                (self.thought, self.state) = (self.emitted, State::Blank(Since::Thought));
                Ok(())
            }
        }
    }

    /// Emits a JSON value up to its end, or up to the first character that is not JSON.
    fn scan(
        &mut self,
        mut scan: Scan,
        kind: Kind,
        state: fn(Scan) -> State,
        spans: &mut Vec<Span>,
    ) -> Progress {
        let mut end = 0;
        let mut over = false;
        for (at, c) in self.held.char_indices() {
            if !scan.takes(c) {
                over = true;
                break;
            }
            end = at + c.len_utf8();
            if scan.depth == 0 && !scan.in_string {
                over = true;
                break;
            }
        }
        let object = self.format().is_some_and(|format| matches!(format.call, Call::Object(_)));
        let ends = if object && kind != Kind::Silent { State::Rest } else { State::Called };
        self.emit(end, kind, spans);
        self.state = if over { ends } else { state(scan) };
        Ok(())
    }

    /// After the arguments: the end of the call, or further keys.
    fn rest(&mut self, spans: &mut Vec<Span>) -> Progress {
        let lead = self.lead();
        match self.held[lead..].chars().next() {
            None => return Err(Halt::Short),
            Some('}') => {
                self.emit(lead + 1, Kind::Silent, spans);
                self.state = State::Called;
            }
            Some(',') => self.state = State::Members(Scan { depth: 1, ..Scan::default() }),
            Some(_) => self.state = State::Called,
        }
        Ok(())
    }

    /// After a call: its end marker, or the next call between the same markers.
    fn called(&mut self, spans: &mut Vec<Span>) -> Progress {
        let Some(dialect) = self.reading.dialect else { return Err(Halt::Short) };
        let Format { bracketed, call, shared, closes, .. } = dialect.format();
        let lead = self.lead();
        let body = &self.held[lead..];
        let Some(first) = body.chars().next() else { return Err(Halt::Short) };
        let object = matches!(call, Call::Object(_));
        let ends: &[&str] = match call {
            Call::Named { end, .. } => end,
            Call::Object(_) => &[],
        };
        let json = !matches!(call, Call::Named { arguments: Arguments::Pairs { .. }, .. });
        let mut short = false;
        if *shared || object {
            let separator = usize::from(matches!(first, ',' | ';'));
            let head = Head::next(dialect, &body[separator..], &self.known());
            match head {
                Ok(head) => return self.call(head, lead + separator, spans),
                Err(halt) => short = halt == Halt::Short,
            }
        }
        let mut follows = |texts: &[&str]| {
            let found = texts.iter().map(|text| (text.trim(), overlap(body, text.trim())));
            let found: Vec<_> = found.collect();
            short |= found.iter().any(|(_, found)| *found == Err(Halt::Short));
            found.into_iter().find(|(_, found)| found.is_ok()).map(|(text, _)| text.len())
        };
        // Models write a brace or bracket too many.
        let surplus = first == '}' && json || first == ']' && (*bracketed || object);
        let end = follows(ends).or(surplus.then_some(1));
        let close = follows(closes);
        match (end, close) {
            (Some(len), _) => self.emit(lead + len, Kind::Silent, spans),
            (None, Some(len)) => {
                self.emit(lead + len, Kind::Silent, spans);
                self.state = State::Blank(Since::Call);
            }
            (None, None) if short => return Err(Halt::Short),
            (None, None) => self.state = State::Blank(Since::Call),
        }
        Ok(())
    }

    /// Emits the held text at the end of the answer.
    fn settle(&mut self, spans: &mut Vec<Span>) {
        let all = self.held.len();
        match self.state {
            State::Blank(since) => {
                let lead = self.lead();
                let silent = match since {
                    Since::Start => false,
                    Since::Thought => true,
                    Since::Call => lead == all,
                };
                self.emit(
                    lead,
                    if silent { Kind::Silent } else { Kind::Text(Part::Content) },
                    spans,
                );
                self.state = State::Text;
            }
            State::Text => match self.last_head() {
                Some(head) => {
                    let _ = self.call(head, 0, spans);
                }
                None => self.no_call(spans),
            },
            State::Thought(_) => {
                let body = self.held.trim_end().len();
                self.emit(body, Kind::Text(Part::Reasoning), spans);
                self.emit(all - body, Kind::Silent, spans);
                self.thought = self.emitted;
            }
            State::Key(after) => {
                let quote = if after == After::Plain { "\"" } else { "" };
                self.emit_arguments(all, format!("{quote}}}"), spans);
            }
            State::Header => {
                let ended = format!("{}{}", self.held, ENDS[0]);
                let header = Header::read(&ended, &self.known());
                let marks = self.held.trim_start().starts_with('<');
                match header {
                    Ok(header) if header.len <= all => self.begin(header, spans),
                    _ if marks => self.emit(all, Kind::Silent, spans),
                    _ => self.emit(all, Kind::Text(Part::Content), spans),
                }
            }
            State::Message(part) => self.emit(all, Kind::Text(part), spans),
            State::Arguments(_)
            | State::Members(_)
            | State::Rest
            | State::Plain(..)
            | State::Value
            | State::Called => self.emit(all, Kind::Silent, spans),
        }
    }

    /// A call without arguments whose end the answer leaves out.
    fn last_head(&self) -> Option<Head> {
        let dialect = self.reading.dialect?;
        let Call::Named { end, .. } = &dialect.format().call else { return None };
        let ended = format!("{}{}", self.held, end.first().unwrap_or(&"."));
        let head = Head::read(dialect, &ended, &self.known()).ok()?;
        (head.len <= self.held.len()).then(|| Head { arguments: Some("{}".into()), ..head })
    }

    /// Emits a marker, or part of one, that does not start a call.
    fn no_call(&mut self, spans: &mut Vec<Span>) {
        match self.opens().iter().find(|open| self.held.starts_with(**open)) {
            Some(open) => {
                let hidden = self.hidden.contains(open);
                let kind = if hidden { Kind::Silent } else { Kind::Text(Part::Content) };
                self.emit(open.len(), kind, spans);
            }
            None => self.emit(self.held.len(), Kind::Text(Part::Content), spans),
        }
    }

    /// Emits the head of a call that starts after `open` bytes.
    fn call(&mut self, head: Head, open: usize, spans: &mut Vec<Span>) -> Progress {
        let Head { name, len, arguments } = head;
        let pairs = matches!(
            self.format().map(|format| &format.call),
            Some(Call::Named { arguments: Arguments::Pairs { .. }, .. })
        );
        self.state = match arguments {
            Some(_) => State::Called,
            None if pairs => State::Key(After::Head),
            None => State::Arguments(Scan::default()),
        };
        self.tool = self.reading.tools.iter().position(|tool| tool.name == name);
        let (index, arguments) = (self.calls, arguments.unwrap_or_default());
        self.calls += 1;
        self.emit(open + len, Kind::Call { index, name, arguments }, spans);
        Ok(())
    }

    /// The arguments of the last call.
    fn arguments(&self) -> Part {
        Part::Arguments(self.calls.saturating_sub(1))
    }

    /// Emits JSON of the arguments in place of the first bytes of the held text.
    fn emit_arguments(&mut self, len: usize, json: String, spans: &mut Vec<Span>) {
        let kind = Kind::Instead(self.arguments(), json);
        self.emit(len, kind, spans);
    }

    /// Emits the first bytes of the held text.
    fn emit(&mut self, len: usize, kind: Kind, spans: &mut Vec<Span>) {
        let surplus = match kind {
            Kind::Call { index, .. }
            | Kind::Escaped(index)
            | Kind::Text(Part::Arguments(index))
            | Kind::Instead(Part::Arguments(index), _) => self.reading.single && index > 0,
            _ => false,
        };
        let kind = if surplus { Kind::Silent } else { kind };
        self.held.drain(..len);
        self.emitted += len;
        match spans.last_mut() {
            Some(last) if last.kind == kind && !matches!(kind, Kind::Instead(..)) => {
                last.len += len
            }
            _ if len > 0 => spans.push(Span { len, kind }),
            _ => {}
        }
    }

    /// Number of bytes of white space at the start of the held text.
    fn lead(&self) -> usize {
        self.held.len() - self.held.trim_start().len()
    }

    fn known(&self) -> impl Fn(&str) -> bool {
        |name| self.reading.tools.iter().any(|tool| tool.name == name)
    }

    /// Parses the head of a call at `at`, its marker included.
    fn head(&self, at: usize) -> Result<Head, Halt> {
        let text = &self.held[at..];
        match self.reading.dialect {
            Some(dialect) => Head::read(dialect, text, &self.known()),
            None => Err(Halt::Wrong),
        }
    }

    fn format(&self) -> Option<&'static Format> {
        self.reading.dialect.map(Dialect::format)
    }

    /// Markers of which one is before a call.
    fn opens(&self) -> &'static [&'static str] {
        self.format().map_or(&[], |format| format.opens)
    }

    /// The first marker in the held text.
    fn find(&self) -> Found {
        let opens = self.opens();
        let markers = opens.iter().copied().chain(self.hidden.iter().copied());
        let found = markers.clone().filter_map(|marker| Some((self.held.find(marker)?, marker)));
        let undecided = markers.map(|marker| begun(&self.held, marker)).max().unwrap_or(0);
        match found.min_by_key(|(at, _)| *at) {
            Some((at, marker)) if opens.contains(&marker) => Found::Marker(at),
            Some((at, marker)) => Found::Hidden(at, marker.len()),
            None => Found::Nothing(self.held.len() - undecided),
        }
    }
}

/// The first match in the held text, and where.
enum Found {
    /// A marker of a call.
    Marker(usize),
    /// The name of a special token: its position and length in bytes.
    Hidden(usize, usize),
    /// No match before this position; undecided after it.
    Nothing(usize),
}

#[cfg(test)]
mod tests;
