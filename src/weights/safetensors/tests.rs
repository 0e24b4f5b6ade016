use super::*;
use ::safetensors::SafeTensors;
use proptest::prelude::*;

/// What the crate returns for a file with this header and the data bytes that it announces.
fn crate_reads(json: &[u8], data: usize) -> Result<Vec<(String, u64)>, String> {
    let mut file = (json.len() as u64).to_le_bytes().to_vec();
    file.extend(json);
    file.resize(file.len() + data, 0);
    let (_, metadata) = SafeTensors::read_metadata(&file).map_err(|error| error.to_string())?;
    let tensor = |name: String| {
        let (begin, end) = metadata.info(&name).unwrap().data_offsets;
        (name, (end - begin) as u64)
    };
    let mut tensors: Vec<_> = metadata.offset_keys().into_iter().map(tensor).collect();
    tensors.sort();
    Ok(tensors)
}

fn we_read(json: &[u8], data: usize) -> Result<Vec<(String, u64)>, String> {
    let header = parse(json)?;
    if header.end != (8 + json.len() + data) as u64 {
        return Err("another length".into());
    }
    let mut tensors: Vec<_> = header.tensors.into_iter().map(|t| (t.name, t.bytes)).collect();
    tensors.sort();
    Ok(tensors)
}

#[test]
fn headers_are_accepted_and_refused_as_by_the_crate() {
    let good: [(&str, usize); 9] = [
        ("{}", 0),
        (r#"{"__metadata__":{"format":"pt"}}"#, 0),
        (r#"{"__metadata__":null}   "#, 0),
        (r#"{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}"#, 24),
        (r#"{"a":{"dtype":"I64","shape":[],"data_offsets":[0,8],"more":[[{}]]}}"#, 8),
        (
            r#"{"b":{"dtype":"BF16","shape":[3],"data_offsets":[5,11]},
                "a":{"dtype":"BOOL","shape":[5],"data_offsets":[0,5]}}"#,
            11,
        ),
        (
            r#"{"none":{"dtype":"U8","shape":[0,9],"data_offsets":[4,4]},
                "a":{"dtype":"F4","shape":[2,4],"data_offsets":[0,4]},
                "b":{"dtype":"F6_E3M2","shape":[4],"data_offsets":[4,7]}}"#,
            7,
        ),
        (
            r#"{"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]},
                "b":{"dtype":"F8_E5M2FNUZ","shape":[1],"data_offsets":[1,2]},
                "c":{"dtype":"F8_E8M0","shape":[1],"data_offsets":[2,3]},
                "d":{"dtype":"C64","shape":[1],"data_offsets":[3,11]}}"#,
            11,
        ),
        (r#"{"\u00e9":{"dtype":"U16","shape":[1],"data_offsets":[0,2]}}"#, 2),
    ];
    for (json, data) in good {
        let tensors = crate_reads(json.as_bytes(), data);
        assert!(tensors.is_ok(), "{json}: {tensors:?}");
        assert_eq!(we_read(json.as_bytes(), data), tensors, "{json}");
    }
    let tensor = |dtype: &str, shape: &str, offsets: &str| {
        format!(r#"{{"a":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#)
    };
    let bad = [
        String::new(),
        "[]".into(),
        "{".into(),
        "{} {}".into(),
        r#"{"a":1}"#.into(),
        r#"{"__metadata__":{"a":1}}"#.into(),
        r#"{"a":{"dtype":"F32","shape":[1]}}"#.into(),
        tensor("F31", "[1]", "[0,4]"),
        tensor("f32", "[1]", "[0,4]"),
        tensor("F32", "[-1]", "[0,4]"),
        tensor("F32", "[1.0]", "[0,4]"),
        tensor("F32", "[1]", "[0,4,8]"),
        tensor("F32", "[2]", "[0,4]"),
        tensor("F32", "[1]", "[4,0]"),
        tensor("F32", "[1]", "[4,8]"),
        tensor("F4", "[3]", "[0,2]"),
        tensor("F32", "[4294967296,4294967296]", "[0,4]"),
        tensor("F64", "[2305843009213693952]", "[0,0]"),
        tensor("U8", "[18446744073709551616]", "[0,0]"),
        // A gap, then an overlap.
        r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},
            "b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}}"#
            .into(),
        r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},
            "b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}"#
            .into(),
        format!(r#"{{"a":{{"x":{}1{}}}}}"#, "[".repeat(200), "]".repeat(200)),
    ];
    for json in bad {
        for data in [0, 2, 3, 4, 5, 8] {
            let tensors = crate_reads(json.as_bytes(), data);
            assert!(tensors.is_err(), "{json}: {tensors:?}");
            assert!(we_read(json.as_bytes(), data).is_err(), "{json} with {data} bytes of data");
        }
    }
    assert!(parse(b"{\"\xff\":1}").unwrap_err().contains("utf-8"));
}

#[test]
fn some_headers_that_the_crate_accepts_are_refused() {
    let tensor = r#"{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#;
    let twice = format!(r#"{{"a":{tensor},"a":{tensor}}}"#);
    assert!(crate_reads(twice.as_bytes(), 1).is_ok());
    let error = parse(twice.as_bytes()).unwrap_err();
    assert!(error.contains("the name \"a\" occurs twice"), "{error}");

    let empty = |i| format!(r#""{i}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#);
    let list = |count| {
        let tensors: Vec<_> = (0..count).map(empty).collect();
        format!("{{{}}}", tensors.join(","))
    };
    assert_eq!(parse(list(MAX_TENSORS).as_bytes()).unwrap().tensors.len(), MAX_TENSORS);
    let error = parse(list(MAX_TENSORS + 1).as_bytes()).unwrap_err();
    assert!(error.contains("more than 100000 tensors"), "{error}");
}

#[test]
fn offsets_beyond_32_bits_are_kept() {
    let json = br#"{"a":{"dtype":"U8","shape":[6442450944],"data_offsets":[0,6442450944]},
        "b":{"dtype":"F16","shape":[2],"data_offsets":[6442450944,6442450948]}}"#;
    let header = parse(json).unwrap();
    assert_eq!(header.end, 8 + json.len() as u64 + (6 << 30) + 4);
    assert_eq!(header.tensors[0].bytes, 6 << 30);
    let end = r#"{"a":{"dtype":"U8","shape":[18446744073709551615],
        "data_offsets":[0,18446744073709551615]}}"#;
    assert!(parse(end.as_bytes()).is_err());
}

fn dtype_name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "BOOL", "F4", "F6_E2M3", "U8", "I8", "F8_E4M3", "I16", "F16", "BF16", "I32", "F32", "C64",
        "F64", "U64", "F128",
    ])
}

proptest! {
    /// Consecutive tensors, some with a slightly wrong offset.
    #[test]
    fn any_list_of_tensors_is_accepted_or_refused_as_by_the_crate(
        tensors in prop::collection::vec(
            (dtype_name(), prop::collection::vec(0u64..5, 0..4), prop::option::weighted(0.05, 0u64..9)),
            0..6,
        ),
        order in any::<u64>(),
        extra in prop::option::weighted(0.1, 1usize..3),
    ) {
        let mut position = 0;
        let mut entries = Vec::new();
        for (i, (dtype, shape, error)) in tensors.iter().enumerate() {
            let bits = match *dtype {
                "F4" => 4,
                "F6_E2M3" => 6,
                "BOOL" | "U8" | "I8" | "F8_E4M3" => 8,
                "I16" | "F16" | "BF16" => 16,
                "I32" | "F32" => 32,
                _ => 64,
            };
            let end = position + bits * shape.iter().product::<u64>() / 8;
            let begin = error.unwrap_or(position);
            entries.push(format!(
                r#""t{i}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{begin},{end}]}}"#
            ));
            position = end;
        }
        fastrand::Rng::with_seed(order).shuffle(&mut entries);
        let json = format!("{{{}}}", entries.join(","));
        let data = position as usize + extra.unwrap_or(0);
        let (ours, theirs) = (we_read(json.as_bytes(), data), crate_reads(json.as_bytes(), data));
        prop_assert_eq!(ours.ok(), theirs.ok(), "{}", json);
    }

    #[test]
    fn damaged_headers_are_accepted_or_refused_as_by_the_crate(
        at in 0usize..200,
        byte in any::<u8>(),
    ) {
        let mut json = br#"{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]},"c":{"dtype":"I64","shape":[0],"data_offsets":[32,32]}}"#.to_vec();
        let at = at % json.len();
        json[at] = byte;
        let (ours, theirs) = (we_read(&json, 32), crate_reads(&json, 32));
        // The only difference: duplicate names.
        if !ours.as_ref().is_err_and(|error| error.contains("twice")) {
            prop_assert_eq!(ours.ok(), theirs.ok());
        }
    }
}
