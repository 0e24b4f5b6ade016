"""Write the trained model as a Hugging Face folder: int4 compressed-tensors weights, tokenizer, chat template."""

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor

from model import GROUP, Decoder, Shape, int4, is_product
from paths import BUILD, MODEL
from tokens import CHAT_TEMPLATE, END, PAD, START


def load(folder: Path) -> Decoder:
    """The model of the folder's checkpoint, in f32."""
    state = torch.load(folder / "checkpoint.pt")
    model = Decoder(Shape(**state["shape"]))
    model.load_state_dict(state["model"])
    return model.eval()


def packed(q: Tensor) -> Tensor:
    """Eight nibbles a word, lowest first, each holding q + 8: [N, K] -> int32 [N, K / 8]."""
    nibbles = (q.long() + 8).unflatten(1, (-1, 8))
    words = (nibbles << torch.arange(0, 32, 4)).sum(-1)
    return torch.where(words >= 2**31, words - 2**32, words).int()


def compressed(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """What the file holds of these weights: products in int4, other floats in f16."""
    out = {}
    for name, weight in weights.items():
        if is_product(name):
            q, scale = int4(weight)
            out[f"{name}_packed"] = packed(q)
            out[f"{name}_scale"] = scale
            out[f"{name}_shape"] = torch.tensor(weight.shape)
        else:
            out[name] = weight.half() if weight.is_floating_point() else weight
    return {name: tensor.contiguous() for name, tensor in out.items()}


QUANTIZATION = {
    "quant_method": "compressed-tensors", "format": "pack-quantized", "quantization_status": "compressed",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"], "input_activations": None, "output_activations": None,
            "weights": {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": GROUP, "dynamic": False},
        },
    },
}


def config(shape: Shape, end: int, start: int, pad: int) -> dict:
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "float16", "torch_dtype": "float16",
        "vocab_size": shape.vocab, "hidden_size": shape.hidden, "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers, "num_attention_heads": shape.heads, "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim, "hidden_act": "silu", "max_position_embeddings": shape.context,
        "rms_norm_eps": shape.norm_eps, "rope_theta": shape.rope_theta, "rope_scaling": None, "attention_bias": False,
        "mlp_bias": False, "tie_word_embeddings": True, "bos_token_id": start, "eos_token_id": end, "pad_token_id": pad,
        "quantization_config": QUANTIZATION,
    }


def export(folder: Path, to: Path) -> None:
    model = load(folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    end, start, pad = (tokenizer.token_to_id(token) for token in (END, START, PAD))
    to.mkdir(parents=True, exist_ok=True)

    def write(name: str, content: dict) -> None:
        (to / name).write_text(json.dumps(content, indent=2) + "\n")

    write("config.json", config(model.shape, end, start, pad))
    write("generation_config.json", {"bos_token_id": start, "eos_token_id": end, "pad_token_id": pad, "do_sample": True, "temperature": 0.6,
                                     "top_p": 0.9})
    write("tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": None, "eos_token": END, "pad_token": PAD,
        "additional_special_tokens": [START, END], "model_max_length": model.shape.context,
        "clean_up_tokenization_spaces": False, "chat_template": CHAT_TEMPLATE,
    })
    (to / "tokenizer.json").write_text(tokenizer.to_str(pretty=False))
    save_file(compressed({f"model.{name}": weight for name, weight in model.state_dict().items()}), to / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=BUILD, help="where the checkpoint is")
    parser.add_argument("--to", type=Path, default=MODEL)
    options = parser.parse_args()
    export(options.folder, options.to)
