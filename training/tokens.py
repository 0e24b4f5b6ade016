"""The tokenizer, and how a chat becomes token ids."""

from functools import lru_cache
from random import Random

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from data import conversation

PAD, START, END = "<|pad|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def train(vocab: int, chats: int = 60_000, seed: int = 1) -> Tokenizer:
    """Byte-level BPE; digits stand alone, so that sums are done digit by digit."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab, special_tokens=[PAD, START, END], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    rng = Random(seed)
    roles = ["system\n", "user\n", "assistant\n"] * 200
    texts = (message["content"] for _ in range(chats) for message in conversation(rng))
    tokenizer.train_from_iterator((text for source in (roles, texts) for text in source), trainer)
    return tokenizer


class Chat:
    """Encodes messages as the chat template renders them."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        self.end = tokenizer.token_to_id(END)
        self.pad = tokenizer.token_to_id(PAD)
        self.encode = lambda text: tokenizer.encode(text).ids
        self.header = lru_cache(lambda role: self.encode(f"{START}{role}\n"))
        self.newline = self.encode("\n")

    def ids(self, messages: list[dict[str, str]]) -> tuple[list[int], list[bool]]:
        """Token ids, and which of them the model is to predict: the assistant's words and their end."""
        ids, learnt = [], []
        for message in messages:
            content = self.encode(message["content"]) + [self.end]
            header = self.header(message["role"])
            ids += header + content + self.newline
            learnt += [False] * len(header) + [message["role"] == "assistant"] * len(content) + [False] * len(self.newline)
        return ids, learnt

    def prompt(self, messages: list[dict[str, str]]) -> list[int]:
        return self.ids(messages)[0] + self.header("assistant")
