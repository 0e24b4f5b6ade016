// A model that is too large to come in one piece, made of numbers that mean nothing.
import { halves } from "./gguf.mjs";
import { modelFile } from "./server.mjs";

/**
 * The files of a model with one layer and the built-in vocabulary: 38 MB for 1024 hidden dimensions.
 *
 * @param {number} hidden a multiple of 128
 */
export async function largeModel(hidden) {
  const config = JSON.parse(`${await modelFile("config.json")}`);
  const intermediate = 4 * hidden;
  Object.assign(config, {
    hidden_size: hidden,
    intermediate_size: intermediate,
    num_hidden_layers: 1,
    num_attention_heads: hidden / 64,
    num_key_value_heads: hidden / 64,
    head_dim: 64,
    tie_word_embeddings: true,
    quantization_config: undefined,
  });
  const layer = "model.layers.0.";
  const matrix = (name) => [`${layer}self_attn.${name}_proj.weight`, [hidden, hidden]];
  const shapes = Object.fromEntries([
    ["model.embed_tokens.weight", [config.vocab_size, hidden]],
    [`${layer}input_layernorm.weight`, [hidden]],
    [`${layer}mlp.down_proj.weight`, [hidden, intermediate]],
    [`${layer}mlp.gate_proj.weight`, [intermediate, hidden]],
    [`${layer}mlp.up_proj.weight`, [intermediate, hidden]],
    [`${layer}post_attention_layernorm.weight`, [hidden]],
    ...["k", "o", "q", "v"].map(matrix),
    ["model.norm.weight", [hidden]],
  ]);
  let end = 0;
  const header = {};
  for (const [name, shape] of Object.entries(shapes)) {
    const start = end;
    end += shape.reduce((a, b) => a * b) * 2;
    header[name] = { dtype: "F16", shape, data_offsets: [start, end] };
  }
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  const weights = Buffer.concat([length, json, halves(end / 2)]);
  return { "config.json": JSON.stringify(config), "model.safetensors": weights };
}
