"""Digests of the ids that the library `tokenizers` gives for the published tokenizers of target/real.

`real/tokens.json` holds PIECES, from which both sides make the same texts, and by tokenizer the digests of
each block of texts:

    raw      ids of texts whose author may write control tokens
    plain    ids of users' texts: the library without the control tokens among its added tokens
    decoded  texts of the raw ids, without special tokens

Control tokens are the special ones, and the words with marks that the chat template has in its source. Run
it from this folder with `python golden_published_tokenizers.py`.
"""

import hashlib
import json
from pathlib import Path

from tokenizers import Tokenizer

from golden_json import rows

BLOCKS, BLOCK = 30, 100

# A text draws from one group mostly, so that runs and words occur. ␟ separates pieces.
PIECES = {
    "words": "the␟ a␟Hello␟, ␟.␟! ␟don't␟WE'LL␟it's␟I'm␟'s␟'S␟They've␟ you'd␟\u2019s␟naïve␟café␟Straße␟Ångström␟ and␟\n␟(e.g.␟\"quoted\"␟—␟…␟http://x.y/z?a=b&c=d␟ camelCaseWords␟ snake_case␟SHOUTING␟McDonald␟ e-mail",
    "code": "def f(x):\n␟    return x\n␟        ␟\t␟\t\t␟if (a != b) {\n␟}\n␟};\n\n␟#include <stdio.h>\n␟const x = `${y}`;␟->␟=>␟::␟//␟/* c */␟&&␟ ||␟ ␟std::vector<int>␟println!(\"{}\", x);␟SELECT * FROM t WHERE a >= 1;␟λx.x␟0x7f␟1e-5␟[0]␟{{ x }}␟{% if %}␟\\n␟\\\\␟@decorator␟$var␟<?php␟#!/bin/sh\n␟x+=1␟;␟",
    "blanks": " ␟  ␟   ␟    ␟        ␟                ␟\t␟\n␟\n\n␟\n\n\n\n␟\r\n␟\r␟\u00a0␟\u3000␟\u2028␟\u0085␟\u200b␟\ufeff␟x␟é␟ \n ␟\v␟\f",
    "digits": "0␟1␟12␟123␟1234␟12345␟1234567890␟3.14159␟ 42␟1,000,000␟½␟²␟٣␟४␟Ⅷ␟２０２４␟1e10␟-7␟+1␟00␟12:34␟v1.2.3␟a␟%",
    "emoji": "👍␟👍🏽␟👩\u200d👩\u200d👧\u200d👦␟🧑🏽\u200d🚀␟❤\ufe0f␟🇫🇷␟🇺🇸🇩🇪␟🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f␟1\ufe0f\u20e3␟😀😀😀␟🦙␟💬 ␟ ok␟\u200d␟\ufe0f␟☃␟→␟∑␟€␟™",
    "marks": "e\u0301␟é␟A\u030a␟Å␟o\u0308\u0323␟\u0301␟\u0308␟क्षि␟नि␟q\u0307\u0323␟ﬁ␟ﬀ␟①␟Ａ␟ｱ␟가␟\u1100\u1161␟ñ␟n\u0303␟ệ␟ſ␟K␟İ␟ı␟ß␟Σ␟ς␟ǅ␟ a",
    "html": "<h1>␟</h1>␟<table>␟<td>␟</td>␟<br/>␟<p class=\"x\">␟&nbsp;␟&lt;␟<!-- c -->␟<div>\n  ␟</div>␟<script>␟<a href='#'>␟<␟>␟text␟ ␟<code>␟</code>␟<sub>␟<b>␟</b>␟<i>␟<li>",
    "control": "<|im_start|>␟<|im_end|>␟<|endoftext|>␟<s>␟</s>␟<unk>␟<bos>␟<eos>␟<start_of_turn>␟<end_of_turn>␟<|eot_id|>␟<|begin_of_text|>␟<|start_header_id|>␟<|return|>␟<|channel|>␟<|call|>␟[INST]␟[/INST]␟[TOOL_CALLS]␟<｜User｜>␟<｜Assistant｜>␟<｜begin▁of▁sentence｜>␟<｜tool▁sep｜>␟<|START_OF_TURN_TOKEN|>␟<|USER_TOKEN|>␟<|YES_TOKEN|>␟<BOS_TOKEN>␟<think>␟</think>␟<tool_call>␟</tool_call>␟<|fim_prefix|>␟<unused1>␟<mask>␟[@BOS@]␟[multimodal]␟<image_soft_token>␟<pad>␟user\n␟system␟<|im_sta␟rt|>␟<|eot␟_id|>␟ ␟\n␟x␟<␟<<␟>>␟hi",
    "right to left": "مرحبا␟بالعالم␟ السلام␟عليكم␟،␟؟␟١٢٣␟שלום␟ עולם␟ׁ␟נִקּוּד␟فارسی␟می\u200cخواهم␟\u200f␟\u202b␟\u202c␟ x ␟.␟\n␟اُردُو",
    "asian": "今日は␟天気がいい␟です。␟東京␟カタカナ␟ﾊﾝｶｸ␟我们␟走路␟，␟“引号”␟中文English混合␟𠮷␟龍␟한국어␟오늘은␟좋습니다␟ภาษาไทย␟สวัสดี␟ครับ␟ไม่␟မြန်မာ␟ខ្មែរ␟ລາວ␟བོད་␟ཀ␟。␟！␟々␟〆␟ー␟㍿␟\u3099",
    "scripts": "Привет␟мир␟Ελληνικά␟Ἀθῆναι␟հայերեն␟ქართული␟አማርኛ␟தமிழ்␟తెలుగు␟বাংলা␟ગુજરાતી␟ਪੰਜਾਬੀ␟සිංහල␟ᏣᎳᎩ␟ᚠᚢᚦ␟𐌰𐌱␟𝔘𝔫𝔦␟𝕏𝕐␟ꙮ␟ ␟-␟й␟й",
    "rare": "\ufffd␟\u0000␟\u0001␟\u001b[0m␟\u007f␟\u00ad␟\u2060␟\ue000␟\U0010ffff␟\U000f0000␟\ufdd0␟\ufdd1␟\ufffe␟▁␟▁▁␟Ġ␟Ċ␟Ã␟<0x0A>␟<0xE2>␟\u0378␟\U0001f000␟𒀀␟𓀀␟𐀀␟ᯅ␟\u180e␟\u034f␟\u2066␟x␟ ",
}


SEPARATOR = "␟"


def pieces():
    """Returns the groups of pieces."""
    return [group.split(SEPARATOR) for group in PIECES.values()]


class Draw:
    """The random numbers that both sides draw."""

    def __init__(self):
        self.state = 12

    def below(self, count):
        """Returns a number from 0 to count - 1."""
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % count


def texts(groups):
    """Returns all texts."""
    draw = Draw()

    def text(group):
        parts = []
        for _ in range(1 + draw.below(12)):
            pieces = groups[group if draw.below(4) > 0 else draw.below(len(groups))]
            parts.append(pieces[draw.below(len(pieces))])
        return "".join(parts)

    return [text(at % len(groups)) for at in range(BLOCKS * BLOCK)]


def is_control(token, template):
    """Returns whether an added token steers the model."""
    content = token["content"]
    named = any(c.isalnum() for c in content) and any(not c.isalnum() and not c.isspace() for c in content)
    return token["special"] or (named and content in template)


def template_of(config):
    """Returns all of the chat template's source."""
    template = config.get("chat_template") or ""
    return template if isinstance(template, str) else "".join(named["template"] for named in template)


def digests(items):
    """Returns the start of the SHA-256 of each block of items, in hexadecimal digits."""
    blocks = [items[at : at + BLOCK] for at in range(0, len(items), BLOCK)]
    whole = ["\n".join(block).encode() for block in blocks]
    return [hashlib.sha256(block).hexdigest()[:8] for block in whole]


def golden(folder, all_texts):
    """Returns the digests of one tokenizer."""
    file = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    template = template_of(json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8")))
    file["added_tokens"], control = (
        [token for token in file["added_tokens"] if not is_control(token, template)],
        [token for token in file["added_tokens"] if is_control(token, template)],
    )
    whole = Tokenizer.from_file(str(folder / "tokenizer.json"))
    without = Tokenizer.from_str(json.dumps(file))

    # Where tokens are left out, the library gives others their ids.
    moved = {id: whole.token_to_id(token.content) for id, token in without.get_added_tokens_decoder().items()}

    def ids(tokenizer, moved):
        lists = [tokenizer.encode(text, add_special_tokens=False).ids for text in all_texts]
        return [[moved.get(id, id) for id in found] for found in lists]

    raw, plain = ids(whole, {}), ids(without, moved)
    control = {token["id"] for token in control}
    merged = sum(bool(control.intersection(found)) for found in plain)
    print(f"{folder.name}: {len(control)} control tokens, merges give one in {merged} texts")
    written = lambda lists: [" ".join(map(str, found)) for found in lists]
    return {
        "name": folder.name,
        "raw": digests(written(raw)),
        "plain": digests(written(plain)),
        "decoded": digests([whole.decode(found, skip_special_tokens=True) for found in raw]),
    }


def main():
    here = Path(__file__).resolve().parent
    groups = pieces()
    all_texts = texts(groups)
    folders = sorted((here.parent.parent / "target" / "real" / "tokenizers").iterdir())
    tokenizers = [golden(folder, all_texts) for folder in folders]
    parts = {"block": [BLOCK], "pieces": groups, "tokenizers": tokenizers}
    lists = ",\n".join(f'"{name}": {rows(items)}' for name, items in parts.items())
    (here / "real" / "tokens.json").write_text("{\n" + lists + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
