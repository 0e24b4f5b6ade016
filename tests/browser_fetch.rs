//! Model files over `fetch` in a worker, with a fake server.
#![cfg(target_arch = "wasm32")]

use js_sys::eval;
use std::ops::ControlFlow;
use tabloom::Error;
use tabloom::model::ModelConfig;
use tabloom::web::{Fetch, FetchSource};
use tabloom::weights::{ByteStream, Checkpoint, HostSink, Quantise, Source};
use wasm_bindgen_test::{wasm_bindgen_test, wasm_bindgen_test_configure};
use web_sys::AbortController;

wasm_bindgen_test_configure!(run_in_dedicated_worker);

/// Answers by the last part of the address; `cancelled` counts stopped transfers.
const SERVER: &str = r#"
globalThis.cancelled = 0;
const later = globalThis.setTimeout;
// Retries follow without delay.
globalThis.setTimeout = (callback, time) => later(callback, time < 60_000 ? 0 : time);
globalThis.fetch = async (address, { signal } = {}) => {
  const body = (chunks, end = (controller) => controller.close()) => new ReadableStream({
    pull(controller) {
      if (signal?.aborted) return controller.error(signal.reason);
      const chunk = chunks.shift();
      if (chunk) controller.enqueue(new Uint8Array(chunk)); else end(controller);
    },
    cancel() { globalThis.cancelled += 1; },
  });
  switch (address) {
    case "https://models.example/tiny/whole":
      return new Response(body([[1, 2, 3], [4], [5, 6]]), { headers: { "content-length": "6" } });
    case "https://models.example/tiny/short":
      return new Response(body([[1, 2, 3]]), { headers: { "content-length": "6" } });
    case "https://models.example/tiny/zipped":
      return new Response(body([[1, 2, 3]]),
        { headers: { "content-length": "2", "content-encoding": "gzip" } });
    case "https://models.example/tiny/page":
      return new Response("<html>", { headers: { "content-type": "text/html; charset=utf-8" } });
    case "https://models.example/tiny/secret":
      return new Response("no", { status: 403, statusText: "Forbidden" });
    case "https://models.example/tiny/cut":
      return new Response(body([[1], [2]], (c) => c.error(new TypeError("network error"))));
    case "https://models.example/tiny/unreachable":
      throw new TypeError("Failed to fetch");
    default:
      return new Response("no such file", { status: 404 });
  }
};"#;

fn source() -> FetchSource {
    eval(SERVER).expect("the stand-in is valid JavaScript");
    FetchSource::new(Fetch::new(None), "https://models.example/tiny")
}

fn is_fetch_error(error: &Error, words: &str) -> bool {
    matches!(error, Error::Fetch { .. }) && error.to_string().contains(words)
}

#[wasm_bindgen_test]
async fn a_file_is_read_chunk_by_chunk() {
    let mut stream = source().open("whole").await.unwrap().unwrap();
    assert_eq!(stream.length(), Some(6));
    let mut lengths = Vec::new();
    while let Some(chunk) = stream.next().await.unwrap() {
        lengths.push(chunk.len());
    }
    assert_eq!(lengths, [3, 1, 2]);
    assert_eq!(source().read("whole").await, Ok(vec![1, 2, 3, 4, 5, 6]));
    assert_eq!(source().read("zipped").await, Ok(vec![1, 2, 3]), "the length is not the body's");
}

#[wasm_bindgen_test]
async fn failures_say_what_happened() {
    let source = source();
    let error = source.read("secret").await.unwrap_err();
    assert!(is_fetch_error(&error, "HTTP status 403 Forbidden"), "{error}");
    let error = source.read("unreachable").await.unwrap_err();
    assert!(is_fetch_error(&error, "tiny/unreachable: TypeError: Failed to fetch"), "{error}");
    let error = source.read("cut").await.unwrap_err();
    assert!(is_fetch_error(&error, "network error"), "{error}");
    let error = source.read("absent").await.unwrap_err();
    assert!(is_fetch_error(&error, "no such file"), "{error}");
    let error = source.read("short").await.unwrap_err();
    assert!(matches!(error, Error::Truncated { expected: 6, found: 3, .. }), "{error}");
    let error = source.read("page").await.unwrap_err();
    assert!(matches!(&error, Error::Malformed { found, .. } if found.contains("HTML")), "{error}");
    for file in ["absent", "page"] {
        assert_eq!(source.read_optional(file).await, Ok(None));
    }
}

#[wasm_bindgen_test]
async fn an_abort_signal_ends_transfers() {
    source();
    let controller = AbortController::new().unwrap();
    let source =
        FetchSource::new(Fetch::new(Some(controller.signal())), "https://models.example/tiny/");
    let mut stream = source.open("whole").await.unwrap().unwrap();
    assert!(stream.next().await.unwrap().is_some());
    controller.abort();
    let end = loop {
        match stream.next().await {
            Ok(Some(_)) => continue,
            other => break other.map(|chunk| chunk.is_none()),
        }
    };
    assert_eq!(end, Err(Error::Aborted));
    assert_eq!(source.read("unreachable").await, Err(Error::Aborted));
}

#[wasm_bindgen_test]
async fn a_dropped_stream_stops_its_transfer() {
    let stream = source().open("whole").await.unwrap();
    assert_eq!(eval("globalThis.cancelled").unwrap(), 0);
    drop(stream);
    assert_eq!(eval("globalThis.cancelled").unwrap(), 1);
}

/// A checkpoint in chunks whose sizes match no tensor.
#[wasm_bindgen_test]
async fn weights_arrive_as_they_are_on_disk() {
    const FOLDER: &str = "https://models.example/tiny";
    let files = [
        ("config.json", &include_bytes!("goldens/odd_f32/config.json")[..]),
        ("model.safetensors", include_bytes!("goldens/odd_f32/model.safetensors")),
    ];
    let served = js_sys::Object::new();
    for (name, bytes) in files {
        let address = format!("{FOLDER}/{name}").into();
        js_sys::Reflect::set(&served, &address, &js_sys::Uint8Array::from(bytes)).unwrap();
    }
    js_sys::Reflect::set(&js_sys::global(), &"served".into(), &served).unwrap();
    eval(
        "globalThis.fetch = async (address) => {
          let rest = globalThis.served[address];
          return new Response(new ReadableStream({ pull(controller) {
            if (rest.length == 0) return controller.close();
            controller.enqueue(rest.slice(0, 4099));
            rest = rest.subarray(4099);
          } }));
        };",
    )
    .unwrap();

    let source = FetchSource::new(Fetch::new(None), FOLDER);
    let config = ModelConfig::from_json(&source.read("config.json").await.unwrap()).unwrap();
    let checkpoint = Checkpoint::open(&source).await.unwrap();
    let plan = checkpoint.plan(&config, None, &Quantise::KEEP).unwrap();
    let mut sink = HostSink::new();
    checkpoint.load(&plan, &mut sink, |_| ControlFlow::Continue(())).await.unwrap();
    let weights = sink.into_weights();

    // The first tensor of the file is the output matrix.
    let header = u64::from_le_bytes(files[1].1[..8].try_into().unwrap()) as usize;
    let head = &weights.matrices[&tabloom::model::Param::Head][0];
    let mut row = vec![0.0; head.k];
    let stored = files[1].1[8 + header..].chunks(4 * head.k).take(head.n);
    for (i, stored) in stored.enumerate() {
        head.dequantise_row(i, &mut row);
        let bytes: Vec<u8> = row.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(bytes, stored, "row {i}");
    }
    assert_eq!(weights.matrices.len() + weights.vectors.len(), plan.weights.len());
}
