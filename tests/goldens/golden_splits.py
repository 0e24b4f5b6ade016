"""Texts split by the regular expressions of tokenizers (Hugging Face's tokenizers, by Oniguruma).

`splits.json` holds

    patterns  [{name, pattern}]
    cases     [{text, pieces}]    of a random text, `pieces` by each pattern, in the order above:
                                  matches, and what is between them
"""

import random

from tokenizers import Regex, pre_tokenizers

from golden_json import tables

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + CONTRACTIONS + "?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + CONTRACTIONS + "?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# As files of these families have them, and what else the notation has.
PATTERNS = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama3": CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + REST,
    "qwen2": CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + REST,
    "qwen3.5": CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "o200k": O200K,
    "cl100k": r"(?i:'(?:[sdmt]|ll|ve|re))|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    "deepseek3": r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    "kana": "[一-龥\u3040-ゟ゠-ヿ]+",
    "kimi": r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+|\p{N}{1,3}",
    "jais2": CONTRACTIONS
    + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s",
    "exaone moe": CONTRACTIONS
    + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
    "youtu": "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥\u3040-ゟ゠-ヿ]+",
    "bloom": r" ?[^(\s|.,!?…。，、।۔،)]+",
    "threes": r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))",
    "threes ahead": r"(?=(\d{3})+(?!\d))",
    "cased": "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯ]+",
    "marks": "\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+",
    "chameleon": r"[\p{P}!-/:-@\[-`{-~]",
    "falcon": r"[\p{P}\$\+<=>\^~\|]+",
    "digits": "[0-9][0-9][0-9]",
    "atomic": r"(?>\d+|[a-c]*)[^\d\n]?|.(?<=[^a])(?<!b)",
}

ALPHABETS = [
    "abcdstvemlrkABCDSTVEMLR",
    " \t\n\r\u0085\u00a0\u2028\u3000\u200b\u200d\ufeff",
    "0123456789٣४\u00b2\u00bd\u2167",
    ".,;:!?'\"()[]{}<>/\\|^$+-*&~#%@_=`",
    "éüßñøſKÅΣσςЖжǅ",
    "今日本語ひらカタ中国龥〆",
    "نصעבהिंไท한국",
    "\u0301\u0308\u093f\u20e3",
    "👍🏽👩\u200d👧🇫🇷❤\ufe0f€∑→",
]
WORDS = ["'s", "'S", "'ſ", "'ll", "'RE", "don't", "WE'LL", " the", "\r\n", "   ", "100", "#include", " -", "Kelvin"]


def text(draw):
    """Runs of one alphabet after another, and words among them."""
    pieces = []
    for _ in range(draw.randrange(2, 14)):
        if draw.random() < 0.3:
            pieces.append(draw.choice(WORDS))
        else:
            alphabet = draw.choice(ALPHABETS)
            pieces += draw.choices(alphabet, k=draw.randrange(1, 5))
    return "".join(pieces)


def write(out):
    draw = random.Random(20)
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in PATTERNS.values()]

    def case():
        random_text = text(draw)
        pieces = [[piece for piece, _ in split.pre_tokenize_str(random_text)] for split in splits]
        return {"text": random_text, "pieces": pieces}

    golden = {
        "patterns": [{"name": name, "pattern": pattern} for name, pattern in PATTERNS.items()],
        "cases": [case() for _ in range(120)],
    }
    (out / "splits.json").write_text(tables(golden) + "\n")
