"""Draft heads as torch.save writes them, for a target of 8 layers, hidden 20, vocabulary 11.

    draft_torch/eagle3/            an EAGLE-3 head, pytorch_model.bin
    draft_torch/medusa/            two Medusa heads of two blocks, medusa_lm_head.pt
    draft_torch/repeated/          three as their authors make them: the blocks of a head are one
      expected.safetensors         the same tensors
    draft_torch/legacy.bin         a file as PyTorch wrote them before 1.6
    draft_torch/shared.bin         a tensor that is part of another
    draft_torch/reshaped.bin       two shapes of the same bytes
    draft_torch/strided.bin        a transposed matrix
    draft_torch/object.bin         more than tensors
"""

import json
from collections import OrderedDict

import torch
from golden_draft import module
from safetensors.torch import save_file

EAGLE3 = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_act": "silu",
    "hidden_size": 20,
    "intermediate_size": 28,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "num_hidden_layers": 1,
    "rms_norm_eps": 1e-05,
    "vocab_size": 11,
    "draft_vocab_size": 5,
}
MEDUSA = {"medusa_num_heads": 2, "medusa_num_layers": 2, "base_model_name_or_path": "tiny"}


def eagle3():
    torch.manual_seed(31)
    layer = torch.nn.ModuleDict(
        {
            "self_attn": torch.nn.ModuleDict(
                {
                    "q_proj": torch.nn.Linear(40, 48, bias=False),
                    "k_proj": torch.nn.Linear(40, 16, bias=False),
                    "v_proj": torch.nn.Linear(40, 16, bias=False),
                    "o_proj": torch.nn.Linear(48, 20, bias=False),
                }
            ),
            "mlp": torch.nn.ModuleDict(
                {
                    "gate_proj": torch.nn.Linear(20, 28, bias=False),
                    "up_proj": torch.nn.Linear(20, 28, bias=False),
                    "down_proj": torch.nn.Linear(28, 20, bias=False),
                }
            ),
            "hidden_norm": torch.nn.RMSNorm(20),
            "input_layernorm": torch.nn.RMSNorm(20),
            "post_attention_layernorm": torch.nn.RMSNorm(20),
        }
    )
    head = torch.nn.ModuleDict(
        {
            "midlayer": layer,
            "fc": torch.nn.Linear(60, 20, bias=False),
            "norm": torch.nn.RMSNorm(20),
            "lm_head": torch.nn.Linear(20, 5, bias=False),
        }
    )
    for name, parameter in head.named_parameters():
        if "norm" in name:
            torch.nn.init.uniform_(parameter)
    head.half()
    head.register_buffer("d2t", torch.tensor([1, 1, 3, 5, 6]))
    head.register_buffer("t2d", torch.tensor([i in (1, 2, 5, 8, 10) for i in range(11)]))
    return head.state_dict()


def medusa():
    torch.manual_seed(32)
    state = OrderedDict()
    for head in range(2):
        for block in range(2):
            linear = torch.nn.Linear(20, 20).bfloat16()
            state[f"{head}.{block}.linear.weight"] = linear.weight
            state[f"{head}.{block}.linear.bias"] = linear.bias.data
        state[f"{head}.2.weight"] = torch.randn(11, 20)
    return state


def repeated():
    torch.manual_seed(33)
    block = module("medusa", "medusa.model.medusa_model").ResBlock
    heads = [torch.nn.Sequential(*[block(20)] * 2, torch.nn.Linear(20, 11, bias=False)) for _ in range(3)]
    for parameter in (parameter for head in heads for parameter in head.parameters()):
        torch.nn.init.uniform_(parameter)
    return torch.nn.ModuleList(heads).half().state_dict()


def write(out):
    folder = out / "draft_torch"
    for name, file, config, state in [
        ("eagle3", "pytorch_model.bin", EAGLE3, eagle3()),
        ("medusa", "medusa_lm_head.pt", MEDUSA, medusa()),
        ("repeated", "medusa_lm_head.pt", MEDUSA, repeated()),
    ]:
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "config.json").write_text(json.dumps(config, indent=1) + "\n")
        torch.save(state, folder / name / file)
        tensors = {name: tensor.detach().clone() for name, tensor in state.items()}
        save_file(tensors, folder / name / "expected.safetensors")
    one = torch.arange(24.0).reshape(4, 6)
    torch.save({"a": one}, folder / "legacy.bin", _use_new_zipfile_serialization=False)
    torch.save({"a": one, "b": one[1:3]}, folder / "shared.bin")
    torch.save({"a": one, "b": one.reshape(6, 4)}, folder / "reshaped.bin")
    torch.save({"a": one.t()}, folder / "strided.bin")
    torch.save({"a": one, "options": {"device": torch.device("cpu")}}, folder / "object.bin")
