"""Tiny random-weight models, with logits and greedy continuations computed by transformers.

Weights are rounded to the type they are stored in (or quantised to int4), the
folder is written and loaded again, and the forward pass of transformers runs in
f32 on exactly what the folder holds.

Random weights of the usual small size would give flat logits and uniform
attention, which hide mistakes. Here they are large enough for logits with a
standard deviation of about 3, norms differ from one, and biases from zero. The
first seed is taken whose greedy continuation is a fair test of the text: at each
step the best logit leads by MIN_MARGIN standard deviations, the continuation has
MIN_DISTINCT different tokens and no end token, and it stays the same when keys
and values are rounded to f16, as a KV cache stores them.
"""

import copy
import json
import shutil
from dataclasses import dataclass

import torch
from compressed_tensors.compressors import PackedQuantizationCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme
from compressed_tensors.quantization.utils import calculate_qparams
from safetensors.torch import load_file, save_file
from transformers import AttentionInterface, AutoConfig, AutoModelForCausalLM
from transformers.integrations.mxfp4 import convert_moe_packed_tensors
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, eager_mask, sdpa_mask
from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward
from transformers.models.gpt_oss import modeling_gpt_oss
from transformers.utils import logging

PROMPT_TOKENS = 24
GREEDY_TOKENS = 32
MIN_MARGIN = 0.05
MIN_DISTINCT = 12
MAX_SEEDS = 10_000
TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Spec:
    """One folder: its name ends in the stored type; `config` is in the form of published models."""

    name: str
    config: dict
    rope_parameters: bool = False  # write config.json as transformers 5 does, with `rope_parameters`
    max_shard: str = "1GB"
    int4: QuantizationArgs | None = None
    mxfp4: bool = False  # the experts, as gpt-oss has them

    @property
    def dtype(self):
        return TYPES[self.name.rsplit("_", 1)[1]]


def llama(**changes):
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": 128,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "rope_scaling": None,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
    } | changes


MEDIUM = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4}
# The base of 32 positions puts one frequency of a 16-wide head above the scaled
# band, one inside it and the rest below, all within prompt and continuation.
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
MISTRAL = {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": None}
QWEN2 = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "sliding_window": 128,
    "max_window_layers": 2,
    "use_sliding_window": False,
}
# In these tiny models nothing is small enough for an epsilon of the usual size to matter.
LARGE_EPS = {"rms_norm_eps": 5e-2}
QWEN3 = QWEN2 | {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "sliding_window": None,
    "head_dim": 16,
}
SMALL = {"intermediate_size": 48, "num_key_value_heads": 1}
SMOLLM3 = SMALL | {
    "architectures": ["SmolLM3ForCausalLM"],
    "model_type": "smollm3",
    "num_hidden_layers": 4,
    "no_rope_layer_interval": 4,
    "tie_word_embeddings": True,
    "pad_token_id": 0,
}
PHI3 = SMALL | {
    "architectures": ["Phi3ForCausalLM"],
    "model_type": "phi3",
    "partial_rotary_factor": 0.75,
    "sliding_window": None,
    "pad_token_id": 0,
}
GRANITE = SMALL | {
    "architectures": ["GraniteForCausalLM"],
    "model_type": "granite",
    "embedding_multiplier": 0.75,
    "attention_multiplier": 0.4,
    "residual_multiplier": 0.6,
    "logits_scaling": 1.7,
}
OLMO2 = SMALL | {
    "architectures": ["Olmo2ForCausalLM"],
    "model_type": "olmo2",
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "pad_token_id": 0,
}
# Windows are shorter than the prompt, and the last layer of a pattern has none. Published models are
# tied, but random ones that are, with embeddings so large, say the same token again and again.
GEMMA = SMALL | {
    "hidden_act": "gelu_pytorch_tanh",
    "hidden_activation": "gelu_pytorch_tanh",
    "sliding_window": 9,
    "tie_word_embeddings": False,
    "pad_token_id": 0,
}
GEMMA2 = GEMMA | {
    "architectures": ["Gemma2ForCausalLM"],
    "model_type": "gemma2",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "query_pre_attn_scalar": 10,
    "attn_logit_softcapping": 4.0,
    "final_logit_softcapping": 12.0,
}
GEMMA3 = GEMMA | {
    "architectures": ["Gemma3ForCausalLM"],
    "model_type": "gemma3_text",
    "num_hidden_layers": 3,
    "head_dim": 24,
    "query_pre_attn_scalar": 24,
    "sliding_window_pattern": 3,
    "rope_theta": 1000000.0,
    "rope_local_base_freq": 100.0,
    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
}
GPT2 = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "activation_function": "gelu_new",
    "vocab_size": 131,
    "n_ctx": 96,
    "n_embd": 48,
    "n_head": 2,
    "n_layer": 2,
    "n_positions": 96,
    "layer_norm_epsilon": 5e-2,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
# As published: a text model within one that also sees images.
GEMMA3_IMAGES = {
    "architectures": ["Gemma3ForConditionalGeneration"],
    "model_type": "gemma3",
    "mm_tokens_per_image": 1,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "vision_config": {
        "model_type": "siglip_vision_model",
        "hidden_size": 8,
        "intermediate_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "image_size": 16,
        "patch_size": 8,
    },
}


EXPERTS = {"num_experts_per_tok": 2, "num_local_experts": 5, "output_router_logits": False}
MIXTRAL = EXPERTS | {
    "architectures": ["MixtralForCausalLM"],
    "model_type": "mixtral",
    "hidden_size": 48,
    "intermediate_size": 40,
    "num_key_value_heads": 1,
    "sliding_window": None,
}
# One layer of the three has no experts. Prompt and continuation lie beyond the original context.
QWEN3_MOE = QWEN3 | {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "num_hidden_layers": 3,
    "num_key_value_heads": 1,
    "intermediate_size": 48,
    "moe_intermediate_size": 24,
    "num_experts": 6,
    "num_experts_per_tok": 3,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [1],
    "norm_topk_prob": True,
    "rope_theta": 10000.0,
    "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
}
GPT_OSS = EXPERTS | {
    "architectures": ["GptOssForCausalLM"],
    "model_type": "gpt_oss",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 24,
    "num_hidden_layers": 2,
    "layer_types": ["sliding_attention", "full_attention"],
    "sliding_window": 9,
    "swiglu_limit": 7.0,
    "attention_bias": True,
    "rope_theta": 1000.0,
    "rope_scaling": {
        "rope_type": "yarn",
        "factor": 8.0,
        "beta_fast": 4.0,
        "beta_slow": 1.0,
        "truncate": False,
        "original_max_position_embeddings": 16,
    },
    "pad_token_id": 0,
}


def longrope(original_context, dims):
    """LongRoPE, whose factors differ much between short and long contexts."""
    return {
        "original_max_position_embeddings": original_context,
        "rope_scaling": {
            "type": "longrope",
            "short_factor": [1 + i / dims for i in range(dims)],
            "long_factor": [2 + i for i in range(dims)],
        },
    }


def int4(symmetric, group_size=None):
    strategy = "group" if group_size else "channel"
    return QuantizationArgs(num_bits=4, type="int", symmetric=symmetric, strategy=strategy, group_size=group_size)


SPECS = [
    Spec("llama2_f32", llama()),
    Spec(
        "llama3_bf16",
        llama(**MEDIUM, num_key_value_heads=2, rope_theta=500000.0, rope_scaling=LLAMA3_ROPE, tie_word_embeddings=True),
    ),
    Spec(
        "llama_linear_f32",
        llama(num_key_value_heads=1, rope_scaling={"rope_type": "linear", "factor": 4.0}),
        rope_parameters=True,
    ),
    Spec("llama_sharded_f32", llama(num_key_value_heads=1), max_shard="60KB"),
    Spec("smollm2_bf16", llama(**MEDIUM, num_key_value_heads=1, rope_theta=100000.0, tie_word_embeddings=True)),
    Spec("mistral_f16", llama(**MEDIUM | MISTRAL, num_key_value_heads=1, head_dim=32)),
    Spec("qwen2_bf16", llama(**MEDIUM | QWEN2, num_key_value_heads=2, tie_word_embeddings=True)),
    Spec("qwen3_f32", llama(**QWEN3 | LARGE_EPS, num_attention_heads=4, num_key_value_heads=2), rope_parameters=True),
    Spec(
        "odd_f32",
        llama(**LARGE_EPS, vocab_size=131, hidden_size=48, intermediate_size=172, num_key_value_heads=1),
    ),
    Spec("smollm3_bf16", llama(**SMOLLM3), rope_parameters=True),
    # Prompt and continuation lie beyond the original context of one and within that of the other.
    Spec(
        "phi3_long_bf16",
        llama(
            **PHI3 | {"sliding_window": 20, "tie_word_embeddings": True} | longrope(16, 12),
            hidden_size=64,
        ),
    ),
    Spec("phi3_short_f32", llama(**PHI3 | longrope(64, 6)), rope_parameters=True),
    Spec("granite_f32", llama(**GRANITE)),
    Spec("olmo2_f32", llama(**OLMO2 | LARGE_EPS)),
    Spec("gemma2_bf16", llama(**GEMMA2)),
    Spec("gemma3_bf16", llama(**GEMMA3 | LARGE_EPS)),
    Spec(
        "gemma3_images_bf16",
        GEMMA3_IMAGES | {"text_config": llama(**GEMMA3 | {"num_hidden_layers": 2, "sliding_window_pattern": 2})},
    ),
    Spec("gpt2_f32", GPT2),
    Spec("ct_int4_sym_g32_bf16", llama(**MEDIUM, num_key_value_heads=2), int4=int4(True, 32)),
    Spec(
        "ct_int4_asym_g64_bf16",
        llama(
            **QWEN2,
            hidden_size=128,
            intermediate_size=128,
            num_attention_heads=4,
            num_key_value_heads=2,
            tie_word_embeddings=True,
        ),
        int4=int4(False, 64),
    ),
    Spec("ct_int4_sym_channel_bf16", llama(**MEDIUM, num_key_value_heads=2), int4=int4(True)),
    Spec("mixtral_bf16", llama(**MIXTRAL)),
    Spec("qwen3_moe_f32", llama(**QWEN3_MOE)),
    Spec(
        "ct_int4_moe_g32_bf16",
        llama(
            **QWEN3_MOE
            | {
                "hidden_size": 64,
                "intermediate_size": 64,
                "moe_intermediate_size": 64,
                "num_hidden_layers": 2,
                "mlp_only_layers": [],
                "norm_topk_prob": False,
                "rope_scaling": None,
            }
        ),
        int4=int4(True, 32),
    ),
    Spec("gpt_oss_bf16", llama(**GPT_OSS), mxfp4=True),
]


def write(out):
    """Writes one folder per entry of SPECS and prints a line about each."""
    prepare()
    for spec in SPECS:
        print(make(spec, out / spec.name), flush=True)


def prepare():
    """Sets transformers up to compute in one order of sums, also with keys and values in f16."""
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    AttentionInterface.register("f16_kv", f16_kv_attention)
    AttentionMaskInterface.register("f16_kv", f16_kv_mask)


def make(spec, folder):
    """Writes the folder of one spec and returns a line about it."""
    config = AutoConfig.for_model(**spec.config)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    for seed in range(MAX_SEEDS):
        randomise(model, seed, spec.dtype)
        packed = quantise(model, spec.int4) if spec.int4 else quantise_mxfp4(model) if spec.mxfp4 else {}
        tokens = prompt(config.get_text_config().vocab_size, seed)
        greedy, _ = continue_greedily(model, tokens)
        if greedy is not None and greedy == continue_greedily(f16_kv(model), tokens)[0]:
            break
    else:
        raise RuntimeError(f"{spec.name}: no seed below {MAX_SEEDS} has a clear greedy continuation")

    shutil.rmtree(folder, ignore_errors=True)
    save(model, spec, packed, folder)
    model = load(folder)
    loaded_greedy, margin = continue_greedily(model, tokens)
    if loaded_greedy != greedy:
        raise RuntimeError(f"{spec.name}: the folder continues differently from the weights it was made of")
    rows = logits(model, tokens)
    rows.numpy().astype("<f4").tofile(folder / "logits.bin")
    golden = {
        "seed": seed,
        "tokens": tokens,
        "logits_shape": list(rows.shape),
        "greedy": greedy,
        "min_margin": round(margin, 4),  # of a greedy choice, in standard deviations of its logits
    }
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")
    return (
        f"{spec.name:25} {sum(file.stat().st_size for file in folder.iterdir()) // 1000:4} kB  seed {seed:4}  "
        f"margin {margin:.3f}  distinct {len(set(greedy)):2}  logit std {rows.std():.2f}  "
        f"NMSE with f16 KV {nmse(logits(f16_kv(model), tokens), rows):.1e}"
    )


def randomise(model, seed, dtype):
    """Fills every parameter with seeded noise that `dtype` can hold."""
    generator = torch.Generator().manual_seed(seed)
    is_gemma = "gemma" in model.config.model_type
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        # Of GPT-2, matrices of layers are transposed, and of gpt-oss those of experts.
        is_transposed = ".c_" in name or model.config.model_type == "gpt_oss" and weight.dim() == 3
        inputs = weight.shape[-2 if is_transposed and weight.dim() > 1 else -1]
        if "norm" in name or ".ln_" in name and name.endswith("weight"):
            noise = 1 + noise.clamp(-2, 2) / 4
            noise = noise - int(is_gemma)  # which adds one itself
        elif name.endswith("bias"):
            noise = noise / 2
        elif name.endswith("sinks"):
            noise = noise + 1
        elif "lm_head" in name or (model.config.tie_word_embeddings and ("embed_tokens" in name or ".wte" in name)):
            noise = noise * 3 / weight.shape[1] ** 0.5
        elif is_gemma and "embed_tokens" in name:
            noise = noise / weight.shape[1] ** 0.5  # by which it multiplies
        elif "embed_tokens" not in name and ".wte" not in name and ".wpe" not in name:
            # An offset for each row moves the zero points of asymmetric int4 weights apart.
            noise = noise + torch.randn((*weight.shape[:-1], 1), generator=generator) / 2
            noise = noise * 1.5 / inputs**0.5
        weight.data = noise.to(dtype).float()


def prompt(vocab_size, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, vocab_size, (PROMPT_TOKENS,), generator=generator).tolist()


@torch.no_grad()
def logits(model, tokens):
    """Returns the logits of every position, [tokens][vocabulary]."""
    return model(torch.tensor([tokens]), use_cache=False).logits[0]


def continue_greedily(model, tokens):
    """Returns the greedy continuation and its smallest margin, or (None, None) if it is no fair test."""
    known, smallest = list(tokens), float("inf")
    for _ in range(GREEDY_TOKENS):
        last = logits(model, known)[-1]
        best = last.topk(2)
        margin = ((best.values[0] - best.values[1]) / last.std()).item()
        if margin < MIN_MARGIN:
            return None, None
        smallest = min(smallest, margin)
        known.append(best.indices[0].item())
    greedy = known[len(tokens) :]
    fair = len(set(greedy)) >= MIN_DISTINCT and model.config.eos_token_id not in greedy
    return (greedy, smallest) if fair else (None, None)


def f16_kv(model):
    """Returns the same weights with keys and values rounded to f16 before attention."""
    model = copy.deepcopy(model)
    model.set_attn_implementation("f16_kv")
    return model


def f16_kv_attention(module, query, key, value, *args, **kwargs):
    attention = sdpa_attention_forward
    if kwargs.get("softcap") is not None:
        attention = eager_attention_forward
    elif kwargs.get("s_aux") is not None:
        attention = modeling_gpt_oss.eager_attention_forward
    return attention(module, query, key.half().float(), value.half().float(), *args, **kwargs)


def f16_kv_mask(*args, config=None, **kwargs):
    eager = getattr(config, "attn_logit_softcapping", None) is not None or config.model_type == "gpt_oss"
    return (eager_mask if eager else sdpa_mask)(*args, config=config, **kwargs)


def nmse(found, expected):
    return ((found - expected).square().sum() / expected.square().sum()).item()


def quantise(model, args):
    """Quantises all linear layers but the head; returns their packed tensors by name.

    The weights in `model` become (q - zero) * scale in f32, without the rounding
    to the type of the scales that loading in bf16 adds.
    """
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    packed = {}
    for name, weight in matrices(model):
        groups = weight.unflatten(1, (-1, args.group_size or weight.shape[1]))
        scale, zero = calculate_qparams(groups.amin(2), groups.amax(2), args)
        state = {"weight": weight, "weight_scale": scale.bfloat16().float(), "weight_zero_point": zero}
        state = PackedQuantizationCompressor.compress(state, scheme)
        weight.copy_(PackedQuantizationCompressor.decompress(state, scheme)["weight"])
        state["weight_scale"] = state["weight_scale"].bfloat16()
        packed |= {f"{name}.{key}": tensor for key, tensor in state.items()}
    return packed


def matrices(model):
    """Yields every matrix of the layers but the routers, those of experts one by one as they are published."""
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and name != "lm_head":
            yield name, module.weight.data
        elif name.endswith("experts"):
            for expert, (gate_up, down) in enumerate(zip(module.gate_up_proj.data, module.down_proj.data)):
                gate, up = gate_up.chunk(2)
                for kind, weight in (("gate", gate), ("up", up), ("down", down)):
                    yield f"{name}.{expert}.{kind}_proj", weight


def quantise_mxfp4(model):
    """Rounds experts to MXFP4; returns their blocks and scales, which transformers turns into weights."""
    values = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
    packed = {}
    for name, weight in model.named_parameters():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            continue
        groups = weight.data.transpose(1, 2).unflatten(2, (-1, 32))
        exponent = (groups.abs().amax(3).log2().floor() - 2).int()
        scaled = groups / exponent.exp2()[..., None]
        codes = (scaled.abs()[..., None] - values).abs().argmin(-1) + 8 * (scaled < 0)
        blocks = (codes[..., ::2] + 16 * codes[..., 1::2]).to(torch.uint8)
        scales = (exponent + 127).to(torch.uint8)
        weight.data = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32).contiguous()
        packed |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
    return packed


def save(model, spec, packed, folder):
    """Writes config.json, generation_config.json and the safetensors of one spec."""
    copy.deepcopy(model).to(spec.dtype).save_pretrained(folder, max_shard_size=spec.max_shard)
    if packed:
        weights = load_file(folder / "model.safetensors")
        quantised = {key.rsplit("_", 1)[0] if spec.mxfp4 else key.rsplit(".", 1)[0] + ".weight" for key in packed}
        weights = {name: weight for name, weight in weights.items() if name not in quantised}
        save_file(weights | packed, folder / "model.safetensors", metadata={"format": "pt"})
    if not spec.rope_parameters:
        config = spec.config | {"torch_dtype": str(spec.dtype).removeprefix("torch."), "transformers_version": "4.51.0"}
        if spec.int4:
            config["quantization_config"] = quantization_config(spec.int4)
        if spec.mxfp4:
            config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def quantization_config(args):
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    return QuantizationConfig(
        config_groups={"group_0": scheme},
        format="pack-quantized",
        quantization_status="compressed",
        ignore=["lm_head"],
    ).to_dict()


def load(folder):
    """Loads a folder in f32, with int4 weights as (q - zero) * scale.

    The pinned transformers cannot load packed zero points, so int4 folders are
    unpacked here, by the compressed-tensors library.
    """
    config = AutoConfig.from_pretrained(folder)
    if config.model_type == "gpt_oss":
        return load_mxfp4(config, folder)
    if not hasattr(config, "quantization_config"):
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    weights = unpack(folder, config.quantization_config)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    stack_experts(weights)
    expected = {name for name, _ in model.named_parameters()}  # a tied head is not among them
    if set(weights) != expected:
        raise RuntimeError(f"{folder}: these weights are missing or unknown: {set(weights) ^ expected}")
    model.load_state_dict(weights, strict=False)
    return model


def unpack(folder, quantization):
    """Returns the weights of a compressed-tensors folder by name, in f32."""
    scheme = QuantizationConfig.model_validate(quantization).config_groups["group_0"]
    stored = load_file(folder / "model.safetensors")
    modules = {}
    for name, tensor in stored.items():
        module, _, parameter = name.rpartition(".")
        modules.setdefault(module, {})[parameter] = tensor.float() if tensor.is_floating_point() else tensor
    weights = {}
    for module, state in modules.items():
        if "weight_packed" in state:
            state = PackedQuantizationCompressor.decompress(state, scheme)
        weights |= {f"{module}.{name}": state[name] for name in ("weight", "bias") if name in state}
    return weights


def load_mxfp4(config, folder):
    """Loads a folder in f32, with the values that transformers reads from blocks and scales."""
    weights = {name: tensor for name, tensor in load_file(folder / "model.safetensors").items()}
    for name in [name for name in weights if name.endswith("_blocks")]:
        name = name.removesuffix("_blocks")
        blocks, scales = weights.pop(f"{name}_blocks"), weights.pop(f"{name}_scales")
        weights[name] = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    model.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
    return model


def stack_experts(weights):
    """Joins the matrices of experts as transformers holds them."""
    for block in {name.split(".experts.")[0] for name in weights if ".experts." in name}:
        count = len([name for name in weights if name.startswith(f"{block}.experts.")]) // 3
        take = lambda kind: [weights.pop(f"{block}.experts.{expert}.{kind}_proj.weight") for expert in range(count)]
        gates, ups, downs = take("gate"), take("up"), take("down")
        weights[f"{block}.experts.gate_up_proj"] = torch.stack([torch.cat(pair) for pair in zip(gates, ups)])
        weights[f"{block}.experts.down_proj"] = torch.stack(downs)
