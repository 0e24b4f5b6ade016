//! Parses an answer's text into reasoning, content and tool calls.

use super::dialect::Dialect;
use super::head::{Halt, Head, overlap};

/// Markers around reasoning.
pub const THINK: [&str; 2] = ["<think>", "</think>"];

/// How to parse an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// The format of tool calls; `None` if there are none to find.
    pub dialect: Option<Dialect>,
    /// Names of the tools that may be called.
    pub tools: Vec<String>,
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
    Content,
    Reasoning,
    /// The head of a call; `arguments` are those in the head, the others follow in later spans.
    Call {
        index: usize,
        name: String,
        arguments: String,
    },
    /// Arguments of the call with this index.
    Arguments(usize),
    /// Markers and the text between them: not shown.
    Silent,
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
    /// In the arguments of a call.
    Arguments(Scan),
    /// After the arguments, in the rest of the call.
    Rest,
    Members(Scan),
    /// After a call.
    Called,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Since {
    Start,
    Thought,
    Call,
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
                let index = self.calls - 1;
                self.scan(scan, Kind::Arguments(index), State::Arguments, spans)
            }
            State::Members(scan) => self.scan(scan, Kind::Silent, State::Members, spans),
            State::Rest => self.rest(spans),
            State::Called => self.called(spans),
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
        if self.reading.dialect == Some(Dialect::Llama) && body.starts_with('{') {
            match self.head(lead) {
                Ok(head) => return self.call(head, lead, spans),
                Err(Halt::Short) => return Err(Halt::Short),
                Err(Halt::Wrong) => {}
            }
        }
        // White space before a call or after reasoning is not content.
        let quiet = match self.find() {
            Found::Marker(at) if at == lead => match self.head(lead + self.marker().len()) {
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
            Found::Marker(0) => {
                let open = self.marker().len();
                match self.head(open) {
                    Ok(head) => self.call(head, open, spans),
                    Err(Halt::Short) => Err(Halt::Short),
                    Err(Halt::Wrong) => {
                        self.no_call(spans);
                        Ok(())
                    }
                }
            }
            Found::Hidden(0, len) => {
                self.emit(len, Kind::Silent, spans);
                Ok(())
            }
            Found::Nothing(0) => Err(Halt::Short),
            Found::Marker(at) | Found::Hidden(at, _) | Found::Nothing(at) => {
                self.emit(at, Kind::Content, spans);
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
            self.emit(body, Kind::Reasoning, spans);
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
        let ends = match self.reading.dialect {
            Some(Dialect::MistralNamed) => State::Called,
            _ if kind == Kind::Silent => State::Called,
            _ => State::Rest,
        };
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

    /// After a call: its end marker, or the next call of the list.
    fn called(&mut self, spans: &mut Vec<Span>) -> Progress {
        let Some(dialect) = self.reading.dialect else { return Err(Halt::Short) };
        let lead = self.lead();
        let body = &self.held[lead..];
        let Some(first) = body.chars().next() else { return Err(Halt::Short) };
        let separates = match first {
            ',' => dialect.lists(),
            ';' => dialect == Dialect::Llama,
            _ => false,
        };
        if separates {
            let head = Head::next(&body[1..], &self.known());
            match head {
                Ok(head) => return self.call(head, lead + 1, spans),
                Err(Halt::Short) => return Err(Halt::Short),
                Err(Halt::Wrong) => {}
            }
        } else if first == ']' && dialect.lists() {
            self.emit(lead + 1, Kind::Silent, spans);
            return Ok(());
        } else if let Some(end) = dialect.end() {
            match overlap(body, end) {
                Ok(()) => self.emit(lead + end.len(), Kind::Silent, spans),
                Err(Halt::Short) => return Err(Halt::Short),
                Err(Halt::Wrong) => {}
            }
        }
        self.state = State::Blank(Since::Call);
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
                self.emit(lead, if silent { Kind::Silent } else { Kind::Content }, spans);
                self.state = State::Text;
            }
            State::Text => self.no_call(spans),
            State::Thought(_) => {
                let body = self.held.trim_end().len();
                self.emit(body, Kind::Reasoning, spans);
                self.emit(all - body, Kind::Silent, spans);
                self.thought = self.emitted;
            }
            State::Arguments(_) | State::Members(_) | State::Rest | State::Called => {
                self.emit(all, Kind::Silent, spans);
            }
        }
    }

    /// Emits a marker, or part of one, that does not start a call.
    fn no_call(&mut self, spans: &mut Vec<Span>) {
        let marker = self.marker();
        let hidden = self.hidden.contains(&marker);
        match !marker.is_empty() && self.held.starts_with(marker) {
            true => {
                let kind = if hidden { Kind::Silent } else { Kind::Content };
                self.emit(marker.len(), kind, spans);
            }
            false => self.emit(self.held.len(), Kind::Content, spans),
        }
    }

    /// Emits the head of a call that starts after `open` bytes.
    fn call(&mut self, head: Head, open: usize, spans: &mut Vec<Span>) -> Progress {
        let Head { name, len, arguments } = head;
        self.state = match arguments {
            None => State::Arguments(Scan::default()),
            Some(_) => State::Called,
        };
        let (index, arguments) = (self.calls, arguments.unwrap_or_default());
        self.calls += 1;
        self.emit(open + len, Kind::Call { index, name, arguments }, spans);
        Ok(())
    }

    /// Emits the first bytes of the held text.
    fn emit(&mut self, len: usize, kind: Kind, spans: &mut Vec<Span>) {
        let surplus = match kind {
            Kind::Call { index, .. } | Kind::Arguments(index) => self.reading.single && index > 0,
            _ => false,
        };
        let kind = if surplus { Kind::Silent } else { kind };
        self.held.drain(..len);
        self.emitted += len;
        match spans.last_mut() {
            Some(last) if last.kind == kind => last.len += len,
            _ if len > 0 => spans.push(Span { len, kind }),
            _ => {}
        }
    }

    /// Number of bytes of white space at the start of the held text.
    fn lead(&self) -> usize {
        self.held.len() - self.held.trim_start().len()
    }

    fn known(&self) -> impl Fn(&str) -> bool {
        |name| self.reading.tools.iter().any(|tool| tool == name)
    }

    /// Parses the head of a call at `at`.
    fn head(&self, at: usize) -> Result<Head, Halt> {
        let text = &self.held[at..];
        match self.reading.dialect {
            Some(dialect) => Head::read(dialect, text, &self.known()),
            None => Err(Halt::Wrong),
        }
    }

    fn marker(&self) -> &'static str {
        self.reading.dialect.map_or("", Dialect::marker)
    }

    /// The first marker in the held text.
    fn find(&self) -> Found {
        let markers = self.reading.dialect.map(Dialect::marker).into_iter();
        let markers = markers.chain(self.hidden.iter().copied());
        let found = markers.clone().filter_map(|marker| Some((self.held.find(marker)?, marker)));
        let undecided = markers.map(|marker| begun(&self.held, marker)).max().unwrap_or(0);
        match found.min_by_key(|(at, _)| *at) {
            Some((at, marker)) if marker == self.marker() => Found::Marker(at),
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DIALECTS: [Dialect; 5] =
        [Dialect::Hermes, Dialect::Llama, Dialect::Mistral, Dialect::MistralNamed, Dialect::Listed];

    fn reading(dialect: Dialect) -> Reading {
        let tools = vec!["get_time".into(), "add".into()];
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
            match kind {
                Kind::Content => whole.content += part,
                Kind::Reasoning => whole.reasoning += part,
                Kind::Call { index, name, arguments } => {
                    assert_eq!(index, whole.calls.len());
                    whole.calls.push((name, arguments));
                }
                Kind::Arguments(index) => {
                    assert_eq!(index + 1, whole.calls.len());
                    whole.calls[index].1 += part;
                }
                Kind::Silent => {}
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
        for dialect in DIALECTS {
            let marker = dialect.marker();
            for text in [
                format!("{marker}{odd}"),
                format!("{marker}[{odd}]"),
                format!("{marker} and so on"),
                format!("{marker}{{\"name\": \"add\", \"arguments\": 5}}"),
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
        assert_eq!(spans, [Span { len: 15, kind: Kind::Content }]);
    }

    #[test]
    fn only_one_call_counts_if_single() {
        let single = Reading { single: true, ..reading(Dialect::Hermes) };
        let call = r#"<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>"#;
        let found = read_all_ways(&single, &[call, call].join("\n"));
        assert_eq!(found.calls, [("add".into(), r#"{"a": 1}"#.into())]);
        assert_eq!(found.content, "");
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
                    "]", ",", ";", " ", "\n", "\"", "\\", "é", "x", "<", "12",
                ]),
                0..14,
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
            let tools = vec!["add".into()];
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
