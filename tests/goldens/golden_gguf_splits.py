"""What llama.cpp makes of texts under every name of its pre-tokenisers.

The vocabulary is trained here on the texts themselves without any split, so that its tokens cross all words
and nearly every split shows. `gguf_splits.json` holds

    tokens, merges   the vocabulary
    texts            the texts
    names            [name, start of the SHA-256 of each text's ids]

llama.cpp is that of the npm package node-llama-cpp 3.21.1, in a folder where it is installed:

    python golden_gguf_splits.py FOLDER
"""

import hashlib
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from golden_json import rows
from golden_splits import text

NAMES = (
    "default gpt-2 mpt olmo jais trillion phi-2 exaone4 granite-docling gigachat a.x-4.0 mellum modern-bert jina-es "
    "jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code roberta-bpe falcon llama-bpe llama3 llama-v3 falcon3 "
    "falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano dbrx smaug-bpe chatglm-bpe glm4 glm5 jais-2 minicpm5 qwen2 "
    "deepseek-r1-qwen megrez stablelm2 hunyuan kormo f2llmv2 solar-open grok-2 laguna qwen35 ufakzeka seed-coder "
    "bailingmoe bailingmoe2 llada-moe exaone-moe smollm starcoder refact codeshell exaone minerva-7b mellum2 command-r "
    "tekken gpt-4o llama4 kanana2 talkie minimax-m2 granite-embed-multi-97m tiny_aya cohere2moe youtu kimi-k2 superbpe "
    "deepseek-v3 hunyuan-dense joyai-llm hy_v4 deepseek-coder deepseek-llm spark2_5 afmoe poro-chat bloom gpt3-finnish "
    "viking chameleon"
).split()

TEXTS = [
    "1 22 333 4444 55555 666666 7777777 12345678901234567890 a1b22c3333",
    "x = 3.14159; y += 1e-5 * (z - 0x7f) / 2  # half\n\n\n    return `x`\t\t{}\r\n\r\n",
    "I'm sure WE'LL see; they'd've don't 'tis 'Re-do' it's\nHello, World! \"quotes\" (e.g. [a]) a_b c-d\n",
    "CamelCase HTTPServer iPhone ABCdef éÉa ÀB McDonald's FOO'S",
    "今天天气很好，我们走路。カタカナひらがな 한국어 ภาษาไทย 中文English混合 龥 𠮷",
    "Привет, мир! Ελληνικά ἈΘΗ العربية ١٢٣ हिन्दी क्षि e\u0301 ǅ ſ ﬁ",
    "                 seventeen blanks,      six, \n \n  \n   lines \u00a0\u3000 wide   ",
    "👍🏽 👩\u200d👧 🇫🇷 ❤\ufe0f → ∑ € $5 +1 <=> ~x^2| `a`",
]

READER = """
import {getLlama, LlamaLogLevel} from "node-llama-cpp";
import fs from "fs";
const {texts, files} = JSON.parse(fs.readFileSync(0, "utf8"));
const llama = await getLlama({gpu: false, build: "never", logLevel: LlamaLogLevel.disabled});
const found = [];
for (const modelPath of files) {
  try {
    const model = await llama.loadModel({modelPath, vocabOnly: true});
    found.push(texts.map((text) => model.tokenize(text, false)));
    await model.dispose();
  } catch (error) {
    found.push(null);
  }
}
fs.writeFileSync("found.json", JSON.stringify(found));
process.exit(0);
"""


def vocabulary(texts):
    """Returns tokens and merges."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=1600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    # Twice, so that all pairs count.
    tokenizer.train_from_iterator(texts * 2, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return sorted(model["vocab"], key=model["vocab"].get), [" ".join(pair) for pair in model["merges"]]


def write_file(path, name, tokens, merges):
    """Writes a GGUF file of the vocabulary alone."""
    writer = gguf.GGUFWriter(path, "gpt2")
    writer.add_context_length(1024)
    writer.add_embedding_length(64)
    writer.add_block_count(1)
    writer.add_feed_forward_length(64)
    writer.add_head_count(1)
    writer.add_layer_norm_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(name)
    writer.add_token_list(tokens)
    writer.add_token_types([1] * len(tokens))
    writer.add_token_merges(merges)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def main(node):
    draw = random.Random(7)
    texts = TEXTS + [text(draw) for _ in range(72)]
    tokens, merges = vocabulary(texts)
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder) / f"{name}.gguf") for name in NAMES]
        for file, name in zip(files, NAMES):
            write_file(file, name, tokens, merges)
        (Path(node) / "reader.mjs").write_text(READER)
        asked = json.dumps({"texts": texts, "files": files})
        subprocess.run(["node", "reader.mjs"], cwd=node, input=asked, text=True, check=True)
        found = json.loads((Path(node) / "found.json").read_text())
    print("unknown to this llama.cpp:", *[name for name, ids in zip(NAMES, found) if ids is None])
    digest = lambda ids: hashlib.sha256(" ".join(map(str, ids)).encode()).hexdigest()[:6]
    names = [[name, [digest(ids) for ids in lists]] for name, lists in zip(NAMES, found) if lists]
    parts = {"tokens": [tokens], "merges": [merges], "texts": texts, "names": names}
    lists = ",\n".join(f'"{name}": {rows(items)}' for name, items in parts.items())
    golden = Path(__file__).resolve().parent / "gguf_splits.json"
    golden.write_text("{\n" + lists + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
