"""Draft heads at work: which tokens they draft, and how many of them the target accepts.

The layers of EAGLE-3 and of multi-token prediction are those of the speculators library, those of EAGLE and of MiMo
are layers of transformers with less and more around them, the blocks of Medusa are those of its authors' package;
rotation, norms and cache are those of transformers, all in f32; so is the target. What is written here is the round: run the head over
the rows whose features are new, let it draft, compare with the target's greedy tokens. Only the modules with layers
are imported, as the packages ask for all that their trainers need; they are installed without their dependencies,
which exclude the pinned versions.

    draft/NAME/           a head of each kind with random weights for one of the models, see HEADS
      golden.json         rounds after the target's prompt, and the logits of some drafts
    draft/built_in.json   rounds of the built-in model's answers to a few prompts, with its own head

Of a head with random weights, the target accepts a draft by chance alone. As with the models, the first seed is
taken whose drafts lead by MIN_MARGIN standard deviations, are not all the same, and stay what they are when keys
and values are rounded to f16.
"""

import json
import sys
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import torch
from golden_embeddings import BUILT_IN
from golden_json import rows
from golden_models import load, nmse, unpack
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, DynamicCache, LlamaConfig, Qwen2Config, Qwen3Config
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm, LlamaRotaryEmbedding
from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer, Qwen2RMSNorm

DRAFTS = 5
ROUNDS = 4  # of the random head
MIN_MARGIN = 0.02
MIN_MARGIN_BUILT_IN = 0.004  # there are many more drafts
MIN_DISTINCT = 3  # drafts of each round
MAX_SEEDS = 1000
LOGITS_OF = [0, 2]  # of these drafts of each round
PROMPTS = [  # of each line, the first whose drafts are clear
    ["What is the capital of France?", "What is the capital of Spain?", "What is the capital of Japan?"],
    ["What is 27 + 15?", "What is 38 + 24?", "What is 61 - 27?"],
    ["Spell the word garden.", "Spell the word window.", "Spell the word yellow."],
    [f"Tell me a short story about a {hero}." for hero in ("fox", "cat", "dog", "bear", "mouse", "rabbit", "duck", "wolf", "frog")],
]


def module(package, name):
    """A module, without what its packages import."""
    parts = name.split(".")[:-1]
    for i in range(len(parts)):
        folder = ".".join(parts[: i + 1])
        if folder not in sys.modules:
            stub = ModuleType(folder)
            stub.__path__ = [f"{sys.modules['.'.join(parts[:i])].__path__[0]}/{parts[i]}"] if i else list(find_spec(package).submodule_search_locations)
            sys.modules[folder] = stub
    return import_module(name)


class Head(torch.nn.Module):
    """What all heads share: the target's embeddings and output matrix, and one layer behind a cache."""

    drafts = DRAFTS

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.rotary = LlamaRotaryEmbedding(config)

    def features(self, target, streams):
        """What the head reads of its target, [tokens][width]."""
        return target.model.model.norm(streams[-1])

    def embed(self, target, tokens):
        return target.embed(tokens)

    def attend(self, layer, x, cache, index=0):
        """The output of a layer [tokens][hidden] for the next positions; their keys and values join the cache."""
        begin, count = cache.get_seq_length(index), len(x)
        positions = torch.arange(begin, begin + count)[None]
        mask = torch.full((count, begin + count), -torch.inf).triu(begin + 1)[None, None]
        out = layer(x[None], attention_mask=mask, past_key_values=cache, position_embeddings=self.rotary(x[None], positions))
        return (out[0] if isinstance(out, tuple) else out)[0]

    def logits(self, target, output, _draft):
        return target.model.lm_head(output)


class Eagle3(Head):
    """A head of speculators' layers under the names of published files."""

    def __init__(self, config):
        layer = config.get("transformer_layer_config", config)
        kind = {"llama": LlamaConfig, "qwen3": Qwen3Config}[layer["model_type"]]
        super().__init__(kind(**layer, attn_implementation="eager"))
        hidden, eps = self.config.hidden_size, self.config.rms_norm_eps
        self.streams = config["eagle_aux_hidden_state_layer_ids"]
        width = config.get("target_hidden_size", hidden)
        self.input_norm = LlamaRMSNorm(len(self.streams) * width, eps) if config.get("norm_before_fc") else None
        self.fc_norm = torch.nn.ModuleList([LlamaRMSNorm(width, eps) for _ in self.streams]) if config.get("fc_norm") else None
        self.norm_output = config.get("norm_output", False)
        self.fc = torch.nn.Linear(len(self.streams) * width, hidden, bias=False)
        layers = module("speculators", "speculators.models.eagle3.model_definitions").model_classes[layer["model_type"]]
        self.midlayer = layers.first_layer_class(self.config, 0, config.get("norm_before_residual", False))
        self.layers = torch.nn.ModuleDict({str(i): layers.decoder_layer_class(self.config, i) for i in range(1, self.config.num_hidden_layers)})
        self.norm = LlamaRMSNorm(hidden, eps)
        self.lm_head = torch.nn.Linear(hidden, config["draft_vocab_size"], bias=False)
        self.embed_tokens = None if width == hidden else torch.nn.Embedding(self.config.vocab_size, hidden)

    def embed(self, target, tokens):
        return self.embed_tokens(torch.tensor(tokens)) if self.embed_tokens else target.embed(tokens)

    def features(self, target, streams):
        streams = [streams[layer] for layer in self.streams]
        if self.fc_norm:
            streams = [norm(stream) for norm, stream in zip(self.fc_norm, streams, strict=True)]
        streams = torch.cat(streams, -1)
        return self.fc(self.input_norm(streams) if self.input_norm else streams)

    def run(self, embedded, features, cache):
        output = self.attend(self.midlayer, torch.cat([embedded, features], -1), cache)
        for i, layer in enumerate(self.layers.values(), 1):
            output = self.attend(layer, output, cache, i)
        return self.norm(output) if self.norm_output else output

    def logits(self, target, output, _draft):
        return self.lm_head(output if self.norm_output else self.norm(output))


class Eagle(Head):
    """EAGLE and EAGLE-2."""

    def __init__(self, config):
        super().__init__(LlamaConfig(**config, attn_implementation="eager"))
        hidden = self.config.hidden_size
        self.fc = torch.nn.Linear(2 * hidden, hidden, bias=True)
        self.layers = torch.nn.ModuleList([LlamaDecoderLayer(self.config, 0)])
        self.layers[0].input_layernorm = torch.nn.Identity()

    def run(self, embedded, features, cache):
        return self.attend(self.layers[0], self.fc(torch.cat([embedded, features], -1)), cache)


class Mtp(Head):
    """One layer of multi-token prediction as speculators takes it out of a model."""

    def __init__(self, config):
        super().__init__(Qwen3Config(**config["transformer_layer_config"], attn_implementation="eager"))
        layers = module("speculators", "speculators.models.mtp.model_definitions")
        self.mtp_layers = torch.nn.ModuleList([layers.Qwen3MTPLayer(self.config, 0)])

    def run(self, embedded, features, cache):
        layer = partial(self.mtp_layers[0], token_embeddings=embedded[None])
        return self.attend(layer, features, cache)


class Mimo(Head):
    """A layer of multi-token prediction among the weights of its target, as MiMo's authors describe it."""

    def __init__(self, config):
        super().__init__(Qwen2Config(**config, attn_implementation="eager"))
        hidden, eps = self.config.hidden_size, self.config.rms_norm_eps
        layer = Qwen2DecoderLayer(self.config, 0)
        layer.token_layernorm, layer.hidden_layernorm, layer.final_layernorm = (Qwen2RMSNorm(hidden, eps) for _ in range(3))
        layer.input_proj = torch.nn.Linear(2 * hidden, hidden, bias=False)
        self.model = torch.nn.ModuleDict({"mtp_layers": torch.nn.ModuleList([layer])})

    def run(self, embedded, features, cache):
        layer = self.model["mtp_layers"][0]
        x = torch.cat([layer.hidden_layernorm(features), layer.token_layernorm(embedded)], -1)
        return layer.final_layernorm(self.attend(layer, layer.input_proj(x), cache))


class Medusa(Head):
    """Heads that each draft one token from the same feature."""

    drafts = 3
    repeats = False

    def __init__(self, config):
        torch.nn.Module.__init__(self)
        block = module("medusa", "medusa.model.medusa_model").ResBlock
        hidden, vocab = config["hidden_size"], config["vocab_size"]
        for head in range(self.drafts):
            layers = config["medusa_num_layers"]
            blocks = [block(hidden)] * layers if self.repeats else [block(hidden) for _ in range(layers)]
            self.add_module(str(head), torch.nn.Sequential(*blocks, torch.nn.Linear(hidden, vocab, bias=False)))

    def run(self, _embedded, features, _cache):
        return features

    def logits(self, target, output, draft):
        return self.get_submodule(str(draft))(output)


class RepeatedMedusa(Medusa):
    """The same as their authors make them: the blocks of a head are one."""

    repeats = True


class F16Cache(DynamicCache):
    """Keys and values are rounded to f16."""

    def update(self, keys, values, *args, **kwargs):
        return super().update(keys.half().float(), values.half().float(), *args, **kwargs)


class Target:
    """A model of transformers, and its residual streams after any number of layers."""

    def __init__(self, model):
        self.model = model
        self.last = None
        model.model.norm.register_forward_pre_hook(lambda _, args: setattr(self, "last", args[0]))

    def embed(self, tokens):
        return self.model.model.embed_tokens(torch.tensor(tokens))

    def __call__(self, tokens):
        """Returns the greedy token behind each, and the streams, each [tokens][hidden]."""
        out = self.model(torch.tensor([tokens]), use_cache=False, output_hidden_states=True)
        return out.logits[0].argmax(-1).tolist(), [stream[0] for stream in (*out.hidden_states[:-1], self.last)]


@torch.no_grad()
def draft(head, target, d2t, tokens, count, cache):
    """Drafts so many tokens to follow `tokens`, the last of which the target has not seen; also returns their logits."""
    _, streams = target(tokens[:-1])
    output = head.run(head.embed(target, tokens[1:]), head.features(target, streams), cache)[-1:]
    drafts, all_logits = [], []
    for _ in range(count):
        if drafts:
            output = head.run(head.embed(target, drafts[-1:]), output, cache)
        logits = head.logits(target, output, len(drafts))[0]
        best = logits.argmax().item()
        drafts.append(best + (0 if d2t is None else d2t[best].item()))
        all_logits.append(logits)
    return drafts, all_logits


@torch.no_grad()
def rounds(head, target, d2t, prompt, answer, most, cache_class=DynamicCache):
    """Rounds of drafting until the answer ends, each with the number of its tokens known, the drafts and how many are accepted.

    Drafts beyond the answer's end are not counted. Also returns the logits of every draft, [rounds][drafts][draft vocabulary].
    """
    known, found, logits = 1, [], []
    while known < len(answer) and len(found) < most:
        tokens = prompt + answer[:known]
        drafts, of_drafts = draft(head, target, d2t, tokens, head.drafts, cache_class())
        expected, _ = target(tokens + drafts)
        expected = expected[len(tokens) - 1 :]
        accepted = 0
        while accepted < min(head.drafts, len(answer) - known) and drafts[accepted] == expected[accepted]:
            accepted += 1
        end = known + min(accepted + 1, len(answer) - known)
        if answer[known:end] != expected[: end - known]:
            raise RuntimeError("the target says something else when it verifies")
        found.append({"known": known, "drafts": drafts, "accepted": accepted})
        logits.append(torch.stack(of_drafts))
        known = end
    return found, torch.stack(logits)


def smallest_margin(logits):
    """Returns by how much the best draft leads at least, in standard deviations of its logits."""
    best = logits.topk(2).values
    return ((best[..., 0] - best[..., 1]) / logits.std(-1)).min().item()


def write(out):
    """Writes draft/; the models in `out` are there already."""
    for name in HEADS:
        print(name, random_head(out, name))
    print(built_in(out / "draft" / "built_in.json"))


def random_head(out, name):
    """Writes a head with random weights and its golden.json; returns a line about them."""
    target_name, file, config = HEADS[name]
    folder = out / "draft" / name
    folder.mkdir(parents=True, exist_ok=True)
    model = load(out / target_name)
    golden = json.loads((out / target_name / "golden.json").read_text())
    kind, config = config(model.config)
    target, head = Target(model), kind(config).eval()
    for seed in range(MAX_SEEDS):
        d2t, t2d = randomise(head, config, seed)
        found, logits = rounds(head, target, d2t, golden["tokens"], golden["greedy"], ROUNDS)
        margin = smallest_margin(logits)
        distinct = min(len(set(one["drafts"])) for one in found)
        if margin < MIN_MARGIN or distinct < MIN_DISTINCT:
            continue
        rounded, rounded_logits = rounds(head, target, d2t, golden["tokens"], golden["greedy"], ROUNDS, F16Cache)
        if rounded == found:
            break
    else:
        raise RuntimeError(f"no seed below {MAX_SEEDS} has clear drafts")
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    weights = head.bfloat16().state_dict()
    if "speculators_model_type" in config:
        weights = {name.replace("midlayer.", "layers.0."): weight for name, weight in weights.items()}
    if d2t is not None:
        weights |= {"d2t": d2t, "t2d": t2d}
    inside = "num_nextn_predict_layers" in config
    if inside:
        weights |= load_file(out / target_name / file)
    if file.endswith(".safetensors"):
        save_file(weights, folder / file, metadata={"format": "pt"})
    else:
        torch.save(weights, folder / file)
    for one, of_drafts in zip(found, logits):
        one["logits"] = {draft: [round(value, 5) for value in of_drafts[draft].tolist()] for draft in LOGITS_OF}
    text = f'{{"seed": {seed}, "target": "{target_name}", "inside": {json.dumps(inside)}, "min_margin": {margin:.4f}, "rounds": {rows(found)}}}\n'
    (folder / "golden.json").write_text(text)
    size = sum(file.stat().st_size for file in folder.iterdir()) // 1000
    return f"{size} kB  seed {seed}  margin {margin:.3f}  distinct {distinct}  NMSE with f16 KV {nmse(rounded_logits, logits):.1e}"


def llama_layer(target):
    """A layer for a Llama model, as configurations describe it."""
    return {
        "model_type": "llama",
        "torch_dtype": "bfloat16",
        "vocab_size": target.vocab_size,
        "hidden_size": target.hidden_size,
        "intermediate_size": 80,
        "num_hidden_layers": 1,
        "num_attention_heads": target.num_attention_heads,
        "num_key_value_heads": target.num_key_value_heads,
        "head_dim": target.hidden_size // target.num_attention_heads,
        "hidden_act": "silu",
        "max_position_embeddings": target.max_position_embeddings,
        "rms_norm_eps": target.rms_norm_eps,
        "rope_theta": target.rope_parameters["rope_theta"],
        "rope_scaling": dict(target.rope_parameters),
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
    }


STREAMS = {"eagle_aux_hidden_state_layer_ids": [0, 1, 2]}  # layers applied; an eagle_config would hold one less


def eagle3(target):
    more = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "draft_vocab_size": 72,
        "target_hidden_size": target.hidden_size,
        "eagle_config": {"use_aux_hidden_state": True, "norm_before_fc": False},
    }
    return Eagle3, llama_layer(target) | STREAMS | more


def speculators_eagle3(target):
    return STREAMS | {
        "architectures": ["Eagle3DraftModel"],
        "speculators_model_type": "eagle3",
        "draft_vocab_size": 72,
        "norm_before_fc": False,
        "norm_before_residual": True,
        "norm_output": False,
        "embed_requires_grad": False,
        "transformer_layer_config": llama_layer(target),
    }


def eagle3_norms(target):
    """As speculators writes them, with all norms that go on one row."""
    return Eagle3, speculators_eagle3(target) | {"norm_before_fc": True, "norm_output": True}


def eagle3_stream_norms(target):
    """As speculators writes them, with a norm for each stream, and not as the target normalises."""
    layer = llama_layer(target) | {"rms_norm_eps": target.rms_norm_eps / 5}
    return Eagle3, speculators_eagle3(target) | {"fc_norm": True, "transformer_layer_config": layer}


def eagle3_qk_norms(target):
    """As speculators writes them, with layers of Qwen3."""
    layer = llama_layer(target) | {"model_type": "qwen3", "head_dim": target.head_dim}
    return Eagle3, speculators_eagle3(target) | {"transformer_layer_config": layer}


def eagle3_layers(target):
    """As speculators writes them, with two layers."""
    layer = llama_layer(target) | {"num_hidden_layers": 2}
    return Eagle3, speculators_eagle3(target) | {"transformer_layer_config": layer}


def eagle3_biases(target):
    kind, config = eagle3(target)
    return kind, config | {"attention_bias": True}


def eagle3_narrow(target):
    """Half as wide as its target, with embeddings of its own."""
    kind, config = eagle3(target)
    return kind, config | {"hidden_size": target.hidden_size // 2}


def eagle(target):
    return Eagle, llama_layer(target) | {"architectures": ["LlamaForCausalLM"], "bias": True}


def dictionary(target):
    """The target's configuration, without the folder that it was read from."""
    return {key: value for key, value in target.to_dict().items() if key != "_name_or_path"}


def mtp(target):
    return Mtp, {
        "architectures": ["MTPDraftModel"],
        "speculators_model_type": "mtp",
        "num_speculative_steps": DRAFTS,
        "transformer_layer_config": dictionary(target),
    }


def mimo(target):
    config = dictionary(target) | {"architectures": ["MiMoForCausalLM"], "model_type": "mimo", "num_nextn_predict_layers": 1}
    return Mimo, config


def medusa(target):
    return Medusa, {
        "medusa_num_heads": 2,  # as published files have it, whatever they hold
        "medusa_num_layers": 2,
        "hidden_size": target.hidden_size,
        "vocab_size": target.vocab_size,
    }


def repeated_medusa(target):
    _, config = medusa(target)
    return RepeatedMedusa, config


# By name: the target, the file of the weights, and what makes the kind and the configuration.
HEADS = {
    "llama3": ("llama3_bf16", "model.safetensors", eagle3),
    "norms": ("llama3_bf16", "model.safetensors", eagle3_norms),
    "stream_norms": ("qwen3_f32", "model.safetensors", eagle3_stream_norms),
    "qk_norms": ("qwen3_f32", "model.safetensors", eagle3_qk_norms),
    "two_layers": ("qwen3_f32", "model.safetensors", eagle3_layers),
    "biases": ("qwen3_f32", "model.safetensors", eagle3_biases),
    "narrow": ("llama3_bf16", "model.safetensors", eagle3_narrow),
    "eagle": ("llama3_bf16", "model.safetensors", eagle),
    "mtp": ("qwen3_f32", "model.safetensors", mtp),
    "mimo": ("qwen2_bf16", "model.safetensors", mimo),
    "medusa": ("llama3_bf16", "medusa_lm_head.safetensors", medusa),
    "repeated_medusa": ("qwen3_f32", "medusa_lm_head.pt", repeated_medusa),
}


def randomise(head, config, seed):
    """Fills the head with seeded noise that bf16 can hold; returns d2t and t2d, where it has them."""
    generator = torch.Generator().manual_seed(seed)
    for name, weight in head.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        scale = 0.25 if name == "fc.weight" else 2  # else features would outweigh the tokens drafted
        noise = 1 + noise.clamp(-2, 2) / 4 if "norm" in name else noise * scale / weight.shape[-1] ** 0.5
        weight.data = noise.bfloat16().float()
    if "draft_vocab_size" not in config:
        return None, None
    kept = torch.randperm(head.config.vocab_size, generator=generator)[: config["draft_vocab_size"]].sort().values
    t2d = torch.zeros(head.config.vocab_size, dtype=torch.bool)
    t2d[kept] = True
    return kept - torch.arange(len(kept)), t2d


def built_in(file):
    """Writes the rounds of the built-in model with its head; returns a line about them."""
    folder = BUILT_IN / "draft"
    config = json.loads((folder / "config.json").read_text())
    model, tokenizer = load(BUILT_IN), AutoTokenizer.from_pretrained(BUILT_IN)
    head = Eagle3(config).eval()
    head.load_state_dict(unpack(folder, config["quantization_config"]), strict=True)
    d2t = load_file(folder / "model.safetensors")["d2t"]
    target = Target(model)

    def golden(text):
        chat = [{"role": "user", "content": text}]
        ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)["input_ids"]
        answer = model.generate(ids, do_sample=False, max_new_tokens=300)[0, ids.shape[1] :].tolist()
        prompt = ids[0].tolist()
        found, logits = rounds(head, target, d2t, prompt, answer, len(answer))
        margin = smallest_margin(logits)
        clear = margin >= MIN_MARGIN_BUILT_IN and rounds(head, target, d2t, prompt, answer, len(answer), F16Cache)[0] == found
        return clear and {"prompt": text, "tokens": prompt, "greedy": answer, "min_margin": round(margin, 4), "rounds": found}

    goldens = [next(filter(None, map(golden, texts))) for texts in PROMPTS]
    file.write_text(rows(goldens) + "\n")
    tokens = sum(len(one["greedy"]) - 1 for one in goldens)
    return f"draft {file.stat().st_size // 1000} kB  {tokens / sum(len(one['rounds']) for one in goldens):.2f} tokens a round"
