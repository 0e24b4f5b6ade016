"""GGUF files of the other goldens, written by the gguf library.

    gguf/<model>.gguf         the weights of a folder as they are, rows in the order that
                              llama.cpp's converter gives them: the folder's golden.json and
                              logits.bin hold
    gguf/<model>_<type>.gguf  a tiny model in blocks; `mixed` are blocks of all types
      <same name>.json        golden.json of these values, computed by transformers
      <same name>.bin         logits.bin
    gguf/tokenizer_<kind>.gguf
                              the vocabulary of a tokenizer folder, whose golden.json holds
    gguf/blocks.json          blocks of every type with their values, by llama.cpp; not made here
"""

import json
import math

import gguf
import numpy
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM

import golden_models

FLOATS = [
    "llama3_bf16",
    "qwen2_bf16",
    "qwen3_f32",
    "smollm3_bf16",
    "phi3_long_bf16",
    "granite_f32",
    "olmo2_f32",
    "gemma2_bf16",
    "gemma3_bf16",
    "gpt2_f32",
    "mixtral_bf16",
    "gpt_oss_bf16",
]
ARCHITECTURES = {
    "llama": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
    "smollm3": gguf.MODEL_ARCH.SMOLLM3,
    "phi3": gguf.MODEL_ARCH.PHI3,
    "granite": gguf.MODEL_ARCH.GRANITE,
    "olmo2": gguf.MODEL_ARCH.OLMO2,
    "gemma2": gguf.MODEL_ARCH.GEMMA2,
    "gemma3_text": gguf.MODEL_ARCH.GEMMA3,
    "gpt2": gguf.MODEL_ARCH.GPT2,
    "mixtral": gguf.MODEL_ARCH.LLAMA,
    "qwen3_moe": gguf.MODEL_ARCH.QWEN3MOE,
    "gpt_oss": gguf.MODEL_ARCH.GPT_OSS,
}
INTERLEAVED = ["llama", "smollm3", "granite", "mixtral"]
# A layer has matrices of the type; embedding and output are Q8_0, as llama.cpp's mixtures have them.
BLOCKS = {"q4_0": gguf.GGMLQuantizationType.Q4_0, "q4_1": gguf.GGMLQuantizationType.Q4_1}
BLOCK_CONFIG = golden_models.llama(**golden_models.MEDIUM, num_key_value_heads=2)
Q8_0 = gguf.GGMLQuantizationType.Q8_0
# The types of a mixture by layer and matrix; joined matrices differ, as in llama.cpp's mixtures, and gates too.
MIXED = [
    {"q": "Q4_K", "k": "Q4_K", "v": "Q6_K", "o": "Q5_K", "gate": "Q3_K", "up": "Q3_K", "down": "Q2_K"},
    {"q": "IQ4_XS", "k": "IQ4_NL", "v": "Q5_0", "o": "Q5_1", "gate": "MXFP4", "up": "MXFP4", "down": "Q6_K"},
    {"q": "Q6_K", "k": "Q5_K", "v": "Q4_1", "o": "Q3_K", "gate": "Q2_K", "up": "Q2_K", "down": "IQ4_XS"},
]
MIXED_CONFIG = golden_models.llama(
    hidden_size=256, intermediate_size=256, num_attention_heads=4, num_key_value_heads=1, num_hidden_layers=3
)
# The same of experts.
EXPERT_KINDS = {"gate": "Q4_K", "up": "Q4_K", "down": "Q6_K"}
EXPERT_CONFIG = golden_models.llama(
    **golden_models.QWEN3_MOE
    | {
        "hidden_size": 256,
        "moe_intermediate_size": 256,
        "num_experts": 3,
        "num_experts_per_tok": 2,
        "num_hidden_layers": 1,
        "mlp_only_layers": [],
        "rope_scaling": None,
    }
)
# Where the halves that scale a block lie.
HALVES = {"Q2_K": [80, 82], "Q3_K": [108], "Q6_K": [208], "Q4_1": [0, 2], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2]}


def write(out):
    """Writes the folder gguf of `out`, in which the folders of models and tokenizers are."""
    golden_models.prepare()
    folder = out / "gguf"
    folder.mkdir(exist_ok=True)
    for name in FLOATS:
        write_floats(out / name, folder / f"{name}.gguf")
    for suffix, kind in BLOCKS.items():
        write_blocks(folder / f"llama_{suffix}", BLOCK_CONFIG, lambda name, _, kind=kind: kind)
    write_blocks(folder / "llama_mixed", MIXED_CONFIG, mixed_kind)
    write_blocks(folder / "qwen3moe_mixed", EXPERT_CONFIG, expert_kind)
    write_bytes_tokenizer(out / "tokenizer_bytes", folder / "tokenizer_bytes.gguf")
    write_words_tokenizer(out / "tokenizer_words", folder / "tokenizer_words.gguf")


def write_floats(source, path):
    """Writes the tensors of a Hugging Face folder in their own type, norms and biases in f32."""
    config = AutoConfig.from_pretrained(source)
    writer = start(path, config)
    if config.model_type == "llama":
        writer.add_tensor("rope_freqs.weight", rope_factors(config))
    if config.model_type == "phi3":
        for length in ("short", "long"):
            factors = numpy.array(config.rope_parameters[f"{length}_factor"], numpy.float32)
            writer.add_tensor(f"rope_factors_{length}.weight", factors)
    for name, tensor in stacked(load_file(source / "model.safetensors")).items():
        if tensor.dtype == torch.uint8:
            writer.add_tensor(gguf_name(name, config), tensor.numpy(), raw_dtype=gguf.GGMLQuantizationType.MXFP4)
            continue
        tensor = interleaved(name, tensor, config)
        if ".c_" in name and tensor.dim() == 2:
            tensor = tensor.T.contiguous()
        if "gemma" in config.model_type and "norm" in name:
            tensor = tensor.float() + 1
        is_router = name.endswith(("block_sparse_moe.gate.weight", "mlp.router.weight"))
        if tensor.dim() == 1 or tensor.dtype == torch.float32 or is_router or name.endswith("bias"):
            writer.add_tensor(gguf_name(name, config), tensor.float().numpy())
        else:
            raw = tensor.view(torch.uint8).numpy()
            writer.add_tensor(gguf_name(name, config), raw, raw_dtype=gguf.GGMLQuantizationType.BF16)
    finish(writer, path)


def stacked(weights):
    """Joins the matrices of experts; of gpt-oss, makes blocks of MXFP4, and gate and up of their joined rows."""
    joined = {}
    for name, tensor in weights.items():
        block, _, matrix = name.partition(".experts.")
        if matrix[:1].isdigit():
            expert, matrix = matrix.split(".", 1)
            joined.setdefault(f"{block}.experts.{matrix}", {})[int(expert)] = tensor
        elif name.endswith("_blocks"):
            name = name.removesuffix("_blocks")
            joined |= separated(name, mxfp4_blocks(tensor, weights[f"{name}_scales"]))
        elif name.endswith("proj_bias"):
            joined |= separated(name.removesuffix("_bias") + ".bias", tensor)
        elif not name.endswith("_scales"):
            joined[name] = tensor
    return {
        name: torch.stack([tensor[expert] for expert in range(len(tensor))]) if isinstance(tensor, dict) else tensor
        for name, tensor in joined.items()
    }


def separated(name, rows):
    """The rows of gate and up, which take turns; other tensors as they are."""
    if "gate_up" not in name:
        return {name: rows}
    return {name.replace("gate_up", kind): rows[:, i::2].contiguous() for i, kind in enumerate(("gate", "up"))}


def mxfp4_blocks(blocks, scales):
    """Blocks of an exponent and the nibbles of 32 elements, of which byte i has i and i + 16."""
    codes = torch.stack([blocks & 15, blocks >> 4], dim=-1).flatten(-2)
    codes = codes[..., :16] | codes[..., 16:] << 4
    return torch.cat([scales[..., None], codes], dim=-1).flatten(-2)


def write_blocks(path, config, kind_of):
    """Writes a model with quantised matrices, and what transformers makes of their values."""
    config = AutoConfig.for_model(**config)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    for seed in range(golden_models.MAX_SEEDS):
        golden_models.randomise(model, seed, torch.float32)
        stored = quantise(model, kind_of, seed)
        tokens = golden_models.prompt(config.vocab_size, seed)
        greedy, margin = golden_models.continue_greedily(model, tokens)
        if greedy is not None and greedy == golden_models.continue_greedily(golden_models.f16_kv(model), tokens)[0]:
            break
    else:
        raise RuntimeError(f"{path.name}: no seed has a clear greedy continuation")
    writer = start(path.with_suffix(".gguf"), config)
    for name, (tensor, tensor_kind) in stored.items():
        raw = tensor if tensor_kind is None else interleaved(name, tensor, config)
        writer.add_tensor(gguf_name(name, config), raw, raw_dtype=tensor_kind)
    finish(writer, path.with_suffix(".gguf"))
    golden_models.logits(model, tokens).numpy().astype("<f4").tofile(path.with_suffix(".bin"))
    golden = {"tokens": tokens, "greedy": greedy, "margin": round(margin, 4)}
    path.with_suffix(".json").write_text(json.dumps(golden) + "\n")


def mixed_kind(name, layer):
    """The type of a layer's matrix in the mixture."""
    module = name.split(".")[-2].removesuffix("_proj")
    return gguf.GGMLQuantizationType[MIXED[layer][module]]


def expert_kind(name, _):
    """The type of a layer's matrix where only experts are in blocks of fewer bits."""
    matrix = name.rsplit(".", 1)[1].removesuffix("_proj")
    return gguf.GGMLQuantizationType[EXPERT_KINDS[matrix]] if ".experts." in name else Q8_0


def quantise(model, kind_of, seed):
    """Makes blocks of the matrices of a model; returns every tensor as it is to be stored."""
    random = numpy.random.default_rng(seed)
    stored = {}
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1 or name.endswith("mlp.gate.weight"):
            stored[name] = (parameter.detach().numpy(), None)
            continue
        outer = "embed" in name or "lm_head" in name
        # Gate and up of experts, which transformers joins.
        names = [name.replace("gate_up", kind) for kind in ("gate", "up")] if "gate_up" in name else [name]
        values = []
        for name, part in zip(names, parameter.data.chunk(len(names), dim=-2)):
            tensor_kind = Q8_0 if outer else kind_of(name, int(name.split(".")[2]))
            rows = part.reshape(-1, part.shape[-1])
            try:
                blocks = gguf.quants.quantize(rows.numpy(), tensor_kind)
            except NotImplementedError:
                blocks = random_blocks(tensor_kind, rows.shape, random)
            values.append(torch.from_numpy(gguf.quants.dequantize(blocks, tensor_kind).copy()).reshape(part.shape))
            stored[name] = (blocks.reshape(*part.shape[:-1], -1), tensor_kind)
        parameter.data = torch.cat(values, dim=-2)
    return stored


def random_blocks(kind, shape, random):
    """Blocks of random bits, scaled to the size of weights; for types that the library only reads."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (shape[0], shape[1] // elements, size), dtype=numpy.uint8)
    if kind == gguf.GGMLQuantizationType.MXFP4:
        blocks[..., 0] = random.integers(121, 124, blocks.shape[:2])
    else:
        scale(blocks, kind, random.uniform(0.5, 1.5, blocks.shape[:2]))
        values = gguf.quants.dequantize(blocks.reshape(shape[0], -1), kind)
        scale(blocks, kind, random.uniform(0.5, 1.5, blocks.shape[:2]) * 1.5 / shape[1] ** 0.5 / values.std())
    return blocks.reshape(shape[0], -1)


def scale(blocks, kind, factors):
    """Sets the halves that scale each block."""
    for at in HALVES.get(kind.name, [0]):
        # Mins would move all values to one side if they were as large as scales.
        share = 0.5 if at in (2, 82) else 1.0
        blocks[..., at : at + 2] = (factors * share).astype("<f2")[..., None].view(numpy.uint8)


def start(path, config):
    """Begins a file with the sizes of a model."""
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[ARCHITECTURES[config.model_type]])
    if config.model_type == "gpt2":
        return start_gpt2(writer, config)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    rope = config.rope_parameters.get("full_attention", config.rope_parameters)
    writer.add_rope_dimension_count(int(head_dim * rope.get("partial_rotary_factor", 1)))
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    describe(writer, config)
    return writer


def start_gpt2(writer, config):
    """Adds the sizes of GPT-2 under the keys that its files have."""
    writer.add_block_count(config.n_layer)
    writer.add_context_length(config.n_positions)
    writer.add_embedding_length(config.n_embd)
    writer.add_feed_forward_length(4 * config.n_embd)
    writer.add_head_count(config.n_head)
    writer.add_layer_norm_eps(config.layer_norm_epsilon)
    return writer


def describe(writer, config):
    """Adds what only some architectures have."""
    kind = config.model_type
    if kind in ("phi3", "gpt_oss") or "gemma" in kind:
        writer.add_sliding_window(config.sliding_window)
    if kind in ("mixtral", "qwen3_moe", "gpt_oss"):
        writer.add_expert_count(config.num_local_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
    if kind in ("qwen3_moe", "gpt_oss"):
        writer.add_expert_feed_forward_length(getattr(config, "moe_intermediate_size", config.intermediate_size))
    if kind == "gpt_oss":
        yarn = config.rope_parameters
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(yarn["factor"])
        writer.add_rope_scaling_orig_ctx_len(yarn["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_beta_fast(yarn["beta_fast"])
        writer.add_rope_scaling_yarn_beta_slow(yarn["beta_slow"])
    if kind == "phi3":
        original = config.original_max_position_embeddings
        longer = math.log(config.max_position_embeddings / original)
        writer.add_rope_scaling_orig_ctx_len(original)
        writer.add_rope_scaling_attn_factors(math.sqrt(1 + longer / math.log(original)))
    if kind == "granite":
        writer.add_attention_scale(config.attention_multiplier)
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_logit_scale(config.logits_scaling)
    if kind == "gemma2":
        writer.add_attention_scale(config.query_pre_attn_scalar**-0.5)
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if kind == "gemma3_text":
        writer.add_sliding_window_pattern(config.layer_types.index("full_attention") + 1)
        writer.add_rope_freq_base_swa(config.rope_parameters["sliding_attention"]["rope_theta"])
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(config.rope_parameters["full_attention"]["factor"])


def finish(writer, path):
    """Writes what was added."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{path.name}: {path.stat().st_size // 1000} kB")


def gguf_name(name, config):
    """The name of a tensor, by the library's own table."""
    name = name if name.endswith((".weight", ".bias")) else f"{name}.weight"
    table = gguf.get_tensor_name_map(ARCHITECTURES[config.model_type], config.num_hidden_layers)
    # The table of Gemma has no output matrix, though llama.cpp takes one.
    return table.get_name(name, try_suffixes=(".weight", ".bias")) or name.replace("lm_head", "output")


def interleaved(name, rows, config):
    """Puts rows that turn together next to each other, as llama.cpp rotates them; works on blocks too."""
    if config.model_type not in INTERLEAVED or not ("q_proj" in name or "k_proj" in name):
        return rows
    heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
    halves = rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def rope_factors(config):
    """By what the scaling of Llama 3 divides each frequency."""
    model = AutoModelForCausalLM.from_config(config)
    scaled = model.model.rotary_emb.inv_freq.double().numpy()
    dims = numpy.arange(0, 2 * len(scaled), 2) / (2 * len(scaled))
    return (config.rope_parameters["rope_theta"] ** -dims / scaled).astype(numpy.float32)


def start_tokenizer(path, pre, model, tokenizer, template, changes=()):
    """Begins a file with a vocabulary."""
    writer = gguf.GGUFWriter(path, "llama")
    vocab = tokenizer["model"]["vocab"] | {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    tokens = sorted(vocab, key=vocab.get)
    kinds = dict.fromkeys(tokens, gguf.TokenType.NORMAL) | dict(changes)
    for token in tokenizer["added_tokens"]:
        kinds[token["content"]] = gguf.TokenType.CONTROL if token["special"] else gguf.TokenType.USER_DEFINED
    writer.add_tokenizer_model(model)
    if pre:
        writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([int(kinds[token]) for token in tokens])
    writer.add_chat_template(template)
    return writer, vocab


def write_bytes_tokenizer(folder, path):
    """Writes the tokenizer of bytes; no name stands for its split, so it gets that of Llama 3, which splits alike."""
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    template = (folder / "chat_template.jinja").read_text()
    writer, vocab = start_tokenizer(path, "llama-bpe", "gpt2", tokenizer, template)
    writer.add_token_merges([" ".join(merge) for merge in tokenizer["model"]["merges"]])
    writer.add_eos_token_id(vocab["<|im_end|>"])
    writer.add_add_bos_token(False)
    finish(writer, path)


def write_words_tokenizer(folder, path):
    """Writes the tokenizer of words, whose merges become scores."""
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    template = (folder / "chat_template.jinja").read_text()
    raw = {f"<0x{byte:02X}>": gguf.TokenType.BYTE for byte in range(256)}
    writer, vocab = start_tokenizer(path, None, "llama", tokenizer, template, raw)
    merges = ["".join(merge) for merge in tokenizer["model"]["merges"]]
    # Merges to the same token count from the first of them.
    ranks = {token: rank for rank, token in reversed(list(enumerate(merges)))}
    writer.add_token_scores([-float(ranks[token]) if token in ranks else 0.0 for token in sorted(vocab, key=vocab.get)])
    writer.add_bos_token_id(vocab["<s>"])
    writer.add_eos_token_id(vocab["</s>"])
    writer.add_unk_token_id(vocab["<unk>"])
    finish(writer, path)
