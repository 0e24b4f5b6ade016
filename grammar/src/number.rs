//! Numbers in JSON that end: a weak model may go on writing digits until its answer is cut off.

/// Most digits in a row: as many as the largest integer of 64 bits has. A double has 17.
const MOST_DIGITS: u8 = 20;

/// Where a JSON text stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    in_string: bool,
    /// Behind a backslash.
    is_escaped: bool,
    /// Digits in a row, outside of strings.
    digits: u8,
}

impl Place {
    pub fn after(self, bytes: &[u8]) -> Place {
        bytes.iter().fold(self, |place, &byte| match (place.in_string, byte) {
            (true, _) if place.is_escaped => Place { is_escaped: false, ..place },
            (true, b'\\') => Place { is_escaped: true, ..place },
            (in_string, b'"') => Place { in_string: !in_string, ..Place::default() },
            (false, b'0'..=b'9') => Place { digits: place.digits.saturating_add(1), ..place },
            (in_string, _) => Place { in_string, ..Place::default() },
        })
    }

    /// Whether a number has all the digits that it may have in a row.
    pub fn ends_digits(self) -> bool {
        self.digits >= MOST_DIGITS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_counted_outside_of_strings() {
        for (text, digits) in [
            ("", 0),
            ("[12, 345", 3),
            ("1.5", 1),
            ("-12e10", 2),
            (r#"{"123"#, 0),
            (r#"{"123": 45"#, 2),
            (r#""a\"1"#, 0),
            (r#"["a\\",1"#, 1),
            ("1 ", 0),
        ] {
            assert_eq!(Place::default().after(text.as_bytes()).digits, digits, "{text}");
            let by_bytes = text.bytes().fold(Place::default(), |place, byte| place.after(&[byte]));
            assert_eq!(by_bytes.digits, digits, "{text}");
        }
        assert!(!Place::default().after(&[b'1'; 19]).ends_digits());
        assert!(Place::default().after(&[b'1'; 300]).ends_digits());
    }
}
