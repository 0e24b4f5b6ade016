"""EAGLE-3 drafting heads at work: which tokens they draft, and how many of them the target accepts.

The layer is that of the speculators library, rotation, norms and cache are those of transformers, all in f32; so
is the target. What is written here is the round: run the head over the rows whose features are new, let it
draft, compare with the target's greedy tokens. Only the layer's module is imported, as the package asks for all
that its trainer needs; it is installed without its dependencies, which exclude the pinned versions.

    draft/llama3/         a head with random weights for llama3_bf16
      golden.json         rounds after the target's prompt, and the logits of some drafts
    draft/built_in.json   rounds of the built-in model's answers to a few prompts, with its own head

Of a head with random weights, the target accepts a draft by chance alone. As with the models, the first seed is
taken whose drafts lead by MIN_MARGIN standard deviations, are not all the same, and stay what they are when keys
and values are rounded to f16.
"""

import json
import sys
from importlib.util import find_spec
from types import ModuleType

import torch
from golden_embeddings import BUILT_IN
from golden_json import rows
from golden_models import load, nmse, unpack
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, DynamicCache, LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRMSNorm, LlamaRotaryEmbedding

TARGET = "llama3_bf16"
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


def first_layer():
    """The class of the layer, without the packages around its module."""
    for name in ("speculators", "speculators.models", "speculators.models.eagle3"):
        package = ModuleType(name)
        parent, _, child = name.rpartition(".")
        package.__path__ = [f"{sys.modules[parent].__path__[0]}/{child}"] if parent else list(find_spec(name).submodule_search_locations)
        sys.modules[name] = package
    from speculators.models.eagle3.model_definitions import LlamaDecoderEagle3FirstLayer

    return LlamaDecoderEagle3FirstLayer


class Head(torch.nn.Module):
    """A head of speculators' layer under the names of published files."""

    def __init__(self, config):
        super().__init__()
        self.config = LlamaConfig(**config, attn_implementation="eager")
        hidden = self.config.hidden_size
        self.streams = config["eagle_aux_hidden_state_layer_ids"]
        self.fc = torch.nn.Linear(len(self.streams) * hidden, hidden, bias=False)
        self.midlayer = first_layer()(self.config, 0)
        self.norm = LlamaRMSNorm(hidden, self.config.rms_norm_eps)
        self.lm_head = torch.nn.Linear(hidden, config["draft_vocab_size"], bias=False)
        self.rotary = LlamaRotaryEmbedding(self.config)

    def run(self, embedded, features, cache):
        """The layer's output [tokens][hidden] for the next positions; their keys and values join the cache."""
        begin = cache.get_seq_length()
        count = len(features)
        positions = torch.arange(begin, begin + count)[None]
        x = torch.cat([embedded, features], -1)[None]
        mask = torch.full((count, begin + count), -torch.inf).triu(begin + 1)[None, None]
        return self.midlayer(x, attention_mask=mask, past_key_values=cache, position_embeddings=self.rotary(x, positions))[0]


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
    features = head.fc(torch.cat([streams[layer] for layer in head.streams], -1))
    output = head.run(target.embed(tokens[1:]), features, cache)[-1:]
    drafts, all_logits = [], []
    for _ in range(count):
        if drafts:
            output = head.run(target.embed(drafts[-1:]), output, cache)
        logits = head.lm_head(head.norm(output))[0]
        best = logits.argmax().item()
        drafts.append(best + d2t[best].item())
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
        drafts, of_drafts = draft(head, target, d2t, tokens, DRAFTS, cache_class())
        expected, _ = target(tokens + drafts)
        expected = expected[len(tokens) - 1 :]
        accepted = 0
        while accepted < min(DRAFTS, len(answer) - known) and drafts[accepted] == expected[accepted]:
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
    folder = out / "draft"
    (folder / "llama3").mkdir(parents=True, exist_ok=True)
    print(random_head(out / TARGET, folder / "llama3"))
    print(built_in(folder / "built_in.json"))


def random_head(target_folder, folder):
    """Writes the head with random weights and its golden.json; returns a line about them."""
    model = load(target_folder)
    golden = json.loads((target_folder / "golden.json").read_text())
    config = head_config(model.config)
    target, head = Target(model), Head(config).eval()
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
    weights = {name: weight.bfloat16() for name, weight in head.state_dict().items()} | {"d2t": d2t, "t2d": t2d}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    for one, of_drafts in zip(found, logits):
        one["logits"] = {draft: [round(value, 5) for value in of_drafts[draft].tolist()] for draft in LOGITS_OF}
    text = f'{{"seed": {seed}, "target": "{TARGET}", "min_margin": {margin:.4f}, "rounds": {rows(found)}}}\n'
    (folder / "golden.json").write_text(text)
    size = sum(file.stat().st_size for file in folder.iterdir()) // 1000
    return f"draft {size} kB  seed {seed}  margin {margin:.3f}  distinct {distinct}  NMSE with f16 KV {nmse(rounded_logits, logits):.1e}"


def head_config(target):
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "torch_dtype": "bfloat16",
        "vocab_size": target.vocab_size,
        "draft_vocab_size": 72,
        "hidden_size": target.hidden_size,
        "target_hidden_size": target.hidden_size,
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
        "eagle_aux_hidden_state_layer_ids": [0, 1, 2],  # layers applied; an eagle_config would hold one less
        "eagle_config": {"use_aux_hidden_state": True, "norm_before_fc": False},
    }


def randomise(head, config, seed):
    """Fills the head with seeded noise that bf16 can hold; returns d2t and t2d."""
    generator = torch.Generator().manual_seed(seed)
    for name, weight in head.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        scale = 0.25 if name == "fc.weight" else 2  # else features would outweigh the tokens drafted
        noise = 1 + noise.clamp(-2, 2) / 4 if "norm" in name else noise * scale / weight.shape[1] ** 0.5
        weight.data = noise.bfloat16().float()
    kept = torch.randperm(config["vocab_size"], generator=generator)[: config["draft_vocab_size"]].sort().values
    t2d = torch.zeros(config["vocab_size"], dtype=torch.bool)
    t2d[kept] = True
    return kept - torch.arange(len(kept)), t2d


def built_in(file):
    """Writes the rounds of the built-in model with its head; returns a line about them."""
    folder = BUILT_IN / "draft"
    config = json.loads((folder / "config.json").read_text())
    model, tokenizer = load(BUILT_IN), AutoTokenizer.from_pretrained(BUILT_IN)
    head = Head(config).eval()
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
