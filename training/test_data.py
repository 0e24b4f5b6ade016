"""`python -m unittest` in this folder: the data is what the model card says of it."""

import unittest
from random import Random

from data import Turn, conversation, held_out_cases, is_held_out, plain
from knowledge import facts
from stories import faults, story


class Data(unittest.TestCase):
    def test_no_held_out_question_is_trained_on(self):
        held = {plain(messages[-1]["content"]) for _, messages, _ in held_out_cases(7, 200) if len(messages) == 1}
        self.assertGreater(len(held), 1000)
        rng = Random(5)
        asked = {plain(m["content"]) for _ in range(30_000) for m in conversation(rng) if m["role"] == "user"}
        self.assertEqual(held & asked, set())

    def test_every_task_is_measured(self):
        measured = {task for task, _, _ in held_out_cases(7, 5)}
        self.assertLessEqual({"addition", "subtraction", "times", "capital", "letters", "outside", "remembering", "story"}, measured)

    def test_every_fact_is_taught_under_some_phrasing(self):
        for fact in facts():
            taught = [q for q in fact.questions if not is_held_out(Turn(fact.task, q, fact.answer, plain(q)))]
            self.assertTrue(taught, fact)

    def test_a_question_has_one_answer(self):
        answers = {}
        for fact in facts():
            for question in fact.questions:
                self.assertEqual(answers.setdefault(plain(question), fact.answer), fact.answer, question)

    def test_the_grammar_tells_sound_stories(self):
        rng = Random(2)
        for _ in range(5000):
            told = story(rng)
            self.assertEqual(faults(told.text), [], told.text)

    def test_the_same_seed_gives_the_same_chats(self):
        one, two = Random(3), Random(3)
        self.assertEqual([conversation(one) for _ in range(200)], [conversation(two) for _ in range(200)])


if __name__ == "__main__":
    unittest.main()
