//! The pure half of the server: what a request asks for, which file its target names, which bytes
//! its range means.

use percent_encoding::percent_decode_str;
use std::path::{Path, PathBuf};

/// What the page and its worker may do. The worker is served with the same policy, because a
/// worker does not inherit its page's.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; \
    script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; \
    connect-src 'self' https://huggingface.co https://*.hf.co https://*.xethub.hf.co; \
    img-src 'self' data:; style-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types worker tabloom";

/// What matters here of a request's head.
#[derive(Debug, PartialEq)]
pub struct Request<'a> {
    pub method: &'a str,
    pub target: &'a str,
    pub range: Option<&'a str>,
    /// Whether the connection stays open for another request.
    pub keep_open: bool,
}

impl<'a> Request<'a> {
    /// Reads a head up to its blank line; `None` where it is malformed or cut short.
    pub fn parse(head: &'a str) -> Option<Self> {
        let mut lines = head.strip_suffix("\r\n\r\n")?.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        if words.next().is_some() || !version.starts_with("HTTP/1.") {
            return None;
        }
        let mut request = Self { method, target, range: None, keep_open: version == "HTTP/1.1" };
        for line in lines {
            let (name, value) = line.split_once(':')?;
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "range" => request.range = Some(value),
                "connection" if value.eq_ignore_ascii_case("close") => request.keep_open = false,
                // A body would be taken for the next request.
                "transfer-encoding" => request.keep_open = false,
                "content-length" if value != "0" => request.keep_open = false,
                _ => {}
            }
        }
        Some(request)
    }
}

/// The file below `root` that a request's target names, or `None` where the target leaves the
/// folder or is malformed. A folder stands for its `index.html`.
pub fn file_for(root: &Path, target: &str) -> Option<PathBuf> {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let path = percent_decode_str(path.strip_prefix('/')?).decode_utf8().ok()?;
    let mut file = root.to_owned();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let leaves = part == ".." || part == ".";
        if leaves || part.contains(['\\', ':', '\0']) {
            return None;
        }
        file.push(part);
    }
    if path.is_empty() || path.ends_with('/') {
        file.push("index.html");
    }
    Some(file)
}

/// The media type of a file, by its ending.
pub fn media_type(file: &Path) -> &'static str {
    match file.extension().and_then(|end| end.to_str()).unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "wasm" => "application/wasm",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "txt" | "md" | "ts" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// What a `Range` header asks for.
#[derive(Debug, PartialEq)]
pub enum ByteRange {
    /// Everything: no range, or a form that may be ignored (several ranges, other units).
    Whole,
    /// The bytes from `start` to `end`, which is included.
    Part { start: u64, end: u64 },
    /// Nothing of the file lies in the range.
    Unsatisfiable,
}

impl ByteRange {
    /// Reads a `Range` header for a file of `length` bytes.
    pub fn parse(header: &str, length: u64) -> Self {
        Self::single(header, length).unwrap_or(Self::Whole)
    }

    fn single(header: &str, length: u64) -> Option<Self> {
        let (first, last) = header.trim().strip_prefix("bytes=")?.split_once('-')?;
        let (first, last) = (first.trim(), last.trim());
        if first.is_empty() {
            let wanted: u64 = last.parse().ok()?;
            if wanted == 0 || length == 0 {
                return Some(Self::Unsatisfiable);
            }
            return Some(Self::Part { start: length.saturating_sub(wanted), end: length - 1 });
        }
        let start: u64 = first.parse().ok()?;
        let end: u64 = if last.is_empty() { u64::MAX } else { last.parse().ok()? };
        if end < start {
            return None;
        }
        if start >= length {
            return Some(Self::Unsatisfiable);
        }
        Some(Self::Part { start, end: end.min(length - 1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read() {
        let parse = Request::parse;
        let plain = Request { method: "GET", target: "/a", range: None, keep_open: true };
        assert_eq!(parse("GET /a HTTP/1.1\r\nHost: x\r\n\r\n"), Some(plain));
        let ranged = parse("GET /a HTTP/1.1\r\nrANGE:  bytes=1-2 \r\n\r\n").unwrap();
        assert_eq!(ranged.range, Some("bytes=1-2"));
        for closing in [
            "GET /a HTTP/1.0\r\n\r\n",
            "GET /a HTTP/1.1\r\nConnection: Close\r\n\r\n",
            "POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\n",
            "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        ] {
            assert!(!parse(closing).unwrap().keep_open, "{closing}");
        }
        for malformed in [
            "",
            "GET\r\n\r\n",
            "GET /a\r\n\r\n",
            "GET /a HTTP/2\r\n\r\n",
            "GET /a b HTTP/1.1\r\n\r\n",
            "GET /a HTTP/1.1\r\nno colon\r\n\r\n",
            "GET /a HTTP/1.1\r\nHost: cut",
        ] {
            assert_eq!(parse(malformed), None, "{malformed}");
        }
    }

    #[test]
    fn targets_name_files_below_the_root() {
        let file = |target| file_for(Path::new("/www"), target);
        assert_eq!(file("/"), Some("/www/index.html".into()));
        assert_eq!(file("/?q=1"), Some("/www/index.html".into()));
        assert_eq!(file("/model/"), Some("/www/model/index.html".into()));
        assert_eq!(file("/a%20b/c.js?x#y"), Some("/www/a b/c.js".into()));
        assert_eq!(file("//a//b"), Some("/www/a/b".into()));
    }

    #[test]
    fn targets_cannot_leave_the_root() {
        for target in [
            "/..",
            "/../secret",
            "/a/../../secret",
            "/%2e%2e/secret",
            "/%2E%2E%2Fsecret",
            "/a/..%2f..%2fsecret",
            "/..\\secret",
            "/c:/secret",
            "/a%00b",
            "/%ff",
            "secret",
            "http://elsewhere/secret",
            "*",
            "",
        ] {
            assert_eq!(file_for(Path::new("/www"), target), None, "{target}");
        }
    }

    #[test]
    fn modules_and_wasm_have_the_types_browsers_demand() {
        assert_eq!(media_type(Path::new("a/b.wasm")), "application/wasm");
        assert_eq!(media_type(Path::new("b.js")), "text/javascript; charset=utf-8");
        assert_eq!(media_type(Path::new("b.mjs")), "text/javascript; charset=utf-8");
        assert_eq!(media_type(Path::new("index.html")), "text/html; charset=utf-8");
        assert_eq!(media_type(Path::new("model.safetensors")), "application/octet-stream");
        assert_eq!(media_type(Path::new("LICENSE")), "application/octet-stream");
    }

    #[test]
    fn ranges_are_read() {
        use ByteRange::{Part, Unsatisfiable, Whole};
        for (header, length, expected) in [
            ("bytes=0-0", 10, Part { start: 0, end: 0 }),
            ("bytes=2-5", 10, Part { start: 2, end: 5 }),
            ("bytes=2-", 10, Part { start: 2, end: 9 }),
            ("bytes=2-99", 10, Part { start: 2, end: 9 }),
            ("bytes=-3", 10, Part { start: 7, end: 9 }),
            ("bytes=-99", 10, Part { start: 0, end: 9 }),
            ("bytes=10-", 10, Unsatisfiable),
            ("bytes=10-12", 10, Unsatisfiable),
            ("bytes=-0", 10, Unsatisfiable),
            ("bytes=0-", 0, Unsatisfiable),
            ("bytes=-1", 0, Unsatisfiable),
            ("bytes=5-2", 10, Whole),
            ("bytes=0-1,3-4", 10, Whole),
            ("bytes=a-b", 10, Whole),
            ("bytes=-", 10, Whole),
            ("bytes=99999999999999999999-", 10, Whole),
            ("lines=0-1", 10, Whole),
            ("", 10, Whole),
        ] {
            assert_eq!(ByteRange::parse(header, length), expected, "{header} of {length}");
        }
    }
}
