"""Added tokens with all combinations of their flags, in tokenizers with and without normalisers.

`added_tokens.json` holds what the library `tokenizers` gives for TEXTS:

    flags   the flags of the tokens of each file
    cases   [normaliser, flags, ids of each text]; null where the library cannot load the file

Each file has the vocabulary `VOCAB` and the tokens `TOKENS`, whose ids follow it; the test builds it in
the same way.
"""

import itertools
import json

from tokenizers import Tokenizer, pre_tokenizers

from golden_json import rows

FLAGS = ["special", "normalized", "lstrip", "rstrip", "single_word"]
TOKENS = ["<end>", "Day", "İ b", "  ", "é", "a b", "[DAY]", "<e"]
NORMALIZERS = [
    None,
    {"type": "Lowercase"},
    {"type": "NFC"},
    {"type": "NFKD"},
    {"type": "Prepend", "prepend": "▁"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    {"type": "Strip", "strip_left": True, "strip_right": True},
    {
        "type": "Sequence",
        "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ],
    },
]
TEXTS = [
    "",
    " ",
    "day Day DAY monDay Days a Day, Day",
    "x <end>  <end>y  <end> <END>",
    "<end><end> \n <end>",
    "a bAa b  a b a  b",
    "İ b i̇ b I b",
    "é e\u0301 É xé é.",
    "[DAY] [day]x [DAY][DAY] ＤＡＹ ［ＤＡＹ］",
    "    five     blanks  ",
    "<e <en <end <end> ＜end＞ <enD>",
    "▁<end> ▁▁Day ▁a▁b",
    "日Day本 \u00a0Day\u00a0 Day\u200b",
]


def vocabulary():
    """Returns one token for every byte, in the alphabet of byte-level tokenizers."""
    return {letter: id for id, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}


def tokenizer(normalizer, flags):
    """Returns the file of a tokenizer whose added tokens have these flags."""
    vocab = vocabulary()
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": len(vocab) + at, "content": content, **dict(zip(FLAGS, flags))} for at, content in enumerate(TOKENS)
        ],
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": vocab, "merges": []},
    }


def write(out):
    """Writes the file."""
    cases = []
    for normalizer, flags in itertools.product(NORMALIZERS, itertools.product([False, True], repeat=len(FLAGS))):
        try:
            library = Tokenizer.from_str(json.dumps(tokenizer(normalizer, flags)))
            ids = [text_ids(library, text) for text in TEXTS]
        except BaseException as error:  # a panic of the library is no Exception
            print(normalizer, flags, error)
            ids = None
        cases.append([NORMALIZERS.index(normalizer), [int(flag) for flag in flags], ids])
    parts = {"flags": FLAGS, "tokens": TOKENS, "normalizers": NORMALIZERS, "texts": TEXTS, "cases": cases}
    lists = ",\n".join(f'"{name}": {rows(items)}' for name, items in parts.items())
    (out / "added_tokens.json").write_text("{\n" + lists + "\n}\n", encoding="utf-8")
    print(f"added_tokens.json: {len(cases)} files, {sum(case[2] is None for case in cases)} refused")


def text_ids(library, text):
    """Returns the ids as one string: those of added tokens as letters from A on, a dot for each other one."""
    start = len(vocabulary())
    ids = library.encode(text, add_special_tokens=False).ids
    return "".join("." if id < start else chr(ord("A") + id - start) for id in ids)


if __name__ == "__main__":
    from pathlib import Path

    write(Path(__file__).parent)
