//! Which file of a crate names what of which other, by the crate's source.

use std::collections::{BTreeMap, HashMap, HashSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::cycles::Graph;

/// A crate's modules as its files declare them, tests left out.
struct Crate<'a> {
    sources: &'a BTreeMap<String, String>,
    modules: Vec<Module>,
}

/// A module, and what stands for what in it.
#[derive(Default)]
struct Module {
    file: String,
    folder: String, // where the modules that it declares have their files
    parent: usize,
    children: HashMap<String, usize>,
    items: HashSet<String>,
    imports: HashMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    named: Vec<Vec<String>>, // the paths in its code and of what it imports
}

enum Thing {
    Module(usize),
    Item { owner: usize, name: String },
}

/// Who names what of whom in the crate whose root is the file `root`; `sources` by path. A module
/// does not name what it only re-exports (`pub use`), and who takes it there names its own file.
pub fn read(root: &str, sources: &BTreeMap<String, String>) -> Graph {
    let mut read = Crate { sources, modules: Vec::new() };
    read.file(root.to_owned(), 0);
    let mut graph = Graph::new();
    for (at, module) in read.modules.iter().enumerate() {
        let others = graph.entry(module.file.clone()).or_default();
        for path in &module.named {
            let Some(Thing::Item { owner, name }) = read.find(at, path, 0) else { continue };
            let owner = &read.modules[owner].file;
            if *owner != module.file {
                others.entry(owner.clone()).or_default().insert(name);
            }
        }
    }
    graph
}

impl Crate<'_> {
    fn file(&mut self, file: String, parent: usize) -> usize {
        let tokens = self.sources[&file].parse().unwrap_or_else(|error| panic!("{file}: {error}"));
        let (folder, name) = file.rsplit_once('/').unwrap();
        let is_root = ["lib.rs", "main.rs", "mod.rs"].contains(&name);
        let folder = if is_root { folder } else { file.trim_end_matches(".rs") }.to_owned();
        self.module(Module { file, folder, parent, ..Module::default() }, tokens)
    }

    fn module(&mut self, module: Module, tokens: TokenStream) -> usize {
        let at = self.modules.len();
        self.modules.push(module);
        self.tokens(at, tokens, true);
        at
    }

    /// Reads the items of module `at`, or what stands within one of them.
    fn tokens(&mut self, at: usize, tokens: TokenStream, are_items: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut i = 0;
        while i < tokens.len() {
            let (word, next) = (word(&tokens, i), self::word(&tokens, i + 1));
            match word.as_str() {
                "#" if next == "[" && is_for_tests(&tokens[i + 1]) => i = end_of_item(&tokens, i),
                "#" if next == "[" => i += 1, // names in attributes are not those of items
                "use" if next != "<" => {
                    let end = (i..).find(|end| self::word(&tokens, *end) == ";").unwrap();
                    let public =
                        (1..=2).any(|back| i >= back && self::word(&tokens, i - back) == "pub");
                    self.import(at, Vec::new(), &tokens[i + 1..end], public);
                    i = end;
                }
                "mod" if are_items => {
                    self.child(at, next, &tokens[i + 2]);
                    i += 2;
                }
                "fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static"
                    if are_items =>
                {
                    self.modules[at].items.insert(next);
                }
                _ => match &tokens[i] {
                    TokenTree::Group(group) => self.tokens(at, group.stream(), false),
                    TokenTree::Ident(_) if begins_path(&tokens, i) => {
                        self.modules[at].named.push(path(&tokens, i));
                    }
                    _ => {}
                },
            }
            i += 1;
        }
    }

    /// `mod name { body }` or `mod name;`, whose file may lie outside of the crate's folder.
    fn child(&mut self, at: usize, name: String, body: &TokenTree) {
        let Module { file, folder, .. } = &self.modules[at];
        let (file, folder) = (file.clone(), format!("{folder}/{name}"));
        let child = if let TokenTree::Group(body) = body {
            let module = Module { file, folder, parent: at, ..Module::default() };
            self.module(module, body.stream())
        } else {
            let files = [format!("{folder}.rs"), format!("{folder}/mod.rs")];
            let file = files.into_iter().find(|file| self.sources.contains_key(file));
            let Some(file) = file else { return };
            self.file(file, at)
        };
        self.modules[at].children.insert(name, child);
    }

    /// One tree of an import, whose path begins with `path`.
    fn import(&mut self, at: usize, mut path: Vec<String>, tree: &[TokenTree], public: bool) {
        let mut alias = None;
        for (i, token) in tree.iter().enumerate() {
            match word(tree, i).as_str() {
                "as" => {
                    alias = Some(word(tree, i + 1));
                    break;
                }
                "{" => {
                    let TokenTree::Group(group) = token else { unreachable!() };
                    let trees: Vec<TokenTree> = group.stream().into_iter().collect();
                    for tree in trees.split(|token| token.to_string() == ",") {
                        self.import(at, path.clone(), tree, public);
                    }
                    return;
                }
                ":" => {}
                name => path.push(name.to_owned()),
            }
        }
        if path.len() > 1 {
            path.pop_if(|last| last == "self");
        }
        let Some(last) = path.last().cloned() else { return }; // after a trailing comma
        let module = &mut self.modules[at];
        if last == "*" {
            path.pop();
            module.globs.push(path.clone());
        } else {
            module.imports.insert(alias.unwrap_or(last), path.clone());
        }
        if !public {
            module.named.push(path);
        }
    }

    /// What `path` stands for in module `at`, unless that is another crate's or a local name.
    fn find(&self, at: usize, path: &[String], depth: usize) -> Option<Thing> {
        let (first, rest) = path.split_first()?;
        let mut found = match first.as_str() {
            "crate" => Thing::Module(0),
            "self" => Thing::Module(at),
            "super" => Thing::Module(self.modules[at].parent),
            name => self.member(at, name, !rest.is_empty(), depth)?,
        };
        for (i, name) in rest.iter().enumerate() {
            let Thing::Module(owner) = found else { break };
            found = match name.as_str() {
                "super" => Thing::Module(self.modules[owner].parent),
                name => self
                    .member(owner, name, i + 1 < rest.len(), depth)
                    .unwrap_or_else(|| Thing::Item { owner, name: name.to_owned() }), // made by a macro
            };
        }
        Some(found)
    }

    /// What `name` stands for in module `at`: a module rather than an item if more follows.
    fn member(&self, at: usize, name: &str, more: bool, depth: usize) -> Option<Thing> {
        let module = &self.modules[at];
        let child = module.children.get(name).map(|child| Thing::Module(*child));
        if more && child.is_some() {
            return child;
        }
        if module.items.contains(name) {
            return Some(Thing::Item { owner: at, name: name.to_owned() });
        }
        if depth > 8 {
            return child; // names that stand for each other end somewhere
        }
        let import = module.imports.get(name).and_then(|path| self.find(at, path, depth + 1));
        let glob = |path: &Vec<String>| match self.find(at, path, depth + 1)? {
            Thing::Module(whose) if whose != at => self.member(whose, name, more, depth + 1),
            _ => None,
        };
        import.or(child).or_else(|| module.globs.iter().find_map(glob))
    }
}

/// The token at `i`, a group as its first character; nothing behind the end.
fn word(tokens: &[TokenTree], i: usize) -> String {
    match tokens.get(i) {
        Some(TokenTree::Group(group)) => match group.delimiter() {
            Delimiter::Brace => "{".to_owned(),
            Delimiter::Bracket => "[".to_owned(),
            Delimiter::Parenthesis | Delimiter::None => "(".to_owned(),
        },
        Some(token) => token.to_string().trim_start_matches("r#").to_owned(),
        None => String::new(),
    }
}

/// Whether an attribute keeps its item to the crate's own tests.
fn is_for_tests(attribute: &TokenTree) -> bool {
    let attribute = attribute.to_string().replace(char::is_whitespace, "");
    attribute == "[cfg(test)]" || attribute.starts_with("[cfg(all(test,")
}

/// Where the item ends that begins at `start`, with its attributes.
fn end_of_item(tokens: &[TokenTree], start: usize) -> usize {
    (start..tokens.len()).find(|i| ["{", ";"].contains(&word(tokens, *i).as_str())).unwrap()
}

/// Whether the word at `i` is the first of a path, and not a field, a method or a lifetime.
fn begins_path(tokens: &[TokenTree], i: usize) -> bool {
    let before = |back: usize| if i < back { String::new() } else { word(tokens, i - back) };
    match before(1).as_str() {
        "." => before(2) == ".", // of a range
        ":" => before(2) != ":",
        "'" => false,
        _ => true,
    }
}

/// The path that begins at `i`.
fn path(tokens: &[TokenTree], mut i: usize) -> Vec<String> {
    let mut path = vec![word(tokens, i)];
    while word(tokens, i + 1) == ":"
        && word(tokens, i + 2) == ":"
        && let Some(TokenTree::Ident(_)) = tokens.get(i + 3)
    {
        i += 3;
        path.push(word(tokens, i));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::cycles::cycles;

    /// The cycles in a crate of these files, with a root that declares modules `a`, `b` and `c`.
    fn cycles_of(files: &[(&str, &str)]) -> Vec<String> {
        let root = ("src/lib.rs", "mod a;\nmod b;\nmod c;");
        let files = files.iter().chain([&root]);
        let files = files.map(|(path, source)| (path.to_string(), source.to_string()));
        cycles(&read("src/lib.rs", &files.collect()))
    }

    #[test]
    fn a_cycle_is_found_however_it_is_written() {
        let b = ("src/b.rs", "pub const X: u8 = 0;\nfn f(_: crate::a::A) {}");
        for a in [
            "use crate::b::X;\npub struct A;",
            "use crate::{Error, c::{Y, Z}, b::{self, X as Other}};\npub struct A;",
            "use super::b;\npub struct A;\nconst Y: u8 = b::X;",
            "use super::{b as other};\npub struct A([u8; other::X]);",
            "pub struct A;\nfn f() { let x = 1 + self::super::b::X; }",
            "pub struct A;\nfn f() { use crate::b; for i in 0..b::X {} }",
            "pub struct A;\nfn f() { println!(\"{}\", crate::b::X); }",
            "pub struct A;\nmod inner { use super::super::b::X; }",
            "pub struct A;\n#[cfg(test)]\nmod tests { use super::*; }\nuse crate::b::X;",
            "pub struct A;\nuse crate::b::*;\nconst Y: u8 = X;",
            "pub struct A;\n#[cfg(not(test))]\nuse crate::b::X;",
        ] {
            let expected = "src/a.rs -> src/b.rs (X) -> src/a.rs (A)";
            assert_eq!(cycles_of(&[("src/a.rs", a), b]), [expected], "{a}");
        }
    }

    #[test]
    fn what_a_module_re_exports_is_its_childs() {
        let a = ("src/a/one.rs", "use super::Second;\npub struct First;");
        let b = ("src/a/two.rs", "use crate::c::First;\npub struct Two;");
        let c = ("src/c.rs", "pub use crate::a::*;");
        for parent in [
            "mod one;\nmod two;\npub use one::First;\npub use two::Two as Second;",
            "mod one;\nmod two;\npub(crate) use self::{one::*, two::{Two as Second}};",
        ] {
            let expected = "src/a/one.rs -> src/a/two.rs (Two) -> src/a/one.rs (First)";
            assert_eq!(cycles_of(&[("src/a/mod.rs", parent), a, b, c]), [expected], "{parent}");
        }
        let one_way = ("src/a/two.rs", "pub struct Two;");
        let parent = "mod one;\nmod two;\npub use one::First;\npub use two::Two as Second;";
        assert_eq!(cycles_of(&[("src/a/mod.rs", parent), a, one_way, c]), [""; 0]);
    }

    #[test]
    fn a_module_with_code_of_its_own_is_above_or_below_its_children() {
        let child = ("src/a/one.rs", "use super::LIMIT;\npub fn one() {}");
        let below = "mod one;\npub use one::one;\nconst LIMIT: u8 = 1;";
        assert_eq!(cycles_of(&[("src/a.rs", below), child]), [""; 0]);
        for both in
            ["use one::one;", "pub use one::one;\nfn f() { one() }", "fn f() { one::one() }"]
        {
            let both = format!("mod one;\n{both}\nconst LIMIT: u8 = 1;");
            let expected = "src/a.rs -> src/a/one.rs (one) -> src/a.rs (LIMIT)";
            assert_eq!(cycles_of(&[("src/a.rs", &both), child]), [expected], "{both}");
        }
    }

    #[test]
    fn longer_cycles_are_found_once() {
        let files = [
            ("src/a.rs", "use crate::b::B;\npub fn a() {}\npub fn more() {}"),
            ("src/b.rs", "use crate::c::C;\npub struct B;"),
            ("src/c.rs", "pub struct C;\nfn f() { crate::a::a(); crate::a::more() }"),
        ];
        let expected = "src/a.rs -> src/b.rs (B) -> src/c.rs (C) -> src/a.rs (a, more)";
        assert_eq!(cycles_of(&files), [expected]);
    }

    #[test]
    fn names_that_are_of_no_other_file_make_no_cycle() {
        let b = ("src/b.rs", "use crate::a::A;\npub struct B;\nimpl A { fn b(&self) -> B { B } }");
        for a in [
            "pub struct A; // crate::b::B",
            "/// As [`crate::b::B`].\npub struct A;\nconst TEXT: &str = \"crate::b::B\";",
            "pub struct A;\n#[cfg(test)]\nmod tests { use crate::b::B; }",
            "pub struct A;\n#[cfg(all(test, unix))]\nfn f() { crate::b::B; }",
            "pub struct A { b: u8 }\nfn f(a: &A) { a.b.b(); other::b::B; }",
            "use other::b::B;\npub struct A;\nfn f<'b>(b: &'b B) {}",
            "pub use crate::b::B;\npub struct A;",
        ] {
            assert_eq!(cycles_of(&[("src/a.rs", a), b]), [""; 0], "{a}");
        }
    }
}
