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


def about_numbers(rng: Random) -> tuple[str, str, str]:
    which = rng.randrange(7)
    if which == 6:
        a, b, c = (rng.randint(1, 10) for _ in range(3))
        question = rng.choice(["What is {a} + {b} + {c}?", "{a} + {b} + {c}", "{a}+{b}+{c}", "Add {a}, {b} and {c}.", "What is {a} plus {b} plus {c}?",
                               "How much is {a} + {b} + {c}?"]).format(a=a, b=b, c=c)
        return question, f"{a} + {b} = {a + b} and {a + b} + {c} = {a + b + c}, so {a} + {b} + {c} = {a + b + c}.", question
    if which == 0:
        a, b = rng.sample(range(100), 2)
        bigger = rng.random() < 0.6
        question = rng.choice(["Which is {w}, {a} or {b}?", "What is {w}, {a} or {b}?", "Which number is {w}, {a} or {b}?",
                               "Which number is {w}: {a} or {b}?"]).format(
            w=rng.choice(["bigger", "larger", "greater"]) if bigger else rng.choice(["smaller", "less"]), a=a, b=b)
        return question, f"{max(a, b)} is bigger than {min(a, b)}." if bigger else f"{min(a, b)} is smaller than {max(a, b)}.", question
    if which == 1:
        a = rng.randint(0, 100)
        question = rng.choice(["Is {} even or odd?", "Is {} odd or even?", "Is {} an even number?", "Is the number {} even or odd?"]).format(a)
        return question, f"{a} is {'odd' if a % 2 else 'even'}.", question
    if which == 2:
        a = rng.randint(1, 98)
        after = rng.random() < 0.6
        question = rng.choice(["What comes {w} {a}?", "Which number comes {w} {a}?", "What number comes {w} {a}?",
                               "What is the number {w} {a}?"]).format(w="after" if after else "before", a=a)
        return question, f"{a + 1} comes after {a}." if after else f"{a - 1} comes before {a}.", question
    if which == 3:
        a = rng.randint(1, 20)
        question = rng.choice(["What is double {}?", "What is twice {}?", "Double {}."]).format(a)
        if rng.random() < 0.4:
            question = rng.choice(["What is half of {}?", "What is the half of {}?", "Halve {}."]).format(2 * a)
            return question, f"Half of {2 * a} is {a}.", question
        return question, f"Double {a} is {2 * a}.", question
    if which == 4:
        a, length = rng.randint(1, 20), rng.randint(2, 9)
        numbers = [str(n) for n in range(a, a + length + 1)]
        question = rng.choice(["Count from {} to {}.", "Count from {} up to {}.", "Can you count from {} to {}?"]).format(numbers[0], numbers[-1])
        if rng.random() < 0.2:
            top = rng.randint(3, 10)
            numbers = [str(n) for n in range(1, top + 1)]
            question = rng.choice(["Count to {}.", "Can you count to {}?", "Please count to {}."]).format(top)
        elif rng.random() < 0.3:
            numbers.reverse()
            question = rng.choice(["Count down from {} to {}.", "Count backwards from {} to {}."]).format(numbers[0], numbers[-1])
        return question, ", ".join(numbers) + ".", question
    girl = rng.random() < 0.5
    name, he = rng.choice(GIRLS if girl else BOYS), PRONOUNS["girl" if girl else "boy"]["he"]
    thing = rng.choice("apples balls books pens coins cookies stickers shells pears stones cards flowers".split())
    a, b = rng.randint(2, 10), rng.randint(2, 10)
    if rng.random() < 0.5:
        more = rng.choice(["gets {b} more", "finds {b} more", "buys {b} more"]).format(b=b)
        question, sum_text, total = f"{name} has {a} {thing} and {more}. How many {thing} does {he} have now?", f"{a} + {b} = {a + b}", a + b
    else:
        a, b = max(a, b) + 1, min(a, b)
        fewer = rng.choice(["gives away {b}", "loses {b}", "sells {b}"]).format(b=b)
        question, sum_text, total = f"{name} has {a} {thing} and {fewer}. How many {thing} does {he} have now?", f"{a} - {b} = {a - b}", a - b
    return question, f"{sum_text}, so {name} has {total} {thing if total != 1 else thing[:-1]} now.", question


def spelling(rng: Random) -> tuple[str, str, str]:
    word = rng.choice(PLAIN_WORDS) if rng.random() < 0.7 else invented(rng)
    letters = "-".join(word)
    which = rng.randrange(6)
    if which == 0:
        question = rng.choice(["Spell {}.", "How do you spell {}?", "Spell the word {}.", "How is {} spelled?", "Can you spell {}?",
                               "Spell \"{}\".", "How do I spell the word {}?", "Please spell {} for me."]).format(word)
        answer = f"{capitalised(word)} is spelled {letters}."
    elif which == 1:
        question = rng.choice(["How many letters are in {}?", "How many letters does {} have?", "How many letters are in the word {}?",
                               "Count the letters in {}.", "How many letters does the word {} have?", "How long is the word {}?",
                               "Count the letters of \"{}\"."]).format(word)
        answer = f"{letters} has {len(word)} letters."
    elif which == 2:
        question = rng.choice(["What is the first letter of {}?", "Which letter does {} start with?", "What letter does {} begin with?",
                               "First letter of {}?", "What is the first letter of the word {}?", "What is the first letter in \"{}\"?",
                               "Tell me the first letter of {}."]).format(word)
        answer = f"The first letter of {word} is {word[0]}."
    elif which == 3:
        question = rng.choice(["What is the last letter of {}?", "Which letter does {} end with?", "What letter does {} end in?",
                               "Last letter of {}?", "What is the last letter of the word {}?", "Tell me the last letter of {}."]).format(word)
        answer = f"The last letter of {word} is {word[-1]}."
    elif which == 4:
        question = rng.choice(["Write {} in capital letters.", "Write {} in uppercase.", "Make {} uppercase.", "Put {} in capitals.",
                               "Uppercase {}.", "{} in capital letters", "Write the word {} in capitals.", "Convert {} to uppercase.",
                               "Can you write {} in capital letters?"]).format(word)
        answer = word.upper()
    else:
        question = rng.choice(["Spell {} backwards.", "Write {} backwards.", "What is {} backwards?", "Reverse the word {}.",
                               "Spell the word {} backwards."]).format(word)
        answer = f"{letters} backwards is {'-'.join(reversed(word))}."
    return question, answer, question


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
