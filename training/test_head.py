"""`python -m unittest` in this folder: the draft head is trained as it is run."""

import json
import unittest
from random import Random

import torch

from answers import Cache, extend
from drafting import Rounds, right_drafts
from eagle import Head, HeadShape
from export import packed
from exported import load_exported, unpacked
from head_batches import batch
from head_export import load_head
from model import Decoder, Shape, rotated
from paths import DRAFT, GOLDENS, MODEL


def small_head(seed: int) -> Head:
    torch.manual_seed(seed)
    shape = Shape(vocab=64, hidden=32, layers=3, heads=4, kv_heads=2, head_dim=8, inner=48, context=64)
    head = Head(HeadShape(shape, inner=48, vocab=40, streams=(1, 2, 3)))
    for weight in head.parameters():
        torch.nn.init.normal_(weight, mean=float(weight.dim() == 1), std=0.3)
    return head.requires_grad_(False)


class OneByOne:
    """Decodes token by token with a list of keys and values, as an engine does."""

    def __init__(self, head: Head):
        self.head, self.keys, self.values = head, [], []

    def step(self, position: int, embedded: torch.Tensor, feature: torch.Tensor) -> torch.Tensor:
        """The output [hidden] of one input at the next free position; entries from there on are forgotten."""
        layer, shape = self.head.midlayer, self.head.shape.target
        del self.keys[position:], self.values[position:]
        x = torch.cat((layer.input_layernorm(embedded), layer.hidden_norm(feature)))
        q, k, v = (p(x).view(-1, shape.head_dim) for p in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj))
        cos, sin = self.head.cos[position], self.head.sin[position]
        self.keys.append(rotated(k, cos, sin))
        self.values.append(v)
        groups = shape.heads // shape.kv_heads
        mixed = []
        for i, query in enumerate(rotated(q, cos, sin)):
            scores = torch.stack([key[i // groups] @ query for key in self.keys]) * shape.head_dim**-0.5
            mixed.append(scores.softmax(0) @ torch.stack([value[i // groups] for value in self.values]))
        x = feature + layer.self_attn.o_proj(torch.cat(mixed))
        return x + layer.mlp(layer.post_attention_layernorm(x))


class DraftingHead(unittest.TestCase):
    def test_unrolled_drafts_are_those_of_decoding_with_a_cache(self):
        seed = Random().getrandbits(32)
        print("seed", seed)
        head = small_head(seed)
        count, steps = 11, 5
        features = torch.randn(2, count, 32)
        embedded = torch.randn(2, count + steps - 1, 32)
        rows = torch.tensor([[0, 3, 4, 9], [2, 5, 8, 10]])
        unrolled = head.unroll(features, embedded, rows, steps)
        for chat in range(2):
            decoder = OneByOne(head)
            for row in range(count):
                output = decoder.step(row, embedded[chat, row], features[chat, row])
                if row not in rows[chat]:
                    continue
                place = rows[chat].tolist().index(row)
                for step in range(steps):
                    if step:
                        output = decoder.step(row + step, embedded[chat, row + step], output)
                    torch.testing.assert_close(head.logits(output), unrolled[step][chat, place], rtol=1e-4, atol=1e-4)

    def test_the_published_head_drafts_as_another_program_has_it(self):
        target = load_exported(MODEL)
        head = load_head(DRAFT, target)
        for golden in json.loads((GOLDENS.parent / "draft" / "built_in.json").read_text()):
            prompt, answer = golden["tokens"], golden["greedy"]
            begun = batch([(prompt + answer, [False] * len(prompt) + [True] * len(answer))])
            right = right_drafts(target, head, begun, 5)[0].tolist()
            for one in golden["rounds"]:
                self.assertEqual(right[one["known"] - 1], one["accepted"], golden["prompt"])
            self.assertEqual(Rounds("", right).steps(5), len(golden["rounds"]))

    def test_the_vocabulary_map_goes_there_and_back(self):
        head = small_head(0)
        tokens = torch.randperm(64, generator=torch.Generator().manual_seed(1))[:40]
        head.draft_in(tokens)
        self.assertEqual(head.drafted().tolist(), sorted(tokens.tolist()))
        self.assertEqual(head.t2d.nonzero().squeeze(1).tolist(), head.drafted().tolist())

    def test_packed_weights_come_back(self):
        q = torch.randint(-8, 8, (6, 64), generator=torch.Generator().manual_seed(2))
        self.assertTrue(torch.equal(unpacked(packed(q)), q))

    def test_drafts_begin_within_answers(self):
        begun = batch([([5, 6, 7, 8, 9, 4, 3, 2], [False, True, True, True, False, False, True, True]), ([1, 2], [False, True])])
        self.assertEqual(begun.rows[0].tolist(), [0, 1, 5])
        self.assertEqual(begun.reach.tolist(), [[2, 1, 1], [0, 0, 0]])

    def test_steps_are_counted_to_the_end_of_the_answer(self):
        self.assertEqual(Rounds("", []).steps(5), 0)
        self.assertEqual(Rounds("", [0, 0, 0]).steps(5), 3)
        self.assertEqual(Rounds("", [3, 2, 1]).steps(5), 1)
        self.assertEqual(Rounds("", [3, 2, 1]).steps(1), 2)

    def test_a_cache_gives_the_logits_of_the_whole(self):
        torch.manual_seed(3)
        model = Decoder(Shape(vocab=64, hidden=32, layers=2, heads=4, kv_heads=2, head_dim=8, inner=48, context=64)).requires_grad_(False)
        for weight in model.parameters():
            weight.normal_(mean=float(weight.dim() == 1), std=0.3)
        ids = torch.randint(64, (2, 12))
        cache = Cache(model, torch.tensor([0, 4]), 12)
        extend(model, cache, ids[:, :8])
        for n in range(8, 12):
            logits = extend(model, cache, ids[:, n : n + 1])
        for i, padding in enumerate([0, 4]):
            torch.testing.assert_close(logits[i], model.logits(model(ids[i : i + 1, padding:])[0, -1]), rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    unittest.main()
