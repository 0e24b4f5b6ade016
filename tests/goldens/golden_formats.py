"""Tiny models in the quantised formats that other tools publish.

    formats/<name>/         a folder as golden_models.py writes it; the name ends in the type of what
                            is not quantised
      golden.json, logits.bin
                            computed by transformers in f32 from the weights that the folder's
                            bytes stand for; activations are never quantised

Each format is written and read by its codec in golden_codecs.py, which says which
library computes what. The embedding is tied, to keep the files small, unless the
format quantises the head.
"""

import json
import shutil
from dataclasses import dataclass

import mlx.core as mx
import torch
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme, preset_name_to_scheme
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

import golden_models
from golden_codecs import (
    Awq,
    Bnb4,
    BnbInt8,
    Codec,
    CompressedTensors,
    Fp8Block,
    Fp8Tensor,
    Gptq,
    Hqq,
    Mixed,
    Mlx,
    Reordered,
    TorchaoInt4,
)

SIZES = {
    "vocab_size": 96,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
}
LLAMA = golden_models.llama(**SIZES)
QWEN2 = golden_models.llama(**golden_models.QWEN2 | SIZES)
ONE_LAYER = {"num_hidden_layers": 1}
# For formats of a byte a weight.
SMALL = ONE_LAYER | {"intermediate_size": 128}
SMALLER = ONE_LAYER | {"intermediate_size": 96}
PARTIAL_BLOCKS = ONE_LAYER | {"intermediate_size": 192}


@dataclass(frozen=True)
class Spec:
    """One folder: its name ends in the type of what is not quantised."""

    name: str
    config: dict
    codec: Codec

    @property
    def dtype(self):
        return golden_models.TYPES[self.name.rsplit("_", 1)[1]]


def scheme(weights=None, preset=None, targets=("Linear",)):
    """A scheme of compressed-tensors for the weights alone, or one that its recipes name."""
    if preset:
        return preset_name_to_scheme(preset, list(targets))
    return QuantizationScheme(targets=list(targets), weights=weights)


INT8 = QuantizationArgs(num_bits=8, type="int", symmetric=True, strategy="channel")
INT4 = QuantizationArgs(num_bits=4, type="int", symmetric=True, strategy="group", group_size=32)
MIXED = (("model.embed_tokens", None), ("model.layers.0.mlp.down_proj", 8), ("model.layers.0.self_attn.v_proj", 8))
# Classes, names and patterns; joined matrices whose parts are in two formats or three.
GROUPS = Mixed(
    groups=(
        CompressedTensors("pack-quantized", scheme(INT4)),
        CompressedTensors(
            "float-quantized", scheme(preset="FP8_DYNAMIC", targets=[r"re:.*self_attn\.v_proj$", "re:.*up_proj"])
        ),
        CompressedTensors("pack-quantized", scheme(INT8, targets=["model.layers.0.mlp.down_proj"])),
    ),
    ignore=("lm_head", "re:.*k_proj"),
)
SPECS = [
    Spec("mlx_q4_g64_bf16", LLAMA | {"tie_word_embeddings": False}, Mlx(4, 64, mx.bfloat16)),
    Spec("mlx_q8_g64_f16", QWEN2 | SMALL, Mlx(8, 64, mx.float16)),
    Spec("mlx_q4_mixed_g64_bf16", QWEN2 | SMALL, Mlx(4, 64, mx.bfloat16, MIXED)),
    Spec("awq_gemm_g128_f16", LLAMA | ONE_LAYER, Awq("gemm", 128)),
    Spec("awq_gemv_g64_f16", QWEN2 | ONE_LAYER, Awq("gemv", 64)),
    Spec("gptq_v1_sym_g128_f16", LLAMA | ONE_LAYER, Gptq(1, True, 128, biases=True)),
    Spec("gptq_v2_asym_g32_f16", QWEN2 | ONE_LAYER, Gptq(2, False, 32)),
    Spec("gptq_v1_asym_g64_f16", LLAMA | ONE_LAYER, Gptq(1, False, 64, wraps=True)),
    Spec("gptq_act_order_g32_f16", QWEN2 | ONE_LAYER, Gptq(1, True, 32, act_order=True)),
    Spec("gptq_int8_g32_f16", QWEN2 | SMALLER, Gptq(1, True, 32, bits=8)),
    Spec("ct_int8_naive_bf16", LLAMA | SMALLER, CompressedTensors("int-quantized", scheme(INT8))),
    Spec("ct_int8_packed_bf16", LLAMA | SMALLER, CompressedTensors("pack-quantized", scheme(INT8))),
    Spec("ct_int8_w8a8_bf16", QWEN2 | SMALLER, CompressedTensors("int-quantized", scheme(preset="INT8"))),
    Spec("ct_fp8_channel_bf16", QWEN2 | SMALLER, CompressedTensors("float-quantized", scheme(preset="FP8_DYNAMIC"))),
    Spec("ct_fp8_tensor_bf16", LLAMA | SMALLER, CompressedTensors("float-quantized", scheme(preset="FP8"))),
    Spec("ct_mxfp4_bf16", LLAMA | ONE_LAYER, CompressedTensors("mxfp4-pack-quantized", scheme(preset="MXFP4A16"))),
    Spec("ct_int4_act_order_g32_bf16", LLAMA | ONE_LAYER, Reordered("pack-quantized", scheme(INT4))),
    Spec("ct_int4_orders_g32_bf16", LLAMA | SMALL, Reordered("pack-quantized", scheme(INT4), apart=True)),
    Spec("ct_mixed_bf16", LLAMA | SMALLER, GROUPS),
    Spec("fp8_block_f32_scales_bf16", LLAMA | PARTIAL_BLOCKS, Fp8Block(torch.float32)),
    Spec("fp8_block_bf16_scales_bf16", QWEN2 | SMALLER, Fp8Block(torch.bfloat16)),
    Spec("fp8_tensor_bf16", LLAMA | SMALLER, Fp8Tensor()),
    Spec("bnb_nf4_nested_bf16", LLAMA | ONE_LAYER, Bnb4("nf4", nested=True)),
    Spec("bnb_fp4_bf16", QWEN2 | ONE_LAYER, Bnb4("fp4", nested=False)),
    Spec("bnb_int8_f16", LLAMA | SMALLER, BnbInt8()),
    Spec("hqq_int4_g64_bf16", QWEN2 | ONE_LAYER, Hqq(64, torch.bfloat16)),
    Spec("torchao_int4_g128_bf16", LLAMA | ONE_LAYER, TorchaoInt4(128)),
]


def write(out):
    """Writes one folder per entry of SPECS into `out`/formats and prints a line about each."""
    golden_models.prepare()
    for spec in SPECS:
        print(make(spec, out / "formats" / spec.name), flush=True)


def make(spec, folder):
    """Writes the folder of one spec and returns a line about it."""
    config = AutoConfig.for_model(**spec.config)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    for seed in range(golden_models.MAX_SEEDS):
        golden_models.randomise(model, seed, spec.dtype)
        stored = quantise(model, spec)
        tokens = golden_models.prompt(config.vocab_size, seed)
        greedy, _ = golden_models.continue_greedily(model, tokens)
        if greedy is None:
            continue
        if greedy == golden_models.continue_greedily(golden_models.f16_kv(model), tokens)[0]:
            break
    else:
        raise RuntimeError(f"{spec.name}: no seed has a clear greedy continuation")

    shutil.rmtree(folder, ignore_errors=True)
    save(spec, stored, folder)
    model = load(spec, folder)
    loaded_greedy, margin = golden_models.continue_greedily(model, tokens)
    if loaded_greedy != greedy:
        raise RuntimeError(f"{spec.name}: the folder continues differently from the weights it was made of")
    rows = golden_models.logits(model, tokens)
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
        f"margin {margin:.3f}  distinct {len(set(greedy)):2}  logit std {rows.std():.2f}"
    )


def quantise(model, spec):
    """Makes the weights of `model` what their stored form stands for; returns every tensor to store by name."""
    modules = [(name, module) for name, module in model.named_modules() if spec.codec.covers(name)]
    packed = {}
    for name, module in modules:
        if name == "lm_head" and model.config.tie_word_embeddings:
            continue
        state = spec.codec.pack(module.weight.data, name)
        module.weight.data = spec.codec.unpack(state, name)
        packed |= {f"{name}.{key}": part for key, part in state.items()}
    matrices = {f"{name}.weight" for name, _ in modules}
    rest = {name: part.detach().to(spec.dtype) for name, part in model.named_parameters() if name not in matrices}
    return packed | rest


def save(spec, stored, folder):
    """Writes config.json and the safetensors of one spec."""
    folder.mkdir(parents=True)
    tensors, metadata = spec.codec.file({name: part.contiguous().clone() for name, part in stored.items()})
    save_file(tensors, folder / "model.safetensors", metadata=metadata)
    sort_metadata(folder / "model.safetensors", metadata)
    config = spec.config | {"torch_dtype": str(spec.dtype).removeprefix("torch."), "transformers_version": "4.51.0"}
    (folder / "config.json").write_text(json.dumps(config | spec.codec.config(), indent=2) + "\n")


def sort_metadata(path, metadata):
    """Puts the metadata, which the library writes in any order, in that of the names."""
    file = path.read_bytes()
    end = 8 + int.from_bytes(file[:8], "little")
    header = json.loads(file[8:end]) | {"__metadata__": dict(sorted(metadata.items()))}
    text = json.dumps(header, separators=(",", ":")).encode()
    path.write_bytes(file[:8] + text.ljust(end - 8) + file[end:])


def load(spec, folder):
    """Loads a folder in f32, with the weights that its bytes stand for."""
    config = AutoConfig.for_model(**spec.config)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    stored = load_file(folder / "model.safetensors")
    weights = {}
    for name, parameter in model.named_parameters():
        module, kind = name.rsplit(".", 1)
        if kind == "weight" and spec.codec.covers(module):
            prefix = f"{module}."
            state = {key.removeprefix(prefix): part for key, part in stored.items() if key.startswith(prefix)}
            weights[name] = spec.codec.unpack(state, module)
        else:
            weights[name] = stored[name].float()
        if weights[name].shape != parameter.shape:
            raise RuntimeError(f"{folder}: {name} has the wrong shape")
    model.load_state_dict(weights, strict=False)  # a tied head is not among them
    return model
