//! Bad files, each a good one with one change, and some unusual good ones.

use super::writer::{Entry, File, Key, Tensor, announced};
use super::{good, read_bytes};
use crate::error::Error;

/// What is wrong, the change, and a part of the error message.
type Case = (&'static str, fn(&mut File), &'static str);

fn key(kind: u32, value: Vec<u8>) -> Key {
    Key { name: b"x".into(), length: None, kind, value }
}

fn length(length: u64) -> Vec<u8> {
    length.to_le_bytes().into()
}

fn first(file: &mut File) -> &mut Tensor {
    &mut file.tensors[0]
}

#[test]
fn errors_name_bad_headers() {
    let cases: [Case; 66] = [
        ("wrong magic", |f| f.magic = *b"GGJT", "it begins with the bytes [47, 47, 4a, 54]"),
        ("lowercase magic", |f| f.magic = *b"gguf", "instead of \"GGUF\""),
        ("version 0", |f| f.version = 0, "big-endian"),
        ("version 1", |f| f.version = 1, "version 1, expected 2 or 3"),
        ("version 4", |f| f.version = 4, "version 4, expected 2 or 3"),
        ("big-endian", |f| f.version = 0x0300_0000, "big-endian"),
        ("version 2^32 - 1", |f| f.version = u32::MAX, "version 4294967295"),
        ("2^64 - 1 tensors", |f| f.tensor_count = Some(u64::MAX), "18446744073709551615 tensors"),
        ("2^63 - 1 tensors", |f| f.tensor_count = Some(i64::MAX as u64), "tensors, at most 100000"),
        ("2^40 tensors", |f| f.tensor_count = Some(1 << 40), "tensors, at most"),
        ("1000 tensors", |f| f.tensor_count = Some(1000), "a tensor's name has 0 bytes"),
        ("2^64 - 1 keys", |f| f.key_count = Some(u64::MAX), "keys, at most 10000"),
        ("2^62 keys", |f| f.key_count = Some(1 << 62), "keys, at most"),
        ("1000 keys", |f| f.key_count = Some(1000), ""),
        ("one key too few", |f| f.key_count = Some(6), ""),
        ("key of 2^64 - 1 bytes", |f| f.keys[0].length = Some(u64::MAX), "bytes are announced"),
        ("key of 2^63 bytes", |f| f.keys[0].length = Some(1 << 63), "bytes are announced"),
        ("key of 2^31 bytes", |f| f.keys[0].length = Some(1 << 31), "bytes are announced"),
        ("key of 2^20 bytes", |f| f.keys[0].length = Some(1 << 20), "truncated"),
        ("key without a name", |f| f.keys[0].name.clear(), "a key has 0 bytes"),
        ("key of 64k", |f| f.keys[0].name = vec![b'k'; 65_536], "a key has 65536 bytes"),
        ("key that is no UTF-8", |f| f.keys[0].name = vec![0xff, 0xfe], "a key is invalid utf-8"),
        ("the same key twice", |f| f.keys.push(f.keys[0].clone()), "architecture\" occurs twice"),
        ("value of type 13", |f| f.keys.push(key(13, vec![0; 8])), "the unknown type 13"),
        ("value of type -1", |f| f.keys.push(key(u32::MAX, vec![0; 8])), "unknown type 4294967295"),
        ("text of 2^64 - 1 bytes", |f| f.keys.push(key(8, length(u64::MAX))), "are announced"),
        ("text of 2^40 bytes", |f| f.keys.push(key(8, length(1 << 40))), "are announced"),
        ("text of 2^25 bytes", |f| f.keys.push(key(8, length(1 << 25))), "truncated"),
        (
            "text that is no UTF-8",
            |f| f.keys.push(key(8, [length(2), vec![0xc3, 0x28]].concat())),
            "x is invalid utf-8",
        ),
        ("truth value 2", |f| f.keys.push(key(7, vec![2])), "\"x\" is the truth value 2"),
        (
            "2^63 elements",
            |f| f.keys.push(key(9, announced(4, 1 << 63, &[]))),
            "\"x\" has 9223372036854775808 elements",
        ),
        ("2^61 numbers", |f| f.keys.push(key(9, announced(10, 1 << 61, &[]))), "elements"),
        ("2^32 bytes", |f| f.keys.push(key(9, announced(0, 1 << 32, &[]))), "elements"),
        ("2^60 texts", |f| f.keys.push(key(9, announced(8, 1 << 60, &[]))), "elements"),
        ("2^20 texts", |f| f.keys.push(key(9, announced(8, 1 << 20, &[]))), ""),
        ("elements of type 99", |f| f.keys.push(key(9, announced(99, 1, &[0; 8]))), "type 99"),
        ("no element of type 99", |f| f.keys.push(key(9, announced(99, 0, &[]))), "type 99"),
        (
            "lists in lists, 10,000 deep",
            |f| f.keys.push(key(9, announced(9, 1, &[]).repeat(10_000))),
            "\"x\" is a list of lists",
        ),
        ("alignment 0", |f| align(f, 4, 0u32.to_le_bytes().into()), "general.alignment is 0"),
        ("alignment 3", |f| align(f, 4, 3u32.to_le_bytes().into()), "general.alignment is 3"),
        ("alignment 2^31", |f| align(f, 4, (1u32 << 31).to_le_bytes().into()), "is 2147483648"),
        ("alignment as u64", |f| align(f, 10, length(32)), "expected a power of two (u32)"),
        ("alignment as text", |f| align(f, 8, [length(2), b"32".to_vec()].concat()), "is \"32\""),
        ("negative alignment", |f| align(f, 5, (-32i32).to_le_bytes().into()), "is -32"),
        (
            "alignment 64, data laid out by 32",
            |f| {
                align(f, 4, 64u32.to_le_bytes().into());
                f.tensors[0].dimensions = vec![32];
                f.tensors[0].bytes.truncate(18);
            },
            "tensor \"b.weight\" lies at offset 32, but the one before ends so that 64 is next",
        ),
        ("a dimension of 0", |f| first(f).dimensions[1] = 0, "the impossible shape [0, 32]"),
        ("a row of 0", |f| first(f).dimensions[0] = 0, "the impossible shape [3, 0]"),
        ("a negative dimension", |f| first(f).dimensions[1] = u64::MAX, "the impossible shape"),
        ("2^63 elements", |f| first(f).dimensions = vec![1 << 32, 1 << 31], "impossible shape"),
        ("2^64 elements", |f| first(f).dimensions = vec![1 << 32; 2], "impossible shape"),
        (
            "2^64 bytes",
            |f| (first(f).kind, first(f).dimensions) = (28, vec![1 << 31, 1 << 31]),
            "impossible shape",
        ),
        ("no dimensions", |f| first(f).dimensions.clear(), "has 0 dimensions, expected 1 to 4"),
        ("5 dimensions", |f| first(f).dimensions = vec![32, 1, 1, 1, 1], "has 5 dimensions"),
        ("type 4, taken out", |f| first(f).kind = 4, "\"a.weight\" has the unknown type number 4"),
        ("type 31, taken out", |f| first(f).kind = 31, "unknown type number 31"),
        ("type 43", |f| first(f).kind = 43, "unknown type number 43"),
        ("type -1", |f| first(f).kind = u32::MAX, "unknown type number 4294967295"),
        ("half a block", |f| first(f).dimensions[0] = 48, "Q4_0, has the impossible shape [3, 48]"),
        ("a tensor without a name", |f| first(f).name.clear(), "a tensor's name has 0 bytes"),
        (
            "a name of 64 bytes",
            |f| first(f).name = vec![b'n'; 64],
            "name has 64 bytes, not 1 to 63",
        ),
        ("two of a name", |f| first(f).name = b"b.weight".into(), "two tensors are named \"b.weig"),
        ("a misaligned offset", |f| f.tensors[1].offset = Some(60), "lies at offset 60"),
        ("an overlap", |f| f.tensors[1].offset = Some(32), "offset 32, but the one before ends so"),
        ("a gap", |f| f.tensors[2].offset = Some(128), "lies at offset 128"),
        ("an offset that wraps", |f| f.tensors[2].offset = Some(u64::MAX - 31), "lies at offset"),
        ("larger than the file", |f| f.tensors[2].dimensions[2] = 1 << 40, "is truncated"),
    ];
    for (name, spoil, words) in cases {
        let mut file = good();
        spoil(&mut file);
        let bytes = file.bytes();
        for (chunk, tells_length) in [(100, true), (7, false)] {
            // Without a length the end of the data cannot be known.
            if !tells_length && name == "larger than the file" {
                continue;
            }
            let error = match read_bytes(&bytes, chunk, tells_length) {
                Err(error @ (Error::Malformed { .. } | Error::Truncated { .. })) => error,
                other => panic!("{name}: {other:?}"),
            };
            assert!(error.to_string().contains(words), "{name}: {error}");
        }
    }
}

fn align(file: &mut File, kind: u32, value: Vec<u8>) {
    file.keys.push(Key { name: b"general.alignment".into(), length: None, kind, value });
}

#[test]
fn errors_name_other_kinds_of_files() {
    for (bytes, words) in [
        (&b"<!DOCTYPE html><html><head><title>404</title></head></html>"[..], "an HTML page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "Git LFS pointer"),
        (b"\x58\x02\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\"}}", "instead of \"GGUF\""),
    ] {
        let error = read_bytes(bytes, 1000, true).unwrap_err();
        assert!(matches!(error, Error::Malformed { .. }), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn errors_say_what_a_truncated_file_lacks() {
    let (bytes, keys_end, header_end) = good().parts();
    let mut cuts = vec![0, 3, 4, 7, 8, 23, 24, 30, 60, 200, keys_end, header_end, bytes.len() / 2];
    // The last tensor has 24 bytes and 8 bytes of padding, which may be missing.
    cuts.extend([bytes.len() - 9, bytes.len() - 33]);
    for cut in cuts {
        for tells_length in [true, false] {
            let result = read_bytes(&bytes[..cut], 100, tells_length);
            if !tells_length && cut >= header_end {
                assert!(result.is_ok(), "the data is missed when it is read");
                continue;
            }
            let Err(Error::Truncated { expected, found, .. }) = result else {
                panic!("cut at {cut}: {result:?}");
            };
            assert_eq!(found, cut as u64);
            assert!(expected > found && expected <= bytes.len() as u64);
        }
    }
}

#[test]
fn odd_files_are_read() {
    type Change = fn(&mut File);
    let odd: [(&str, Change); 6] = [
        ("version 2", |f| f.version = 2),
        ("an empty list", |f| f.keys.push(key(9, announced(8, 0, &[])))),
        ("no keys", |f| f.keys.clear()),
        ("no tensors", |f| f.tensors.clear()),
        ("a name that is not ASCII", |f| first(f).name = "größe".into()),
        ("alignment 64", |f| {
            align(f, 4, 64u32.to_le_bytes().into());
            f.alignment = 64;
        }),
    ];
    for (name, change) in odd {
        let mut file = good();
        change(&mut file);
        let found = read_bytes(&file.bytes(), 100, true);
        assert!(found.is_ok(), "{name}: {found:?}");
    }
    let mut file = File::new().key("general.alignment", Entry::U32(1));
    file.alignment = 1;
    file = file.tensor("a", &[3], 24, vec![1; 3]).tensor("b", &[1], 0, vec![2; 4]);
    let (_, header, _) = read_bytes(&file.bytes(), 100, true).unwrap();
    assert_eq!(header.tensors[1].start, header.tensors[0].start + 3);

    let trailing = [good().bytes(), vec![7; 100]].concat();
    let expected = read_bytes(&good().bytes(), 100, true).unwrap();
    assert_eq!(read_bytes(&trailing, 100, true).unwrap(), expected);
}
