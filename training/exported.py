"""Read an exported folder back: the model whose weights are what its file holds."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from model import Decoder, Shape, dequantised


def unpacked(words: Tensor) -> Tensor:
    """The inverse of `export.packed`: int32 [N, K / 8] -> q in [-8, 7] as [N, K]."""
    return ((words.unsqueeze(-1) >> torch.arange(0, 32, 4)) & 15).sub(8).flatten(1)


def weights(file: Path) -> dict[str, Tensor]:
    """The tensors of a file, floats and int4 products in f32."""
    held = load_file(file)
    out = {}
    for name, tensor in held.items():
        if name.endswith("_packed"):
            plain = name.removesuffix("_packed")
            out[plain] = dequantised(unpacked(tensor), held[f"{plain}_scale"])
        elif not name.endswith(("_scale", "_shape")):
            out[name] = tensor.float() if tensor.is_floating_point() else tensor
    return out


def shape(config: dict) -> Shape:
    return Shape(
        vocab=config["vocab_size"], hidden=config["hidden_size"], layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"], kv_heads=config["num_key_value_heads"], head_dim=config["head_dim"],
        inner=config["intermediate_size"], context=config["max_position_embeddings"], rope_theta=config["rope_theta"],
        norm_eps=config["rms_norm_eps"],
    )


def load_exported(folder: Path) -> Decoder:
    model = Decoder(shape(json.loads((folder / "config.json").read_text())))
    model.load_state_dict({name.removeprefix("model."): weight for name, weight in weights(folder / "model.safetensors").items()})
    return model.eval().requires_grad_(False)
