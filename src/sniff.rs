//! Recognises HTML pages and Git LFS pointers that are served in place of a file.

/// Describes the file if `start`, its first bytes, shows that it is not a model file.
pub fn impostor(start: &[u8]) -> Option<&'static str> {
    let text = start.trim_ascii_start();
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    if text.starts_with(b"<") {
        Some("found an HTML page; the server probably has no such file")
    } else if text.starts_with(b"version ") {
        Some("found a Git LFS pointer; fetch the file itself, for example with `git lfs pull`")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::impostor;

    #[test]
    fn pages_and_pointers_are_recognised() {
        for page in ["<!DOCTYPE html>", "<html>\n<", "\r\n  <!doct", "\u{feff}<?xml ve"] {
            assert!(impostor(page.as_bytes()).is_some_and(|found| found.contains("HTML")));
        }
        assert!(impostor(b"version https://git-lfs").is_some_and(|found| found.contains("LFS")));
        assert_eq!(impostor(b"{\"a\": 1}"), None);
        assert_eq!(impostor(&[0x58, 2, 0, 0, 0, 0, 0, 0, b'{']), None);
        assert_eq!(impostor(b""), None);
    }
}
