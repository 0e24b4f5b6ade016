//! Parses an answer's text into reasoning, content and tool calls.

use super::dialect::{Arguments, Call, Dialect, Format, Notation};
use super::harmony::{Body, ENDS, Header};
use super::head::{Cursor, Halt, Head, overlap};
use super::values::{Types, escaped, literal};
use crate::api::Tool;

/// Markers around reasoning.
pub const THINK: [&str; 2] = ["<think>", "</think>"];

/// The mark before and after text that is taken as it is, in a value between tags.
const VERBATIM: [&str; 2] = ["<![CDATA[", "]]>"];

/// Between two messages of the same kind in an answer of several.
const GAP: &str = "\n\n";

/// How to parse an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// The format of tool calls; `None` if there are none to find. gpt-oss's is one of all answers.
    pub dialect: Option<Dialect>,
    /// The tools that may be called.
    pub tools: Vec<Tool>,
    /// Whether only the first call counts.
    pub single: bool,
    pub thinking: Thinking,
    /// Special tokens that are markers: they appear in the text here, though not elsewhere.
    pub markers: Vec<(u32, &'static str)>,
    /// Whether the answer continues an existing text.
    pub continues: bool,
}

/// Whether an answer starts with reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Thinking {
    #[default]
    Never,
    /// If it starts with the marker.
    Possible,
    /// The prompt ends with the marker.
    Begun,
    /// The prompt ends in the middle of the reasoning.
    Amid,
}

/// A part of the text. All spans together, in order, are the text.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Its length in bytes.
    pub len: usize,
    pub kind: Kind,
}

/// The kind of a span.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Text of this part of the answer.
    Text(Part),
    /// Text of an argument of the call with this index, for the inside of a JSON string.
    Escaped(usize),
    /// The span stands for this text.
    Instead(Part, String),
    /// The head of a call; `arguments` are those in the head, the others follow in later spans.
    Call { index: usize, name: String, arguments: String },
    /// Markers and the text between them: not shown.
    Silent,
}

/// A part of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Content,
    Reasoning,
    /// Arguments of the call with this index.
    Arguments(usize),
}

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

/// The state of a scan through a JSON value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Scan {
    depth: usize,
    in_string: bool,
    escaped: bool,
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

    /// Between two arguments: the next key, or the end of the call.
    fn key(&mut self, after: After, spans: &mut Vec<Span>) -> Progress {
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
                    if cursor.peek(VERBATIM[1])? {
                        cursor.expect(VERBATIM[1])?;
                    }
                    cursor.expect(value[1].trim())?;
                }
                After::Value => cursor.expect(last(value[1].trim()))?,
            }
            cursor.blank();
            if matches!(notation, Notation::Literal(_))
                && after != After::Head
                && cursor.peek(",")?
            {
                cursor.expect(",")?;
                cursor.blank();
            }
            let end = end.first().unwrap_or(&"");
            if cursor.peek(end)? {
                cursor.expect(end)?;
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
    fn plain(&mut self, seen: bool, verbatim: bool, spans: &mut Vec<Span>) -> Progress {
        let [before, after] = self.around_value();
        // A line break after the opening tag and one before the closing one are no part of it.
        let pads = before.starts_with('\n') && !verbatim;
        if !seen {
            let mut cursor = Cursor { text: &self.held, at: 0 };
            if pads && cursor.peek("\n")? {
                cursor.expect("\n")?;
            }
            let verbatim = cursor.peek(VERBATIM[0])?;
            if verbatim {
                cursor.expect(VERBATIM[0])?;
            }
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
    fn value(&mut self, spans: &mut Vec<Span>) -> Progress {
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

    /// The header of a message.
    fn header(&mut self, spans: &mut Vec<Span>) -> Progress {
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
    fn begin(&mut self, header: Header, spans: &mut Vec<Span>) {
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
    fn message(&mut self, part: Part, spans: &mut Vec<Span>) -> Progress {
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

impl Scan {
    /// Advances by a character; false if it is invalid in JSON here.
    fn takes(&mut self, c: char) -> bool {
        if self.in_string {
            match c {
                '"' if !self.escaped => self.in_string = false,
                _ => {}
            }
            self.escaped = c == '\\' && !self.escaped;
            return true;
        }
        match c {
            '"' => self.in_string = true,
            '{' | '[' => self.depth += 1,
            '}' | ']' => self.depth = self.depth.saturating_sub(1),
            _ => return !matches!(c, '<' | ';'),
        }
        true
    }
}

/// Length of the longest suffix of the text that is a proper prefix of the marker.
fn begun(text: &str, marker: &str) -> usize {
    let mut cuts = marker.char_indices().map(|(at, _)| at).rev();
    cuts.find(|&cut| text.ends_with(&marker[..cut])).unwrap_or(0)
}

/// The last character of a text, empty if it has none.
fn last(text: &str) -> &str {
    text.char_indices().last().map_or("", |(at, _)| &text[at..])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const DIALECTS: [Dialect; 15] = [
        Dialect::Hermes,
        Dialect::Llama,
        Dialect::Mistral,
        Dialect::MistralNamed,
        Dialect::Listed,
        Dialect::Tagged,
        Dialect::Parameters,
        Dialect::Params,
        Dialect::ArgKeys,
        Dialect::Functions,
        Dialect::DeepSeek,
        Dialect::DeepSeekBlock,
        Dialect::Python,
        Dialect::Gemma,
        Dialect::Harmony,
    ];

    fn tool(name: &str) -> Tool {
        let parameters = json!({
            "type": "object",
            "properties": {
                "text": { "type": "string" },
                "count": { "type": "integer" },
                "whether": { "type": "boolean" },
                "list": { "type": "array", "items": { "type": "number" } },
                "maybe": { "anyOf": [{ "type": "string" }, { "type": "null" }] },
                "mode": { "$ref": "#/$defs/Mode" },
            },
            "$defs": { "Mode": { "enum": ["1", "fast"] } },
        });
        let parameters = parameters.as_object().cloned();
        Tool {
            name: name.into(),
            description: None,
            parameters,
            strict: false,
            enforceable: true,
            callable: true,
        }
    }

    fn reading(dialect: Dialect) -> Reading {
        let tools = vec![tool("get_time"), tool("add")];
        Reading { dialect: Some(dialect), tools, ..Reading::default() }
    }

    fn thinking(thinking: Thinking) -> Reading {
        Reading { thinking, ..Reading::default() }
    }

    /// An answer's content, reasoning and calls.
    #[derive(Debug, Default, PartialEq)]
    struct Whole {
        content: String,
        reasoning: String,
        calls: Vec<(String, String)>,
        /// Bytes of reasoning.
        thought: usize,
    }

    /// Parses a text in pieces; all spans together must be the text.
    fn read(reading: &Reading, pieces: &[&str]) -> Whole {
        let mut reader = Reader::new(reading.clone(), false);
        let mut spans: Vec<Span> = pieces.iter().flat_map(|piece| reader.push(piece)).collect();
        spans.extend(reader.finish());
        let text = pieces.concat();
        let mut whole = Whole { thought: reader.thought(), ..Whole::default() };
        let mut at = 0;
        for Span { len, kind } in spans {
            let part = &text[at..at + len];
            at += len;
            let (part_of, part) = match kind {
                Kind::Text(of) => (of, part.to_owned()),
                Kind::Escaped(index) => (Part::Arguments(index), escaped(part)),
                Kind::Instead(of, text) => (of, text),
                Kind::Call { index, name, arguments } => {
                    assert_eq!(index, whole.calls.len());
                    whole.calls.push((name, arguments));
                    continue;
                }
                Kind::Silent => continue,
            };
            match part_of {
                Part::Content => whole.content += &part,
                Part::Reasoning => whole.reasoning += &part,
                Part::Arguments(index) => {
                    assert_eq!(index + 1, whole.calls.len());
                    whole.calls[index].1 += &part;
                }
            }
        }
        assert_eq!(at, text.len(), "all of {text:?} is emitted");
        whole
    }

    /// Parses a text whole, with every single cut, and character by character; all must agree.
    fn read_all_ways(reading: &Reading, text: &str) -> Whole {
        let whole = read(reading, &[text]);
        for (cut, _) in text.char_indices() {
            assert_eq!(read(reading, &[&text[..cut], &text[cut..]]), whole, "cut at {cut}");
        }
        let characters: Vec<String> = text.chars().map(String::from).collect();
        let characters: Vec<&str> = characters.iter().map(String::as_str).collect();
        assert_eq!(read(reading, &characters), whole, "character by character");
        whole
    }

    #[test]
    fn calls_are_found_in_every_dialect() {
        let time = ("get_time", r#"{"zone": "a } \" ] <tool_call> é"}"#);
        let add = ("add", r#"{"of": [1, {"x": 2}]}"#);
        let json = |(name, arguments): (&str, &str)| {
            format!(r#"{{"name": "{name}", "arguments": {arguments}}}"#)
        };
        let parameters = |call| json(call).replace("arguments", "parameters");
        let (t, a) = (json(time), json(add));
        for (dialect, text, content, calls) in [
            (Dialect::Hermes, format!("<tool_call>\n{t}\n</tool_call>"), "", vec![time]),
            (
                Dialect::Hermes,
                format!("Wait.\n<tool_call>{t}</tool_call>\n<tool_call>\n{a}\n</tool_call>\n"),
                "Wait.\n",
                vec![time, add],
            ),
            (Dialect::Hermes, format!("<tool_call>\n{a}"), "", vec![add]),
            (Dialect::Hermes, format!("<tool_call>{a}</tool_call> Done."), " Done.", vec![add]),
            (Dialect::Llama, parameters(time), "", vec![time]),
            (Dialect::Llama, format!("<|python_tag|>{}", parameters(time)), "", vec![time]),
            (
                Dialect::Llama,
                format!("{}; {}", parameters(time), parameters(add)),
                "",
                vec![time, add],
            ),
            (Dialect::Llama, format!("It is {}", parameters(time)), "It is ", vec![]),
            (Dialect::Mistral, format!("[TOOL_CALLS][{t}, {a}]"), "", vec![time, add]),
            (Dialect::Mistral, format!(" [TOOL_CALLS] [{a}]"), "", vec![add]),
            (
                Dialect::MistralNamed,
                format!("Now [TOOL_CALLS]get_time[ARGS]{}", time.1),
                "Now ",
                vec![time],
            ),
            (
                Dialect::MistralNamed,
                format!(
                    "[TOOL_CALLS]add[CALL_ID]a1b2c3d4e[ARGS]{}[TOOL_CALLS]get_time[ARGS]{}",
                    add.1, time.1
                ),
                "",
                vec![add, time],
            ),
            (Dialect::Listed, format!("<|tool_call|>[{t}]<|/tool_call|>"), "", vec![time]),
            (Dialect::Listed, format!("<|tool_call|>[{t}, {a}]"), "", vec![time, add]),
        ] {
            let found = read_all_ways(&reading(dialect), &text);
            let expected: Vec<(String, String)> =
                calls.iter().map(|(name, json)| (name.to_string(), json.to_string())).collect();
            let kept = if calls.is_empty() { &text } else { content };
            assert_eq!((found.content.as_str(), found.calls), (kept, expected), "{text:?}");
        }
    }

    #[test]
    fn calls_with_other_key_orders_and_shapes_are_parsed() {
        for call in [
            r#"{"arguments": {"a": 1}, "name": "add"}"#,
            r#"{"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}"#,
            r#"{"id": "x", "name": "add", "arguments": "{\"a\":1}"}"#,
            r#"{"name": "add", "parameters": {"a": 1}, "id": "x"}"#,
        ] {
            let found =
                read_all_ways(&reading(Dialect::Hermes), &format!("<tool_call>{call}</tool_call>"));
            let [(name, arguments)] = &found.calls[..] else { panic!("{call}: {found:?}") };
            assert_eq!((name.as_str(), arguments.replace(' ', "").as_str()), ("add", r#"{"a":1}"#));
            assert_eq!(found.content, "");
        }
        let none = r#"<tool_call>{"name": "add"}</tool_call>"#;
        let found = read_all_ways(&reading(Dialect::Hermes), none);
        assert_eq!(found.calls, [("add".into(), "{}".into())]);
    }

    #[test]
    fn text_that_is_no_call_is_content() {
        let odd = r#"{"name": "unknown", "arguments": {"a": 1}}"#;
        for dialect in DIALECTS.into_iter().filter(|dialect| *dialect != Dialect::Harmony) {
            let marker = dialect.format().opens[0];
            for text in [
                format!("{marker}{odd}"),
                format!("{marker}[{odd}]"),
                format!("{marker} and so on"),
                format!("{marker}{{\"name\": \"add\", \"arguments\": 5}}"),
                format!("{marker}add and so on"),
                format!("{marker}{{\"name\": \"ad"),
                format!("  {marker}"),
                format!("1 {}", &marker[..marker.len() - 1]),
                odd.to_owned(),
                r#"{"sum": 3}"#.to_owned(),
                " \n".to_owned(),
                String::new(),
            ] {
                let found = read_all_ways(&reading(dialect), &text);
                assert_eq!((found.content, found.calls.len()), (text, 0), "{dialect:?}");
            }
        }
    }

    #[test]
    fn the_name_is_emitted_first_and_arguments_as_they_are_written() {
        let mut reader = Reader::new(reading(Dialect::Hermes), false);
        let text =
            r#"Hm <tool_call>{"name": "add", "arguments": {"a": 12, "b": "x y"}}</tool_call>"#;
        let mut held = 0;
        for (place, c) in text.char_indices() {
            held += c.len_utf8();
            held -= reader
                .push(&text[place..place + c.len_utf8()])
                .iter()
                .map(|s| s.len)
                .sum::<usize>();
            let free = [0..3, 44..text.len() - 13].iter().any(|part| part.contains(&place));
            assert!(!free || held == 0, "{} is held back", &text[..=place]);
        }
    }

    #[test]
    fn names_of_special_tokens_are_no_content() {
        let mut special = reading(Dialect::Mistral);
        special.markers = vec![(5, "[TOOL_CALLS]")];
        assert_eq!(read_all_ways(&special, "[TOOL_CALLS] no [TOOL_CA").content, " no [TOOL_CA");
        let mut reader = Reader::new(special, true);
        let spans = [reader.push("[TOOL_CALLS] no"), reader.finish()].concat();
        assert_eq!(spans, [Span { len: 15, kind: Kind::Text(Part::Content) }]);
    }

    #[test]
    fn only_one_call_counts_if_single() {
        let single = Reading { single: true, ..reading(Dialect::Hermes) };
        let call = r#"<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>"#;
        let found = read_all_ways(&single, &[call, call].join("\n"));
        assert_eq!(found.calls, [("add".into(), r#"{"a": 1}"#.into())]);
        assert_eq!(found.content, "");
    }

    /// One call's name and arguments.
    fn called(dialect: Dialect, text: &str) -> (String, serde_json::Value) {
        let found = read_all_ways(&reading(dialect), text);
        let [(name, arguments)] = &found.calls[..] else { panic!("{text}: {found:?}") };
        let arguments = serde_json::from_str(arguments);
        let arguments = arguments.unwrap_or_else(|error| panic!("{text}: {error}: {found:?}"));
        assert_eq!(found.content, "", "{text}");
        (name.clone(), arguments)
    }

    #[test]
    fn values_have_the_types_of_the_tool_s_schema() {
        let expected = json!({
            "text": "12\n\"x\" </b>\n", "count": 12, "whether": true, "list": [1, 2.5], "maybe": "12",
            "mode": "1", "other": { "a": null }, "word": "so",
        });
        let parameters = "<tool_call>\n<function=add>\n\
            <parameter=text>\n12\n\"x\" </b>\n\n</parameter>\n<parameter=count>\n12\n</parameter>\n\
            <parameter=whether>\nTrue\n</parameter>\n<parameter=list>\n[1, 2.5]\n</parameter>\n\
            <parameter=maybe>\n12\n</parameter>\n<parameter=mode>\n1\n</parameter>\n\
            <parameter=other>\n{\"a\": null}\n</parameter>\n<parameter=word>\nso\n</parameter>\n\
            </function>\n</tool_call>";
        let keys = "<tool_call>add\n<arg_key>text</arg_key>\n<arg_value>12\n\"x\" </b>\n</arg_value>\n\
            <arg_key>count</arg_key><arg_value>12</arg_value><arg_key>whether</arg_key>\
            <arg_value>true</arg_value><arg_key>list</arg_key><arg_value>[1, 2.5]</arg_value>\
            <arg_key>maybe</arg_key><arg_value>12</arg_value><arg_key>mode</arg_key>\
            <arg_value>1</arg_value><arg_key>other</arg_key><arg_value>{\"a\": null}</arg_value>\
            <arg_key>word</arg_key><arg_value>so</arg_value></tool_call>";
        let xml = "<function name=\"add\"><param name=\"text\"><![CDATA[12\n\"x\" </b>\n]]></param>\
            <param name=\"count\">12</param><param name=\"whether\">True</param>\
            <param name=\"list\"><![CDATA[[1, 2.5]]]></param><param name=\"maybe\">12</param>\
            <param name=\"mode\">1</param><param name=\"other\">{'a': None}</param>\
            <param name=\"word\">so</param></function>";
        let python = "<|tool_call_start|>[add(text='12\\n\"x\" </b>\\n', count=12, whether=True, \
            list=(1, 2.5), maybe=\"12\", mode='1', other={'a': None}, word='so')]<|tool_call_end|>";
        let gemma = "<|tool_call>call:add{text:<|\"|>12\n\"x\" </b>\n<|\"|>,count:12,whether:true,\
            list:[1,2.5],maybe:<|\"|>12<|\"|>,mode:<|\"|>1<|\"|>,other:{a:null},word:<|\"|>so<|\"|>}<tool_call|>";
        for (dialect, text) in [
            (Dialect::Parameters, parameters),
            (Dialect::ArgKeys, keys),
            (Dialect::Params, xml),
            (Dialect::Python, python),
            (Dialect::Gemma, gemma),
        ] {
            assert_eq!(called(dialect, text), ("add".into(), expected.clone()), "{dialect:?}");
        }
    }

    #[test]
    fn calls_that_leave_out_what_is_plain_are_calls() {
        for (dialect, text) in [
            (Dialect::Hermes, r#"<tool_call>{"name": "add", "arguments": ""}</tool_call>"#),
            (Dialect::Hermes, r#"<tool_call>{"name": "add", "arguments": null}</tool_call>"#),
            (Dialect::Hermes, r#"<tool_call>{"name": "add", "arguments": "{}"}</tool_call>"#),
            (Dialect::Hermes, r#"<tool_call>{"name": "add", "arguments": {}}}</tool_call>"#),
            (Dialect::Hermes, r#"<tool_call>[{"name": "add", "parameters": {}}]</tool_call>"#),
            (Dialect::Hermes, r#"<tool_call>{"name": "add", "arguments": {}</tool_call>"#),
            (Dialect::Llama, r#"{"name": "add"}"#),
            (Dialect::Llama, r#"{"name": "add", "parameters": {}}}"#),
            (Dialect::Mistral, r#"[TOOL_CALLS][{"name": "add", "arguments": null}]"#),
            (Dialect::MistralNamed, "[TOOL_CALLS]add[ARGS]"),
            (Dialect::MistralNamed, "[TOOL_CALLS]add[ARGS]{}}"),
            (Dialect::Listed, r#"functools[{"name": "add", "arguments": {}}]"#),
            (Dialect::Tagged, r#"<TOOLCALL>[{"name": "add", "arguments": {}}]</TOOLCALL>"#),
            (Dialect::Parameters, "<function=add></function>"),
            (Dialect::Parameters, "<tool_call><function=add>"),
            (Dialect::Params, "<function name=\"add\"></function>"),
            (Dialect::ArgKeys, "<tool_call>add</tool_call>"),
            (Dialect::ArgKeys, "<tool_call>add"),
            (Dialect::Functions, "<function=add>{}</function>"),
            (Dialect::Python, "<|tool_call_start|>[add()]<|tool_call_end|>"),
            (Dialect::Gemma, "<|tool_call>call:add{}<tool_call|>"),
            (Dialect::Harmony, " to=functions.add<|channel|>commentary json<|message|>"),
            (
                Dialect::Harmony,
                "<|channel|>commentary to=functions.add <|constrain|>json<|message|><|call|>",
            ),
        ] {
            assert_eq!(called(dialect, text), ("add".into(), json!({})), "{text}");
        }
        let ended = "<tool_call>\n<function=add>\n<parameter=text>\na\n</parameter>";
        assert_eq!(called(Dialect::Parameters, ended).1, json!({ "text": "a" }));
        let ended = "<tool_call>\n<function=add>\n<parameter=count>\n5\n</parameter>";
        assert_eq!(called(Dialect::Parameters, ended).1, json!({ "count": 5 }));
    }

    #[test]
    fn several_calls_in_one_tag_are_all_calls() {
        let call = r#"{"name": "add", "arguments": {"a": 1}}"#;
        for text in [
            format!("<tool_call>{call}\n{call}</tool_call>"),
            format!("<tool_call>\n{call}, {call}\n</tool_call>"),
            format!("<tool_call>[{call}, {call}]</tool_call>"),
        ] {
            let found = read_all_ways(&reading(Dialect::Hermes), &text);
            let one = ("add".to_owned(), r#"{"a": 1}"#.to_owned());
            assert_eq!(
                (found.content.as_str(), found.calls),
                ("", vec![one.clone(), one]),
                "{text}"
            );
        }
    }

    #[test]
    fn messages_of_an_answer_are_told_apart_by_their_channels() {
        let analysis = "<|channel|>analysis<|message|>Hm.<|end|>";
        let next = "<|start|>assistant";
        for (text, reasoning, content, calls) in [
            (
                format!("{analysis}{next}<|channel|>final<|message|>Hello!<|return|>"),
                "Hm.",
                "Hello!",
                vec![],
            ),
            (format!("{analysis}{next}<|channel|>final<|message|>Hello!"), "Hm.", "Hello!", vec![]),
            (
                format!(
                    "{analysis}{next}<|channel|>commentary<|message|>I look.<|end|>{next}<|channel|>\
                     commentary to=functions.add <|constrain|>json<|message|>{{\"a\": 1}}<|call|>"
                ),
                "Hm.",
                "I look.",
                vec![("add", "{\"a\": 1}")],
            ),
            (
                format!(
                    "{analysis}{next} to=functions.add<|channel|>commentary json<|message|>{{}}"
                ),
                "Hm.",
                "",
                vec![("add", "{}")],
            ),
            (
                format!("{analysis}{next}{analysis}{next}<|channel|>final<|message|>A <b> <|"),
                "Hm.\n\nHm.",
                "A <b> <|",
                vec![],
            ),
            ("<|channel|>final<|message|>".into(), "", "", vec![]),
            ("<|channel|>final".into(), "", "", vec![]),
            ("Hello <b>".into(), "", "Hello <b>", vec![]),
            (" t".into(), "", " t", vec![]),
            ("<|channel|>commentary to=functions.unknown<|message|>{}".into(), "", "{}", vec![]),
            ("<|channel|>analysis to=python code<|message|>1+1<|call|>".into(), "1+1", "", vec![]),
        ] {
            let found = read_all_ways(&reading(Dialect::Harmony), &text);
            let expected: Vec<_> =
                calls.iter().map(|(name, json)| (name.to_string(), json.to_string())).collect();
            assert_eq!(
                (found.reasoning.as_str(), found.content.as_str()),
                (reasoning, content),
                "{text}"
            );
            assert_eq!(found.calls, expected, "{text}");
        }
        let continues = Reading { continues: true, ..reading(Dialect::Harmony) };
        assert_eq!(read_all_ways(&continues, "llo!<|return|>").content, "llo!");
    }

    #[test]
    fn strings_without_quotes_are_emitted_as_they_are_written() {
        let mut reader = Reader::new(reading(Dialect::Parameters), false);
        reader.push("<tool_call>\n<function=add>\n<parameter=text>\nSo ");
        let spans = reader.push("one \"two\"");
        assert_eq!(spans, [Span { len: 9, kind: Kind::Escaped(0) }]);
    }

    #[test]
    fn broken_arguments_end_with_their_call() {
        let text =
            "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": {\"b\": 1}\n</tool_call>\nSo.";
        let found = read_all_ways(&reading(Dialect::Hermes), text);
        assert_eq!(found.calls, [("add".into(), "{\"a\": {\"b\": 1}\n".into())]);
        assert_eq!(found.content, "\nSo.");
    }

    #[test]
    fn reasoning_is_separated_from_content() {
        for (how, text, reasoning, content) in [
            (Thinking::Possible, "<think>\nHm. \n\nSo?\n</think>\n\nYes.", "Hm. \n\nSo?", "Yes."),
            (Thinking::Possible, " \n<think></think>Yes", "", "Yes"),
            (Thinking::Possible, "<think>On and ", "On and", ""),
            (Thinking::Possible, "<thin ice", "", "<thin ice"),
            (Thinking::Possible, "No <think>", "", "No <think>"),
            (Thinking::Begun, "\nHm.</think> Yes </think>", "Hm.", "Yes </think>"),
            (Thinking::Begun, "Hm </thin", "Hm </thin", ""),
            (Thinking::Amid, " so</think>Yes", " so", "Yes"),
            (Thinking::Never, "<think>Hm</think>", "", "<think>Hm</think>"),
        ] {
            let found = read_all_ways(&thinking(how), text);
            assert_eq!((found.reasoning.as_str(), found.content.as_str()), (reasoning, content));
            let ends = text.find("</think>").map(|at| at + 8);
            let expected = match how {
                Thinking::Never => 0,
                _ if reasoning.is_empty() && ends.is_none() => 0,
                _ if text.starts_with("No") => 0,
                _ => ends.unwrap_or(text.len()),
            };
            assert_eq!(found.thought, expected, "{text:?}");
        }
        let both = Reading { thinking: Thinking::Begun, ..reading(Dialect::Llama) };
        let found = read_all_ways(&both, "Add.</think>\n{\"name\": \"add\", \"parameters\": {}}");
        assert_eq!((found.reasoning.as_str(), found.content.as_str()), ("Add.", ""));
        assert_eq!(found.calls, [("add".into(), "{}".into())]);
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "<tool_call>", "</tool_call>", "<|python_tag|>", "[TOOL_CALLS]", "[ARGS]",
                    "[CALL_ID]", "<|tool_call|>", "<|/tool_call|>", "<think>", "</think>", "add",
                    r#"{"name": "add", "arguments": "#, r#"{"name": "add", "parameters": "#,
                    r#"{"a": 1}"#, r#"{"arguments": {}, "name": "add"}"#, r#"{"name""#, "{", "}", "[",
                    "<function=", "<parameter=", ">", "</parameter>", "</function>", "text", "count", "5",
                    "<function name=\"", "<param name=\"", "\">", "</param>", "<![CDATA[", "]]>",
                    "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "functools", "<tool_calls>",
                    "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "function", "```json", "```",
                    "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>", "<|tool_call_start|>", "<|tool_call_end|>",
                    "(", ")", "=", "'", "<|tool_call>", "call:", ":", "<|\"|>", "<tool_call|>",
                    "<|start|>assistant", "<|channel|>", "analysis", "final", "commentary", " to=functions.add",
                    "<|message|>", "<|end|>", "<|constrain|>", "<|call|>", "]", ",", ";", " ", "\n", "\"", "\\", "é", "x", "<", "12",
                ]),
                0..16,
            ),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
            dialect in prop::option::of(prop::sample::select(DIALECTS.to_vec())),
            thinking in prop::sample::select(vec![
                Thinking::Never, Thinking::Possible, Thinking::Begun, Thinking::Amid,
            ]),
            (hides, continues, single) in any::<(bool, bool, bool)>(),
        ) {
            let text = parts.concat();
            let markers = dialect.into_iter().flat_map(Dialect::markers).chain(THINK);
            let markers = markers.filter(|_| hides).map(|name| (7, name)).collect();
            let tools = vec![tool("add")];
            let reading = Reading { dialect, tools, single, thinking, markers, continues };
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            cuts.retain(|cut| text.is_char_boundary(*cut));
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&str> = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect();
            prop_assert_eq!(read(&reading, &pieces), read(&reading, &[&text]));
        }
    }
}
