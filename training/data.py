"""Seeded synthetic chats, and which questions are held out.

A question is held out by a hash of its task and its key, so the split depends on no seed and no order.
`conversation` never contains a held-out question; `held_out_cases` yields nothing else.
"""

import argparse
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

import chatter
import numbers_and_words
from chatter import NO, SAD, SAYINGS, YES
from knowledge import CAPITALS, CONTINENTS, LANGUAGES, OPPOSITES, PLURALS, SOUNDS, YOUNG, Fact, facts, yes_or_no
from outside import outside
from stories import capitalised, story

HELD_OUT_PERCENT = 5
SYSTEM_PROMPTS = [
    "You are a helpful assistant.", "You are Tabloom's small built-in model.", "Be kind and brief.", "You are a friendly helper.",
    "Answer in simple words.", "You are a helpful, honest assistant.", "You chat with people in a web page.",
]


@dataclass(frozen=True)
class Turn:
    task: str
    question: str
    answer: str
    key: str  # what decides whether the question is held out; "" never is


def plain(question: str) -> str:
    """The question without case and punctuation at its ends."""
    return question.lower().strip(" .!?\"")


def is_held_out(turn: Turn) -> bool:
    if not turn.key:
        return False
    digest = hashlib.blake2b(f"{turn.task}|{turn.key}".encode(), digest_size=4).digest()
    return int.from_bytes(digest) % 100 < HELD_OUT_PERCENT


# Tasks. Each makes a list of turns that belong together; only the last one may be held out.

FACTS, AFFIRMED = facts(), yes_or_no()


def asked(known: Fact, rng: Random) -> list[Turn]:
    question = rng.choice(known.questions)
    return [Turn(known.task, question, known.answer, plain(question))]


def fact(rng: Random) -> list[Turn]:
    return asked(rng.choice(FACTS), rng)


def affirmed(rng: Random) -> list[Turn]:
    return asked(rng.choice(AFFIRMED), rng)


FOLLOWED = [
    ("capital", CAPITALS, "What is the capital of {k}?", "The capital of {k} is {v}."),
    ("continent", CONTINENTS, "Which continent is {k} in?", "{K} is in {v}."),
    ("language", LANGUAGES, "What language do people speak in {k}?", "People in {k} speak {v}."),
    ("opposite", OPPOSITES, "What is the opposite of {k}?", "The opposite of {k} is {v}."),
    ("plural", PLURALS, "What is the plural of {k}?", "The plural of {k} is {v}."),
    ("sound", SOUNDS, "What sound does a {k} make?", "A {k} {v}."),
    ("young", YOUNG, "What is a baby {k} called?", "A baby {k} is called a {v}."),
]
ONE_MORE = ["And {}?", "What about {}?", "And of {}?", "And for {}?", "How about {}?", "{}?", "And what about {}?", "Now {}."]


def follow_up(rng: Random) -> list[Turn]:
    """A fact, then the same for another subject: "And Spain?"."""
    task, entries, question, answer = rng.choice(FOLLOWED)
    usable = [key for key in entries if key[0] not in "aeiou" and entries[key][0] not in "aeiou"]
    one, two = rng.sample(usable, 2)
    if rng.random() < 0.06:
        first = question.format(k=one)
        why = rng.choice(["Why?", "Why is that?", "How do you know?", "How come?", "Are you sure?"])
        return [Turn(task, first, answer.format(k=one, K=capitalised(one), v=entries[one]), plain(first)),
                Turn("outside", why, "Sorry, I do not know more about that. I am a very small model.", "")]
    article = "a " if task in ("sound", "young") else ""
    more = rng.choice(ONE_MORE[:2] + ONE_MORE[4:] if article else ONE_MORE).format(article + two)
    first, then = ((question.format(k=key), answer.format(k=key, K=capitalised(key), v=entries[key])) for key in (one, two))
    return [Turn(task, *first, plain(first[0])), Turn("follow-up", capitalised(more), then[1], f"{one} {plain(more)}")]


def sum_then_more(rng: Random) -> list[Turn]:
    a, b, c = rng.randint(1, 20), rng.randint(1, 10), rng.randint(1, 10)
    first = Turn("addition", rng.choice(numbers_and_words.SIGNS["+"]).format(a=a, b=b), numbers_and_words.plus(a, b), "")
    if rng.random() < 0.6:
        more, answer = rng.choice(["Add {} to that.", "Plus {}?", "And {} more?", "Now add {}.", "And plus {}?"]), f"{a + b} + {c} = {a + b + c}."
    else:
        c = min(c, a + b)
        more, answer = rng.choice(["Take {} away.", "Minus {}?", "Now subtract {}.", "And minus {}?"]), f"{a + b} - {c} = {a + b - c}."
    more = more.format(c)
    return [first, Turn("follow-up", more, answer, f"{a} {b} {plain(more)}")]


def computed(task: str, make: Callable) -> Callable[[Random], list[Turn]]:
    def turns(rng: Random) -> list[Turn]:
        question, answer, key = make(rng)
        return [Turn(task, question, answer, plain(key))]

    return turns


def small_talk(rng: Random) -> list[Turn]:
    answer, questions = rng.choice(list(SAYINGS.items()))
    question = rng.choice(questions)
    # A bare "Yes" or "OK" means something else after an offer, so these few stay in training.
    return [Turn("small talk", question, answer, plain(question) if len(question) > 3 else "")]


def _one_or_two(rng: Random, task: str, asks: list[str], answers: list[str]) -> list[Turn]:
    one, two = rng.sample(answers, 2)
    turns = [Turn(task, rng.choice(asks), one, ""), Turn(task, rng.choice(chatter.ANOTHER), two, "")]
    return turns[: rng.choice([1, 2])]


def fun(rng: Random) -> list[Turn]:
    which = rng.randrange(4)
    if which == 0:
        return _one_or_two(rng, "joke", chatter.ASK_JOKE, chatter.JOKES)
    if which == 1:
        return _one_or_two(rng, "riddle", chatter.ASK_RIDDLE, chatter.RIDDLES)
    question, answer = chatter.poem(rng) if which == 2 else chatter.list_of(rng)
    return [Turn("poem" if which == 2 else "list", question, answer, plain(question))]


def remembering(rng: Random) -> list[Turn]:
    """The user says something about themselves and asks for it later, sometimes with other talk between."""
    (told, reply), (asked, answer) = chatter.about_user(rng)
    if rng.random() < 0.1 and "name" in asked and not told.startswith(("I have", "My ")):
        return [Turn("remembering", asked, "You have not told me your name yet.", "")]
    between = [turn for _ in range(rng.choice([0, 0, 1, 1, 2])) for turn in rng.choice([fact, small_talk, arithmetic])(rng)]
    return [Turn("remembering", told, reply, ""), *between, Turn("remembering", asked, answer, f"{plain(told)} {plain(asked)}")]


def feeling(rng: Random) -> list[Turn]:
    offer = rng.choice(list(SAD))
    said = rng.choice(SAD[offer])
    first = Turn("small talk", said, offer, "")
    if rng.random() < 0.3:
        return [first]
    if rng.random() < 0.4:
        return [first, Turn("small talk", rng.choice(NO), "All right. Just ask when you need me.", "")]
    return [first, Turn("story", rng.choice(YES), story(rng).text, "")]


MORE = ["What happens next?", "And then?", "Go on.", "Continue.", "What happened then?", "Please continue.", "And then what?", "Is that the end?"]


def tale(rng: Random) -> list[Turn]:
    told = story(rng)
    key = plain(told.request) if any(word in told.request for word in (" about", " named")) else ""
    turns = [Turn("story", told.request, told.text, key)]
    if rng.random() < 0.4:
        he = {"girl": "she", "boy": "he"}[told.gender]
        asks = [
            (f"What was the {told.kind} called?", f"The {told.kind} was called {told.name}."),
            (f"What was the name of the {told.kind}?", f"The {told.kind} was called {told.name}."),
            ("Who was the story about?", f"The story was about {told.name} the {told.kind}."),
            (f"Where did {told.name} live?", f"{told.name} lived {told.place}."),
            (f"Where did the {told.kind} live?", f"The {told.kind} lived {told.place}."),
            (f"What did {told.name} learn?", f"{told.name} learned that {told.moral}."),
            (f"What did {he} learn?", f"{told.name} learned that {told.moral}."),
            ("What is the moral of the story?", f"The moral is that {told.moral}."),
        ]
        if told.helper:
            asks += 2 * [("Who helped in the story?" if "helped" in told.text else "Who else was in the story?",
                          f"There was {chatter.article(told.helper)} in the story.")]
        for question, answer in rng.sample(asks, rng.choice([1, 1, 2])):
            turns.append(Turn("story question", question, answer, f"{told.name} {told.kind} {told.place} {told.moral} {plain(question)}"))
        if rng.random() < 0.15:
            turns.append(Turn("story question", rng.choice(MORE), "That is the end of the story. Would you like to hear another one?", ""))
        if rng.random() < 0.2:
            turns.append(Turn("story", rng.choice([*chatter.ANOTHER, "Tell me another story.", "Another story, please."]), story(rng).text, ""))
    return turns


def beyond(rng: Random) -> list[Turn]:
    question, answer = outside(rng)
    return [Turn("outside", question, answer, plain(question))]


addition = computed("addition", numbers_and_words.addition)
subtraction = computed("subtraction", numbers_and_words.subtraction)


def arithmetic(rng: Random) -> list[Turn]:
    return rng.choice([addition, subtraction])(rng)


MIX = {
    fact: 34, affirmed: 6, follow_up: 4, addition: 8, subtraction: 8, computed("times", numbers_and_words.times): 4,
    computed("numbers", numbers_and_words.about_numbers): 6, sum_then_more: 2, computed("letters", numbers_and_words.spelling): 10,
    computed("word lists", numbers_and_words.word_lists): 6, small_talk: 8, fun: 3, remembering: 4, feeling: 1, tale: 4, beyond: 10,
}


# Surface: people type in many ways.

BEFORE = ["Hi! ", "Hey, ", "Hello, ", "OK, ", "So, ", "And ", "Now, ", "Also, ", "Please: ", "Quick question: ", "I have a question. ",
          "Tabloom, ", "Great. ", "Hmm, ", "Next: "]
AFTER = [" Please.", " Thanks!", " please", " Thank you.", ""]


def as_typed(question: str, rng: Random) -> str:
    """Vary a question's case, punctuation and politeness; digits and letters that matter stay."""
    if rng.random() < 0.08 and len(question) > 8:
        before = rng.choice(BEFORE)
        keeps = question.split()[0] in ("I", "I'm", "A") or not question[1:2].islower() or before.endswith((". ", "! ", ": "))
        question = before + (question if keeps else question[0].lower() + question[1:])
    if rng.random() < 0.04 and len(question) > 8:
        question += rng.choice(AFTER)
    if rng.random() < 0.18:
        question = question.lower()
        if rng.random() < 0.5:
            question = question.replace("'s", "s").replace("i'm", "im")
    if rng.random() < 0.2:
        question = question.rstrip(".?!") or question
    elif question.endswith(".") and rng.random() < 0.1:
        question = question[:-1] + "!"
    return question


def conversation(rng: Random) -> list[dict[str, str]]:
    """A training chat: `[{"role": …, "content": …}, …]`, without any held-out question."""
    messages = []
    if rng.random() < 0.15:
        messages.append({"role": "system", "content": rng.choice(SYSTEM_PROMPTS)})
    tasks, weights = list(MIX), list(MIX.values())
    for _ in range(rng.choices([1, 2, 3, 4, 9], weights=[40, 30, 20, 8, 2])[0]):
        turns = rng.choices(tasks, weights)[0](rng)
        while any(map(is_held_out, turns)):
            turns = rng.choices(tasks, weights)[0](rng)
        for turn in turns:
            messages.append({"role": "user", "content": as_typed(turn.question, rng)})
            messages.append({"role": "assistant", "content": turn.answer})
    return messages


def held_out_cases(seed: int, per_task: int) -> Iterator[tuple[str, list[dict[str, str]], str]]:
    """Distinct held-out questions, at most `per_task` of each task: (task, messages, answer)."""
    rng, seen, counts = Random(seed), set(), {}
    for _ in range(6000):
        for make in MIX:
            *before, last = make(rng)
            if not is_held_out(last) or any(map(is_held_out, before)):
                continue
            if last.key in seen or counts.get(last.task, 0) >= per_task:
                continue
            seen.add(last.key)
            counts[last.task] = counts.get(last.task, 0) + 1
            messages = [message for turn in before for message in (
                {"role": "user", "content": turn.question}, {"role": "assistant", "content": turn.answer})]
            yield last.task, messages + [{"role": "user", "content": last.question}], last.answer


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print training chats as JSON lines.")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    generator = Random(options.seed)
    for _ in range(options.count):
        print(json.dumps(conversation(generator), ensure_ascii=False))
