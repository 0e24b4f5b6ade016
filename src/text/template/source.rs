//! Rewrites a template's source for minijinja, so that it means what it means to Jinja.
//!
//! Operators and slices become calls of [`OPERATE`] and [`SLICE`], which compute as Python does:
//! `a + b[1:]` becomes `_operate(a,'+',_slice(b,1,none,none))`. The tags `generation` and
//! `endgeneration`, which transformers adds, become a `with`. Line ends become `\n`.

use std::iter;

/// Function of an operand, and then an operator and an operand each.
pub const OPERATE: &str = "_operate";
/// Function of a value, start, stop and step.
pub const SLICE: &str = "_slice";

/// Deepest nesting of brackets in an expression.
const MAX_DEPTH: usize = 100;
const WORDS: [&str; 12] =
    ["and", "or", "not", "in", "is", "if", "else", "recursive", "with", "without", "context", "as"];
const COMPARISONS: [&str; 6] = ["==", "!=", "<", "<=", ">", ">="];

/// The source for minijinja, or what is wrong with it.
pub fn rewritten(source: &str) -> Result<String, String> {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = String::with_capacity(source.len() + source.len() / 2);
    let mut rest = source.as_str();
    while let Some(at) = rest.find('{') {
        let (text, tag) = rest.split_at(at);
        out.push_str(text);
        let kind = tag.get(..2).unwrap_or_default();
        rest = match kind {
            "{#" => {
                let end = tag[2..].find("#}").map_or(tag.len(), |end| end + 4);
                out.push_str(&tag[..end]);
                &tag[end..]
            }
            "{%" if let Some(end) = raw(tag) => {
                out.push_str(&tag[..end]);
                &tag[end..]
            }
            "{%" | "{{" => {
                let close = if kind == "{%" { "%}" } else { "}}" };
                let (tokens, end) = Token::list(tag, close)?;
                match block_name(&tokens).filter(|_| kind == "{%") {
                    Some("generation" | "endgeneration") => generation(&tag[..end], &mut out)?,
                    name => Rewriter::run(&tokens, name, &mut out)?,
                }
                &tag[end..]
            }
            _ => {
                out.push('{');
                &tag[1..]
            }
        };
    }
    out.push_str(rest);
    Ok(out)
}

/// The length of a whole raw block, if the tag begins one.
fn raw(tag: &str) -> Option<usize> {
    let named = |tag: &str, name: &str| {
        let rest = tag.strip_prefix("{%")?.trim_start_matches(['-', '+']).trim_start();
        let rest = rest.strip_prefix(name)?.trim_start().trim_start_matches(['-', '+']);
        Some(tag.len() - rest.strip_prefix("%}")?.len())
    };
    let start = named(tag, "raw")?;
    let ends = tag[start..].match_indices("{%").map(|(at, _)| start + at);
    let end = ends.into_iter().find_map(|at| Some(at + named(&tag[at..], "endraw")?));
    Some(end.unwrap_or(tag.len()))
}

/// A tag's name.
fn block_name<'a>(tokens: &[Token<'a>]) -> Option<&'a str> {
    tokens.iter().map(|token| token.text).find(|text| !matches!(*text, "{%" | "-" | "+"))
}

/// Replaces a tag of `generation` and keeps its marks of white space.
fn generation(tag: &str, out: &mut String) -> Result<(), String> {
    let inner = tag.trim_start_matches("{%").trim_end_matches("%}");
    let name = inner.trim_matches(['-', '+']).trim();
    let with = match name {
        "generation" => "with",
        "endgeneration" => "endwith",
        other => return Err(format!("found the tag {other:?}, expected \"generation\" alone")),
    };
    out.push_str(&tag.replacen(name, with, 1));
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Name,
    Number,
    Text,
    Sign,
}

/// A token with the white space before it.
#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    blank: &'a str,
    text: &'a str,
    kind: Kind,
}

impl<'a> Token<'a> {
    /// The tokens of a tag, its delimiters among them, and the tag's length.
    fn list(tag: &'a str, close: &str) -> Result<(Vec<Token<'a>>, usize), String> {
        let mut tokens = vec![Token { blank: "", text: &tag[..2], kind: Kind::Sign }];
        let (mut at, mut depth) = (2, 0_usize);
        loop {
            let blank = &tag[at..at + tag[at..].len() - tag[at..].trim_start().len()];
            at += blank.len();
            let rest = &tag[at..];
            if depth == 0 && rest.starts_with(close) {
                tokens.push(Token { blank, text: &rest[..2], kind: Kind::Sign });
                return Ok((tokens, at + 2));
            }
            let Some(first) = rest.chars().next() else {
                return Err(format!("found no end of a tag, expected {close:?}"));
            };
            let span = |is: &dyn Fn(char) -> bool| rest.find(|c| !is(c)).unwrap_or(rest.len());
            let (kind, len) = match first {
                '\'' | '"' => (Kind::Text, literal_len(rest, first)?),
                '0'..='9' => (Kind::Number, number_len(rest)),
                c if c.is_alphanumeric() || c == '_' => {
                    (Kind::Name, span(&|c| c.is_alphanumeric() || c == '_'))
                }
                c => {
                    let two = rest.get(..2).unwrap_or_default();
                    let pair = matches!(two, "**" | "//" | "==" | "!=" | "<=" | ">=");
                    match c {
                        '(' | '[' | '{' => depth += 1,
                        ')' | ']' | '}' => depth = depth.saturating_sub(1),
                        _ => {}
                    }
                    (Kind::Sign, if pair { 2 } else { c.len_utf8() })
                }
            };
            tokens.push(Token { blank, text: &rest[..len], kind });
            at += len;
        }
    }

    fn is(&self, text: &str) -> bool {
        self.kind != Kind::Text && self.text == text
    }

    fn starts_operand(&self) -> bool {
        match self.kind {
            Kind::Name => !WORDS.contains(&self.text),
            Kind::Number | Kind::Text => true,
            Kind::Sign => matches!(self.text, "(" | "[" | "{" | "-" | "+"),
        }
    }
}

/// The length of a quoted string, quotes included.
fn literal_len(rest: &str, quote: char) -> Result<usize, String> {
    let mut escaped = false;
    let end = rest[1..].find(|c| {
        let ends = c == quote && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    end.map(|end| end + 2).ok_or_else(|| "found no end of a quoted string".into())
}

fn number_len(rest: &str) -> usize {
    let digits = |from: usize| {
        let after = &rest[from..];
        from + after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len())
    };
    let radix = rest
        .get(..2)
        .is_some_and(|two| matches!(two.to_ascii_lowercase().as_str(), "0x" | "0b" | "0o"));
    let mut end = digits(0);
    let bytes = rest.as_bytes();
    if !radix {
        let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
        if bytes.get(end) == Some(&b'.') && digit(end + 1) {
            end = digits(end + 1);
        }
        let signed = matches!(bytes.get(end), Some(b'+' | b'-')) && digit(end + 1);
        if signed && bytes[end - 1].eq_ignore_ascii_case(&b'e') {
            end = digits(end + 1);
        }
    }
    end
}

/// Copies tokens, with operators and slices as calls.
struct Rewriter<'a, 't> {
    tokens: &'t [Token<'a>],
    at: usize,
    depth: usize,
    out: String,
}

impl<'a> Rewriter<'a, '_> {
    fn run(tokens: &[Token<'a>], name: Option<&str>, out: &mut String) -> Result<(), String> {
        let mut rewriter = Rewriter { tokens, at: 0, depth: 0, out: String::new() };
        rewriter.copy();
        while rewriter.peek().is_some_and(|token| token.is("-") || token.is("+"))
            && rewriter.tokens.get(rewriter.at - 1).is_some_and(|token| token.is(tokens[0].text))
            && rewriter.peek().is_some_and(|token| token.blank.is_empty())
        {
            rewriter.copy();
        }
        if let Some(name) = name {
            rewriter.copy();
            // What a loop assigns to is no comparison.
            while name == "for" && rewriter.peek().is_some_and(|token| !token.is("in")) {
                rewriter.copy();
            }
        }
        while rewriter.at + 1 < tokens.len() {
            rewriter.items()?;
            if rewriter.at + 1 < tokens.len() {
                rewriter.copy();
            }
        }
        rewriter.copy();
        out.push_str(&rewriter.out);
        Ok(())
    }

    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).copied()
    }

    fn next_is(&self, text: &str) -> bool {
        self.peek().is_some_and(|token| token.is(text))
    }

    /// Whether this `-` or `+` only trims or keeps white space at the tag's end.
    fn marks_end(&self) -> bool {
        self.at + 2 == self.tokens.len()
            && (self.next_is("-") || self.next_is("+"))
            && self.tokens[self.at + 1].blank.is_empty()
    }

    fn copy(&mut self) {
        if let Some(token) = self.peek() {
            self.out.push_str(token.blank);
            self.out.push_str(token.text);
            self.at += 1;
        }
    }

    /// Expressions and what stands between them, up to a closing bracket or the end.
    fn items(&mut self) -> Result<(), String> {
        while let Some(token) = self.peek()
            && self.at + 1 < self.tokens.len()
            && !matches!(token.text, ")" | "]" | "}")
        {
            match token.starts_operand() && !self.marks_end() {
                true => self.comparison()?,
                false => self.copy(),
            }
        }
        Ok(())
    }

    fn comparison(&mut self) -> Result<(), String> {
        self.chain(
            |this| {
                let token = this.peek()?;
                let next = this.tokens.get(this.at + 1);
                match token.text {
                    "in" if token.kind == Kind::Name => Some((1, "in")),
                    "not" if token.kind == Kind::Name && next.is_some_and(|next| next.is("in")) => {
                        Some((2, "not in"))
                    }
                    _ => this.sign(&COMPARISONS),
                }
            },
            Self::sum,
        )
    }

    fn sum(&mut self) -> Result<(), String> {
        self.chain(|this| this.sign(&["+", "-"]), Self::concatenation)
    }

    fn concatenation(&mut self) -> Result<(), String> {
        self.chain(|this| this.sign(&["~"]), Self::product)
    }

    fn product(&mut self) -> Result<(), String> {
        self.chain(|this| this.sign(&["*", "/", "//", "%"]), Self::power)
    }

    fn power(&mut self) -> Result<(), String> {
        self.chain(|this| this.sign(&["**"]), |this| this.unary(true))
    }

    /// The operator that comes next, if it is one of these.
    fn sign(&self, signs: &[&'static str]) -> Option<(usize, &'static str)> {
        let token = self.peek().filter(|token| token.kind == Kind::Sign && !self.marks_end())?;
        signs.iter().find(|sign| **sign == token.text).map(|sign| (1, *sign))
    }

    /// Operands with operators of one precedence between them, as a call.
    fn chain(
        &mut self,
        operator: impl Fn(&Self) -> Option<(usize, &'static str)>,
        operand: impl Fn(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        let start = self.start();
        operand(self)?;
        let mut any = false;
        while let Some((tokens, sign)) = operator(self) {
            self.at += tokens;
            self.out.push_str(&format!(",'{sign}',"));
            operand(self)?;
            any = true;
        }
        if any {
            self.out.insert_str(start, &format!("{OPERATE}("));
            self.out.push(')');
        }
        Ok(())
    }

    /// Writes the white space before the next token: where its expression starts.
    fn start(&mut self) -> usize {
        if let Some(token) = self.peek() {
            self.out.push_str(token.blank);
        }
        self.out.len()
    }

    fn unary(&mut self, filters: bool) -> Result<(), String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("its expressions are nested deeper than {MAX_DEPTH} levels"));
        }
        let start = self.start();
        match self.peek().filter(|token| token.is("-") || token.is("+")) {
            Some(sign) => {
                self.at += 1;
                self.out.push_str(if sign.is("-") { "(-" } else { "(0+" });
                self.unary(false)?;
                self.out.push(')');
            }
            None => self.primary()?,
        }
        self.postfix(start)?;
        if filters {
            self.filters()?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn primary(&mut self) -> Result<(), String> {
        let Some(token) = self.peek() else { return Ok(()) };
        match (token.kind, token.text) {
            (Kind::Text, _) => {
                let mut text = String::new();
                while let Some(part) = self.peek().filter(|token| token.kind == Kind::Text) {
                    unescape(&part.text[1..part.text.len() - 1], &mut text)?;
                    self.at += 1;
                }
                let text = text.replace('\\', "\\\\").replace('"', "\\\"");
                self.out.push_str(&format!("\"{text}\""));
            }
            (Kind::Sign, "(" | "[" | "{") => self.brackets()?,
            _ => self.copy(),
        }
        Ok(())
    }

    fn brackets(&mut self) -> Result<(), String> {
        self.copy();
        self.items()?;
        self.copy();
        Ok(())
    }

    /// Attributes, calls, items and slices; `start` is where the value they belong to begins.
    fn postfix(&mut self, start: usize) -> Result<(), String> {
        loop {
            if self.next_is(".") {
                self.copy();
                let cycles = self.next_is("cycle");
                self.copy();
                // minijinja panics without any.
                if cycles && self.next_is("(") {
                    let next = self.tokens.get(self.at + 1);
                    if next.is_some_and(|next| next.is(")") || next.is("*")) {
                        return Err("cycle() takes the values to choose from".into());
                    }
                }
            } else if self.next_is("(") {
                self.brackets()?;
            } else if self.next_is("[") {
                self.subscript(start)?;
            } else {
                return Ok(());
            }
        }
    }

    fn subscript(&mut self, start: usize) -> Result<(), String> {
        let open = self.out.len();
        self.copy();
        let mut parts = [false; 3];
        let mut part = 0;
        let mut cuts = vec![self.out.len()];
        while let Some(token) = self.peek()
            && self.at + 1 < self.tokens.len()
            && !matches!(token.text, ")" | "]" | "}")
        {
            if token.is(":") && part < 2 {
                self.at += 1;
                part += 1;
                cuts.push(self.out.len());
            } else {
                parts[part] = true;
                match token.starts_operand() {
                    true => self.comparison()?,
                    false => self.copy(),
                }
            }
        }
        if part == 0 {
            self.copy();
            return Ok(());
        }
        self.at += 1;
        cuts.push(self.out.len());
        let bounds = cuts.windows(2).map(|cut| self.out[cut[0]..cut[1]].to_owned());
        let bounds = bounds.chain(iter::repeat(String::new())).zip(parts).take(3);
        let bounds: Vec<String> =
            bounds.map(|(text, is)| if is { text } else { "none".into() }).collect();
        self.out.truncate(open);
        self.out.insert_str(start, &format!("{SLICE}("));
        self.out.push_str(&format!(",{})", bounds.join(",")));
        Ok(())
    }

    /// Filters, tests, and calls of what they give.
    fn filters(&mut self) -> Result<(), String> {
        loop {
            if self.next_is("|") {
                self.copy();
                self.dotted_name();
            } else if self.next_is("is") {
                self.copy();
                if self.next_is("not") {
                    self.copy();
                }
                self.dotted_name();
                let argument = self.peek().filter(|token| {
                    token.starts_operand() && !matches!(token.text, "(" | "-" | "+")
                });
                if argument.is_some() {
                    let start = self.start();
                    self.primary()?;
                    self.postfix(start)?;
                }
            } else if self.next_is("(") {
                self.brackets()?;
            } else {
                return Ok(());
            }
        }
    }

    fn dotted_name(&mut self) {
        self.copy();
        while self.next_is(".") {
            self.copy();
            self.copy();
        }
    }
}

/// Reads the escapes of a Python string.
fn unescape(quoted: &str, text: &mut String) -> Result<(), String> {
    let mut rest = quoted;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(escaped) = rest.chars().next() else { break };
        rest = &rest[escaped.len_utf8()..];
        let hexadecimal = match escaped {
            'x' => Some(2),
            'u' => Some(4),
            'U' => Some(8),
            _ => None,
        };
        if let Some(digits) = hexadecimal {
            let code = rest.get(..digits).and_then(|code| u32::from_str_radix(code, 16).ok());
            let c = code.and_then(char::from_u32);
            text.push(c.ok_or_else(|| format!("found \\{escaped} without a character's number"))?);
            rest = &rest[digits..];
            continue;
        }
        match escaped {
            '\n' => {}
            '\\' | '\'' | '"' => text.push(escaped),
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            'a' => text.push('\x07'),
            'b' => text.push('\x08'),
            'f' => text.push('\x0C'),
            'v' => text.push('\x0B'),
            '0'..='7' => {
                let octal = |c: char| c.is_digit(8);
                let more = rest.chars().take(2).take_while(|c| octal(*c)).count();
                let code = format!("{escaped}{}", &rest[..more]);
                text.extend(u32::from_str_radix(&code, 8).ok().and_then(char::from_u32));
                rest = &rest[more..];
            }
            _ => text.extend(['\\', escaped]),
        }
    }
    text.push_str(rest);
    Ok(())
}
