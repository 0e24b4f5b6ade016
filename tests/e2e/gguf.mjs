// A model in a GGUF file, made of numbers that mean nothing.

const F16 = 1;

/**
 * A GGUF file with the 256 bytes and one merge of two as its vocabulary: 34 MB for 1024 hidden dimensions, the last half of a MB
 * in a piece of its own.
 *
 * @param {number} hidden a multiple of 64
 */
export function ggufModel(hidden) {
  /** @typedef {[number, Buffer]} Value with its type */
  const u32 = (value) => /** @type {Value} */ ([4, number(4, value)]);
  const text = (value) => /** @type {Value} */ ([8, string(value)]);
  const list = (kind, items) =>
    /** @type {Value} */ ([9, Buffer.concat([number(4, kind), number(8, items.length), ...items])]);
  const tokens = [...bytesAsText(), "th"].map(string);
  const epsilon = Buffer.alloc(4);
  epsilon.writeFloatLE(1e-5);
  /** @type {Record<string, Value>} */
  const metadata = {
    "general.architecture": text("llama"),
    "llama.block_count": u32(1),
    "llama.context_length": u32(256),
    "llama.embedding_length": u32(hidden),
    "llama.feed_forward_length": u32(4 * hidden),
    "llama.attention.head_count": u32(hidden / 64),
    "llama.attention.layer_norm_rms_epsilon": [6, epsilon],
    "tokenizer.ggml.model": text("gpt2"),
    "tokenizer.ggml.pre": text("gpt-2"),
    "tokenizer.ggml.tokens": list(8, tokens),
    "tokenizer.ggml.merges": list(8, [string("t h")]),
    "tokenizer.ggml.eos_token_id": u32(0),
  };
  const keys = Object.entries(metadata);
  const [square, wide, tall] = [
    [hidden, hidden],
    [hidden, 4 * hidden],
    [4 * hidden, hidden],
  ];
  const tensors = Object.entries({
    "token_embd.weight": [hidden, tokens.length],
    "blk.0.attn_norm.weight": [hidden],
    "blk.0.attn_q.weight": square,
    "blk.0.attn_k.weight": square,
    "blk.0.attn_v.weight": square,
    "blk.0.attn_output.weight": square,
    "blk.0.ffn_norm.weight": [hidden],
    "blk.0.ffn_gate.weight": wide,
    "blk.0.ffn_up.weight": wide,
    "blk.0.ffn_down.weight": tall,
    "output_norm.weight": [hidden],
  });
  let end = 0;
  const described = tensors.map(([name, shape]) => {
    const sizes = shape.map((size) => number(8, size));
    const tensor = [string(name), number(4, shape.length), ...sizes, number(4, F16), number(8, end)];
    end += 2 * shape.reduce((a, b) => a * b);
    return Buffer.concat(tensor);
  });
  const header = Buffer.concat([
    Buffer.from("GGUF"),
    number(4, 3),
    number(8, tensors.length),
    number(8, keys.length),
    ...keys.flatMap(([key, [kind, value]]) => [string(key), number(4, kind), value]),
    ...described,
  ]);
  return Buffer.concat([header, Buffer.alloc(-header.length & 31), halves(end / 2)]);
}

/** @param {string} text */
function string(text) {
  const bytes = Buffer.from(text);
  return Buffer.concat([number(8, bytes.length), bytes]);
}

function number(bytes, value) {
  const buffer = Buffer.alloc(bytes);
  buffer.writeUIntLE(value, 0, Math.min(bytes, 6));
  return buffer;
}

/** GPT-2's character of each byte: itself where it can be seen, otherwise one from 256 on. */
function bytesAsText() {
  let next = 256;
  const isSeen = (byte) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(isSeen(byte) ? byte : next++));
}

/** Halves between 0.03 and 0.06, no two pages alike. */
export function halves(count) {
  const data = new Uint16Array(count);
  for (let i = 0; i < data.length; i++) data[i] = 0x2800 + ((i + (i >> 12)) & 0x3ff);
  return Buffer.from(data.buffer);
}
