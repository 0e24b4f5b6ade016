//! Translates regular expressions from Oniguruma to ECMAScript with the flag `v`.
//!
//! Syntax: <https://github.com/kkos/oniguruma/blob/master/doc/RE>,
//! <https://tc39.es/ecma262/#sec-patterns>.

use tokenizers::Result;

/// Deepest nesting of groups and sets.
const MOST_DEPTH: usize = 64;

const WORD: &str = r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]";
const NO_WORD: &str = r"[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]";

/// An alternative that never matches. With it WebKit interprets the expression: what it compiles errs in back
/// references beyond Latin-1 (<https://bugs.webkit.org/show_bug.cgi?id=308046>).
const INTERPRETED: &str = "|(?<=a)(?<!a)";

/// Properties with long names; any other long name is a script.
const PROPERTIES: [&str; 14] = [
    "Alphabetic",
    "Any",
    "Emoji",
    "Letter",
    "Lowercase",
    "Lowercase_Letter",
    "Mark",
    "Number",
    "Punctuation",
    "Separator",
    "Symbol",
    "Uppercase",
    "Uppercase_Letter",
    "White_Space",
];

/// Translates an expression. Fails at features that JavaScript lacks or that are not implemented.
pub fn translate(pattern: &str) -> Result<String> {
    let mut translator =
        Translator { pattern, rest: pattern, ignores_case: false, atomic: 0, depth: 0 };
    let translated = translator.alternatives()?;
    match translator.next() {
        None if translator.atomic > 0 => Ok(translated + INTERPRETED),
        None => Ok(translated),
        Some(_) => translator.refuse("a ) without its ("),
    }
}

struct Translator<'a> {
    pattern: &'a str,
    /// The rest to translate.
    rest: &'a str,
    ignores_case: bool,
    /// Number of atomic groups so far.
    atomic: usize,
    depth: usize,
}

/// An element of a set: a character or a class.
enum Item {
    Char(char),
    Set(String),
}

impl Translator<'_> {
    /// Alternatives, up to the end of the group.
    fn alternatives(&mut self) -> Result<String> {
        let ignores_case = self.ignores_case;
        let mut all = String::new();
        while let Some(c) = self.peek().filter(|c| *c != ')') {
            if c == '|' {
                self.next();
                all.push('|');
            } else {
                all += &self.repeated()?;
            }
        }
        self.ignores_case = ignores_case;
        Ok(all)
    }

    /// An atom and its quantifier.
    fn repeated(&mut self) -> Result<String> {
        let mut atom = self.atom()?;
        let Some(count) = self.count() else { return Ok(atom) };
        atom += &count;
        if self.take("+") {
            return Ok(self.atomic_group(&atom));
        }
        if self.take("?") {
            atom.push('?');
        }
        Ok(atom)
    }

    /// A quantifier, if there is one; a brace that starts none is a literal.
    fn count(&mut self) -> Option<String> {
        if let Some(sign) = self.peek().filter(|c| "*+?".contains(*c)) {
            self.next();
            return Some(sign.into());
        }
        let (inner, rest) = self.rest.strip_prefix('{')?.split_once('}')?;
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let (least, most) = inner.split_once(',').unwrap_or((inner, ""));
        if !is_number(least) || !is_number(most) || inner.len() == usize::from(inner.contains(','))
        {
            return None;
        }
        self.rest = rest;
        let least = if least.is_empty() { "0" } else { least };
        let comma = if inner.contains(',') { "," } else { "" };
        Some(format!("{{{least}{comma}{most}}}"))
    }

    /// An atomic group, written as a lookahead with a back reference: a lookahead does not backtrack.
    fn atomic_group(&mut self, inner: &str) -> String {
        self.atomic += 1;
        let name = self.atomic;
        format!(r"(?:(?=(?<a{name}>{inner}))\k<a{name}>)")
    }

    fn atom(&mut self) -> Result<String> {
        match self.next() {
            Some('(') => self.deeper(Self::group),
            Some('[') => self.deeper(Self::set),
            Some('.') => Ok(r"[^\n]".into()),
            Some(c @ ('^' | '$')) => Ok(c.into()),
            Some('*' | '+' | '?') => self.refuse("a repetition of nothing"),
            Some('\\') => {
                let assertion = match self.peek() {
                    Some('A') => "^".into(),
                    Some('z') => "$".into(),
                    Some('Z') => r"(?=\n?$)".into(),
                    Some('b') => format!("(?:(?<={WORD})(?!{WORD})|(?<!{WORD})(?={WORD}))"),
                    Some('B') => format!("(?:(?<={WORD})(?={WORD})|(?<!{WORD})(?!{WORD}))"),
                    _ => {
                        return Ok(match self.escaped()? {
                            Item::Char(c) => self.literal(c),
                            Item::Set(set) => set,
                        });
                    }
                };
                self.next();
                Ok(assertion)
            }
            Some(c) => Ok(self.literal(c)),
            None => self.refuse("no atom where one is expected"),
        }
    }

    /// A group, after its `(`.
    fn group(&mut self) -> Result<String> {
        let mut begin = "(?:";
        let mut keeps = false;
        let outer = self.ignores_case;
        if self.take("?") {
            let ahead = ["?:", "?=", "?!", "?<=", "?<!"];
            if let Some(known) = ahead.into_iter().find(|known| self.take(&known[1..])) {
                begin = match known {
                    "?=" => "(?=",
                    "?!" => "(?!",
                    "?<=" => "(?<=",
                    "?<!" => "(?<!",
                    _ => begin,
                };
            } else if self.take(">") {
                keeps = true;
            } else if self.take("i)") {
                self.ignores_case = true;
                return Ok(String::new());
            } else if self.take("-i)") {
                self.ignores_case = false;
                return Ok(String::new());
            } else if self.take("i:") {
                self.ignores_case = true;
            } else if self.take("-i:") {
                self.ignores_case = false;
            } else {
                return self.refuse("a group of a kind");
            }
        }
        let inner = self.alternatives()?;
        self.ignores_case = outer;
        if !self.take(")") {
            return self.refuse("a ( without its )");
        }
        Ok(if keeps { self.atomic_group(&inner) } else { format!("{begin}{inner})") })
    }

    /// A set, after its `[`.
    fn set(&mut self) -> Result<String> {
        let not = if self.take("^") { "^" } else { "" };
        let mut parts = vec![String::new()];
        let mut first = true;
        loop {
            let part = parts.last_mut().expect("never empty");
            let item = match self.next() {
                None => return self.refuse("a [ without its ]"),
                Some(']') if !first => break,
                Some('[') if self.rest.starts_with(':') => return self.refuse("a POSIX bracket"),
                Some('[') => Item::Set(self.deeper(Self::set)?),
                Some('&') if self.take("&") => {
                    parts.push(String::new());
                    continue;
                }
                Some('\\') => self.escaped()?,
                Some(c) => Item::Char(c),
            };
            first = false;
            *part += &match item {
                Item::Set(set) => set,
                Item::Char(from) => match self.range_end()? {
                    Some(to) => self.range(from, to)?,
                    None => self.variants(from),
                },
            };
        }
        Ok(match parts.as_slice() {
            [part] => format!("[{not}{part}]"),
            _ => format!("[{not}[{}]]", parts.join("]&&[")),
        })
    }

    /// The end of a range after `-` in a set; `None` if the `-` is a literal.
    fn range_end(&mut self) -> Result<Option<char>> {
        let before = self.rest;
        if self.take("-") {
            let item = match self.next() {
                Some(']' | '[') | None => None,
                Some('\\') => Some(self.escaped()?),
                Some(c) => Some(Item::Char(c)),
            };
            if let Some(Item::Char(to)) = item {
                return Ok(Some(to));
            }
            self.rest = before;
        }
        Ok(None)
    }

    fn range(&self, from: char, to: char) -> Result<String> {
        let mut range = format!("{}-{}", quoted(from), quoted(to));
        if from > to {
            return self.refuse(&format!("the empty range {range}"));
        }
        if self.ignores_case {
            if !to.is_ascii() {
                return self.refuse(&format!("the range {range} in either case"));
            }
            let letters = (from..=to).filter(char::is_ascii_alphabetic);
            range.extend(letters.map(|c| self.variants(c)));
        }
        Ok(range)
    }

    /// An escape after its `\` that means the same inside and outside a set.
    fn escaped(&mut self) -> Result<Item> {
        let Some(c) = self.next() else { return self.refuse("a \\ at its end") };
        Ok(Item::Char(match c {
            'd' => return Ok(Item::Set(r"\p{Nd}".into())),
            'D' => return Ok(Item::Set(r"\P{Nd}".into())),
            's' => return Ok(Item::Set(r"\p{White_Space}".into())),
            'S' => return Ok(Item::Set(r"\P{White_Space}".into())),
            'w' => return Ok(Item::Set(WORD.into())),
            'W' => return Ok(Item::Set(NO_WORD.into())),
            'p' | 'P' => return self.property(c == 'P').map(Item::Set),
            'x' => self.code(2)?,
            'u' => self.code(4)?,
            'a' => '\x07',
            'e' => '\x1B',
            'f' => '\x0C',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0B',
            c if !c.is_ascii_alphanumeric() => c,
            c => return self.refuse(&format!("\\{c}")),
        }))
    }

    /// A property, after its `\p`.
    fn property(&mut self, not: bool) -> Result<String> {
        let (name, rest) = match self.rest.strip_prefix('{') {
            Some(braced) => braced.split_once('}').unwrap_or_default(),
            None => self.rest.split_at(self.peek().map_or(0, char::len_utf8)),
        };
        self.rest = rest;
        let (not, name) = match name.strip_prefix('^') {
            Some(name) => (!not, name),
            None => (not, name),
        };
        if name.is_empty()
            || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_=".contains(&byte))
        {
            return self.refuse("a property without a name");
        }
        let has_case = ["Lu", "Ll", "Lt", "Uppercase", "Lowercase"];
        if self.ignores_case && has_case.iter().any(|cased| name.starts_with(cased)) {
            return self.refuse(&format!("{name} in either case"));
        }
        let is_script = name.len() > 2 && !name.contains('=') && !PROPERTIES.contains(&name);
        let script = if is_script { "Script=" } else { "" };
        Ok(format!(r"\{}{{{script}{name}}}", if not { 'P' } else { 'p' }))
    }

    /// A character by its code, with this many hexadecimal digits or in braces.
    fn code(&mut self, digits: usize) -> Result<char> {
        let (code, rest) = match self.rest.strip_prefix('{') {
            Some(braced) => braced.split_once('}').unwrap_or_default(),
            None => self.rest.split_at_checked(digits).unwrap_or_default(),
        };
        self.rest = rest;
        match u32::from_str_radix(code, 16).ok().and_then(char::from_u32) {
            Some(c) => Ok(c),
            None => self.refuse(&format!("no character {code:?}")),
        }
    }

    fn literal(&self, c: char) -> String {
        if self.ignores_case { format!("[{}]", self.variants(c)) } else { quoted(c) }
    }

    /// The character; in both cases if the match is case-insensitive.
    fn variants(&self, c: char) -> String {
        let mut all = quoted(c);
        if self.ignores_case {
            let other = |mut chars: Box<dyn Iterator<Item = char>>| {
                chars.next().filter(|other| *other != c && chars.next().is_none())
            };
            all.extend(other(Box::new(c.to_lowercase())));
            all.extend(other(Box::new(c.to_uppercase())));
            all += match c {
                's' | 'S' => "\u{17F}",
                'k' | 'K' => "\u{212A}",
                _ => "",
            };
        }
        all
    }

    fn deeper<T>(&mut self, inner: fn(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == MOST_DEPTH {
            return self.refuse(&format!("groups more than {MOST_DEPTH} deep"));
        }
        self.depth += 1;
        let done = inner(self);
        self.depth -= 1;
        done
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next();
        self.rest = chars.as_str();
        next
    }

    /// Consumes a text if it comes next.
    fn take(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn refuse<T>(&self, found: &str) -> Result<T> {
        let at = self.pattern.len() - self.rest.len();
        Err(format!(
            "its regular expression {:?} has {found} that is not supported, before byte {at}",
            self.pattern
        )
        .into())
    }
}

/// A literal character, escaped for use inside and outside a set.
fn quoted(c: char) -> String {
    if c.is_ascii_alphanumeric() || !c.is_ascii() {
        c.into()
    } else {
        format!(r"\u{{{:x}}}", u32::from(c))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::translate;

    #[test]
    fn differences_are_translated() {
        for (pattern, expected) in [
            ("a|bc*", "a|bc*"),
            (r"(a)(?:b)(?=c)(?!d)(?<=e)(?<!f)", "(?:a)(?:b)(?=c)(?!d)(?<=e)(?<!f)"),
            (r"\s+(?!\S)", r"\p{White_Space}+(?!\P{White_Space})"),
            (r"[^\r\n\p{L}\pN]?", r"[^\u{d}\u{a}\p{L}\p{N}]?"),
            (r"\p{^Han}\P{Script=Thai}", r"\P{Script=Han}\P{Script=Thai}"),
            (r"\d{1,3}{", r"\p{Nd}{1,3}\u{7b}"),
            (r"a{,2}b{3}?c{x}", r"a{0,2}b{3}?c\u{7b}x\u{7d}"),
            ("(?i:'s)s", r"(?:[\u{27}][sSſ])s"),
            ("x(?i)[a-b]|y", r"x[a-baAbB]|[yY]"),
            ("a++b?+", r"(?:(?=(?<a1>a+))\k<a1>)(?:(?=(?<a2>b?))\k<a2>)|(?<=a)(?<!a)"),
            ("(?>a)*|b", r"(?:(?=(?<a1>a))\k<a1>)*|b|(?<=a)(?<!a)"),
            (r"[\p{L}&&[^a-c-]]", r"[[\p{L}]&&[[^a-c\u{2d}]]]"),
            (r"[]\-\]^-~一-龥\x{3041}-\u309F]", r"[\u{5d}\u{2d}\u{5d}\u{5e}-\u{7e}一-龥ぁ-ゟ]"),
            (r"\A.\z", r"^[^\n]$"),
        ] {
            assert_eq!(translate(pattern).unwrap(), expected, "{pattern}");
        }
    }

    #[test]
    fn unsupported_features_are_named() {
        for (pattern, named) in [
            ("(", "("),
            (")", ")"),
            ("[a", "["),
            ("*", "repetition"),
            ("a\\", "\\"),
            (r"(a)\1", r"\1"),
            (r"\G", r"\G"),
            (r"(?m)a", "kind"),
            ("[[:alpha:]]", "POSIX"),
            ("[b-a]", "b-a"),
            (r"\x{110000}", "110000"),
            (r"\p{", "property"),
            (r"(?i:\p{Lu})", "Lu"),
            (&"(".repeat(100), "64 deep"),
            (&"[".repeat(100), "64 deep"),
        ] {
            let error = translate(pattern).unwrap_err().to_string();
            assert!(error.contains(named), "{error} does not name {named}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_translated_or_refused(
            pattern in r"([a-z0-9é🙂]|[()\[\]{}|*+?^$.&:<>=!,-]|\\[a-zA-Z0-9]|\(\?|\\p\{|\[\^){0,40}",
        ) {
            match translate(&pattern) {
                Ok(translated) => prop_assert!(translated.len() <= 200 * pattern.len()),
                Err(error) => prop_assert!(error.to_string().contains("not supported")),
            }
        }
    }
}
