"""Sums and word games: questions whose answers are computed."""

from random import Random

from knowledge import CLASSES, COLOURS, OPPOSITES, PAST, PLURALS, RHYMES, SOUNDS, WORDS
from stories import BOYS, GIRLS, KINDS, PRONOUNS, capitalised, invented

PLAIN_WORDS = sorted({word for word in [*WORDS, *OPPOSITES, *OPPOSITES.values(), *PLURALS, *PAST, *SOUNDS, *CLASSES, *COLOURS,
                                        *RHYMES.split(), *KINDS] if word.isascii() and word.isalpha() and 3 <= len(word) <= 9})
SIGNS = {
    "+": ["What is {a} + {b}?", "What is {a} plus {b}?", "How much is {a} + {b}?", "How much is {a} plus {b}?", "{a} + {b}", "{a}+{b}",
          "{a} + {b} =", "{a}+{b}=", "Calculate {a} + {b}.", "Add {a} and {b}.", "What is the sum of {a} and {b}?", "What's {a} + {b}?",
          "Compute {a} + {b}.", "{a} plus {b}", "Can you add {a} and {b}?", "What does {a} + {b} make?", "What is {a}+{b}?"],
    "-": ["What is {a} - {b}?", "What is {a} minus {b}?", "How much is {a} - {b}?", "How much is {a} minus {b}?", "{a} - {b}", "{a}-{b}",
          "{a} - {b} =", "{a}-{b}=", "Calculate {a} - {b}.", "Subtract {b} from {a}.", "Take {b} away from {a}.", "What's {a} - {b}?",
          "Compute {a} - {b}.", "{a} minus {b}", "What is {a} take away {b}?", "What is the difference between {a} and {b}?"],
    "×": ["What is {a} × {b}?", "What is {a} times {b}?", "How much is {a} times {b}?", "{a} × {b}", "{a} x {b}", "{a} * {b}", "{a}*{b}", "{a}x{b}",
          "Calculate {a} * {b}.", "Multiply {a} by {b}.", "Multiply {a} and {b}.", "What is {a} multiplied by {b}?", "What's {a} * {b}?",
          "{a} times {b}", "What is {a} x {b}?", "What is the product of {a} and {b}?", "What is {a} * {b}?"],
    "/": ["What is {a} / {b}?", "What is {a} divided by {b}?", "How much is {a} divided by {b}?", "{a} / {b}", "{a}/{b}", "{a} ÷ {b}",
          "Divide {a} by {b}.", "Calculate {a} / {b}.", "{a} divided by {b}"],
}


def plus(a: int, b: int) -> str:
    """Tens first, then ones, as one would in one's head."""
    tens, ones = b - b % 10, b % 10
    if a < 10 or not tens or not ones:
        return f"{a} + {b} = {a + b}."
    return f"{a} + {tens} = {a + tens} and {a + tens} + {ones} = {a + b}, so {a} + {b} = {a + b}."


def minus(a: int, b: int) -> str:
    if a < b:
        return f"{minus(b, a).rstrip('.').split(', so')[0]}, so {a} - {b} = {a - b}."
    tens, ones = b - b % 10, b % 10
    if not tens or not ones:
        return f"{a} - {b} = {a - b}."
    return f"{a} - {tens} = {a - tens} and {a - tens} - {ones} = {a - b}, so {a} - {b} = {a - b}."


def _number(rng: Random) -> int:
    return rng.randint(0, rng.choice([10, 20, 100, 100, 100]))


def addition(rng: Random) -> tuple[str, str, str]:
    """(question, answer, key); sums of two numbers above ten are kept apart by their operands, in all phrasings."""
    a, b = _number(rng), _number(rng)
    question = rng.choice(SIGNS["+"]).format(a=a, b=b)
    low, high = sorted((a, b))
    return question, plus(a, b), f"{low}+{high}" if low > 10 and a % 10 and b % 10 else ""


def subtraction(rng: Random) -> tuple[str, str, str]:
    a, b = _number(rng), _number(rng)
    pattern = rng.choice(SIGNS["-"])
    if a < b and (rng.random() < 0.85 or "difference" in pattern):
        a, b = b, a
    return pattern.format(a=a, b=b), minus(a, b), f"{a}-{b}" if min(a, b) > 10 and a % 10 and b % 10 else ""


def times(rng: Random) -> tuple[str, str, str]:
    a, b = rng.randint(0, 10), rng.randint(0, 10)
    if rng.random() < 0.25 and b:
        question = rng.choice(SIGNS["/"]).format(a=a * b, b=b)
        return question, f"{a * b} / {b} = {a}.", question
    question = rng.choice(SIGNS["×"]).format(a=a, b=b)
    return question, f"{a} × {b} = {a * b}.", question


def comparison(rng: Random) -> tuple[str, str]:
    a, b = rng.sample(range(100), 2)
    bigger = rng.random() < 0.6
    question = rng.choice([
        "Which is {w}, {a} or {b}?", "What is {w}, {a} or {b}?", "Which number is {w}, {a} or {b}?", "Which number is {w}: {a} or {b}?",
    ]).format(w=rng.choice(["bigger", "larger", "greater"] if bigger else ["smaller", "less"]), a=a, b=b)
    return question, f"{max(a, b)} is bigger than {min(a, b)}." if bigger else f"{min(a, b)} is smaller than {max(a, b)}."


def parity(rng: Random) -> tuple[str, str]:
    a = rng.randint(0, 100)
    question = rng.choice([
        "Is {} even or odd?", "Is {} odd or even?", "Is {} an even number?", "Is the number {} even or odd?",
    ]).format(a)
    return question, f"{a} is {'odd' if a % 2 else 'even'}."


def neighbour(rng: Random) -> tuple[str, str]:
    a = rng.randint(1, 98)
    after = rng.random() < 0.6
    question = rng.choice([
        "What comes {w} {a}?", "Which number comes {w} {a}?", "What number comes {w} {a}?", "What is the number {w} {a}?",
    ]).format(w="after" if after else "before", a=a)
    return question, f"{a + 1} comes after {a}." if after else f"{a - 1} comes before {a}."


def double_or_half(rng: Random) -> tuple[str, str]:
    a = rng.randint(1, 20)
    if rng.random() < 0.4:
        question = rng.choice(["What is half of {}?", "What is the half of {}?", "Halve {}."])
        return question.format(2 * a), f"Half of {2 * a} is {a}."
    return rng.choice(["What is double {}?", "What is twice {}?", "Double {}."]).format(a), f"Double {a} is {2 * a}."


def counting(rng: Random) -> tuple[str, str]:
    if rng.random() < 0.2:
        first, last = 1, rng.randint(3, 10)
        patterns = ["Count to {last}.", "Can you count to {last}?", "Please count to {last}."]
    else:
        first = rng.randint(1, 20)
        last = first + rng.randint(2, 9)
        patterns = ["Count from {first} to {last}.", "Count from {first} up to {last}.", "Can you count from {first} to {last}?"]
        if rng.random() < 0.3:
            first, last = last, first
            patterns = ["Count down from {first} to {last}.", "Count backwards from {first} to {last}."]
    step = 1 if first < last else -1
    return rng.choice(patterns).format(first=first, last=last), ", ".join(map(str, range(first, last + step, step))) + "."


def word_problem(rng: Random) -> tuple[str, str]:
    gender = rng.choice(["girl", "boy"])
    name, he = rng.choice(GIRLS if gender == "girl" else BOYS), PRONOUNS[gender]["he"]
    things = rng.choice("apples balls books pens coins cookies stickers shells pears stones cards flowers".split())
    a, b = rng.randint(2, 10), rng.randint(2, 10)
    if rng.random() < 0.5:
        change, sign, total = rng.choice(["gets {b} more", "finds {b} more", "buys {b} more"]), "+", a + b
    else:
        a, b = max(a, b) + 1, min(a, b)
        change, sign, total = rng.choice(["gives away {b}", "loses {b}", "sells {b}"]), "-", a - b
    question = f"{name} has {a} {things} and {change.format(b=b)}. How many {things} does {he} have now?"
    return question, f"{a} {sign} {b} = {total}, so {name} has {total} {things if total != 1 else things[:-1]} now."


def three_terms(rng: Random) -> tuple[str, str]:
    a, b, c = (rng.randint(1, 10) for _ in range(3))
    question = rng.choice([
        "What is {a} + {b} + {c}?", "{a} + {b} + {c}", "{a}+{b}+{c}", "Add {a}, {b} and {c}.", "What is {a} plus {b} plus {c}?",
        "How much is {a} + {b} + {c}?",
    ]).format(a=a, b=b, c=c)
    return question, f"{a} + {b} = {a + b} and {a + b} + {c} = {a + b + c}, so {a} + {b} + {c} = {a + b + c}."


def about_numbers(rng: Random) -> tuple[str, str, str]:
    ask = rng.choice([comparison, parity, neighbour, double_or_half, counting, word_problem, three_terms])
    question, answer = ask(rng)
    return question, answer, question


SPELLING = [  # how to ask for a word, and the answer to the word and its letters (c-a-t)
    (["Spell {w}.", "How do you spell {w}?", "Spell the word {w}.", "How is {w} spelled?", "Can you spell {w}?", "Spell \"{w}\".",
      "How do I spell the word {w}?", "Please spell {w} for me."],
     lambda word, letters: f"{capitalised(word)} is spelled {letters}."),
    (["How many letters are in {w}?", "How many letters does {w} have?", "How many letters are in the word {w}?",
      "Count the letters in {w}.", "How many letters does the word {w} have?", "How long is the word {w}?",
      "Count the letters of \"{w}\"."],
     lambda word, letters: f"{letters} has {len(word)} letters."),
    (["What is the first letter of {w}?", "Which letter does {w} start with?", "What letter does {w} begin with?",
      "First letter of {w}?", "What is the first letter of the word {w}?", "What is the first letter in \"{w}\"?",
      "Tell me the first letter of {w}."],
     lambda word, _: f"The first letter of {word} is {word[0]}."),
    (["What is the last letter of {w}?", "Which letter does {w} end with?", "What letter does {w} end in?", "Last letter of {w}?",
      "What is the last letter of the word {w}?", "Tell me the last letter of {w}."],
     lambda word, _: f"The last letter of {word} is {word[-1]}."),
    (["Write {w} in capital letters.", "Write {w} in uppercase.", "Make {w} uppercase.", "Put {w} in capitals.", "Uppercase {w}.",
      "{w} in capital letters", "Write the word {w} in capitals.", "Convert {w} to uppercase.",
      "Can you write {w} in capital letters?"],
     lambda word, _: word.upper()),
    (["Spell {w} backwards.", "Write {w} backwards.", "What is {w} backwards?", "Reverse the word {w}.", "Spell the word {w} backwards."],
     lambda _, letters: f"{letters} backwards is {letters[::-1]}."),
]


def spelling(rng: Random) -> tuple[str, str, str]:
    word = rng.choice(PLAIN_WORDS) if rng.random() < 0.7 else invented(rng)
    patterns, answer = rng.choice(SPELLING)
    question = rng.choice(patterns).format(w=word)
    return question, answer(word, "-".join(word)), question


def word_lists(rng: Random) -> tuple[str, str, str]:
    words = rng.sample(PLAIN_WORDS, rng.choice([2, 3, 3, 3, 4]))
    given = rng.choice([", ", ", ", " "]).join(words)
    which = rng.randrange(4)
    if which == 0:
        question = rng.choice(["Sort these words: {}.", "Sort: {}.", "Put these words in alphabetical order: {}.", "Sort the words {}.",
                               "Sort alphabetically: {}.", "Please sort {}.", "Order these words by the alphabet: {}."])
        return question.format(given), ", ".join(sorted(words)) + ".", "sort " + " ".join(sorted(words))
    if which == 1:
        question = rng.choice(["Reverse this list: {}.", "Reverse: {}.", "Reverse the list {}.", "Write these words in reverse order: {}.",
                               "Put this list in reverse order: {}.", "Turn this list around: {}."])
        return question.format(given), ", ".join(reversed(words)) + ".", "reverse " + " ".join(words)
    if which == 2:
        question = rng.choice(["How many words are in this list: {}?", "Count these words: {}.", "How many words are there: {}?"])
        return question.format(given), f"There are {len(words)} words.", "count " + " ".join(words)
    if rng.random() < 0.5:
        word, number = rng.choice(words), rng.choice(["two", "three", "four"])
        count = {"two": 2, "three": 3, "four": 4}[number]
        question = rng.choice(["Repeat the word {} {} times.", "Say {} {} times.", "Write {} {} times."]).format(word, number)
        return question, " ".join([word] * count), question
    given = " ".join(words)
    question = rng.choice(["Repeat after me: {}", "Say: {}", "Repeat: {}", "Please repeat: {}", "Copy this: {}", "Echo: {}"]).format(given)
    return question, given, question
