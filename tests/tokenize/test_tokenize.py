# SPDX-License-Identifier: Apache-2.0
"""Tests the modules of `athanor tokenize` with tokenizers and templates made on the spot. Exits with 77 (skipped) where
transformers is absent."""

import importlib.util
import io
import itertools
import pathlib
import random
import sys
import tempfile
import unittest

if not all(map(importlib.util.find_spec, ("transformers", "tokenizers", "safetensors", "jinja2"))):
    print("skipped: transformers is absent")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "cli" / folder) for folder in ("tokenize", "common")]

import numpy  # noqa: E402

import model_folder as made  # noqa: E402
from athanor_common import progress  # noqa: E402
from athanor_tokenize import packing, records, report, token_folder  # noqa: E402
from athanor_tokenize.documents import Document, Tokens  # noqa: E402
from athanor_common.errors import InputError  # noqa: E402

TOKENIZER = made.make_tokenizer()


def recognised(record):
    return records.recognised("file:1", record)


def learnt_text(tokens, document):
    """The learnt runs of a document as texts."""
    pairs = itertools.groupby(zip(document.ids, document.learnt), key=lambda pair: pair[1])
    return [tokens.tokenizer.decode([i for i, _ in run]) for learnt, run in pairs if learnt]


def document_of(record, **options):
    tokens = Tokens(TOKENIZER, **options)
    documents = tokens.documents(recognised(record))
    return tokens, documents


class Records(unittest.TestCase):
    def test_every_shape_becomes_the_same_conversation(self):
        wanted = made.chat("What is 1?", "It is 1.")
        for record in ({"messages": wanted},
                       {"conversations": [{"from": "human", "value": "What is 1?"}, {"from": "gpt", "value": "It is 1."}]},
                       {"instruction": "What is 1?", "input": "", "output": "It is 1."},
                       {"prompt": wanted[:1], "completion": wanted[1:]}):
            self.assertEqual(recognised(record).messages, wanted, record)

    def test_the_input_of_an_instruction_follows_it(self):
        read = recognised({"instruction": "Add.", "input": "1 2", "output": "3", "system": "Be brief."})
        self.assertEqual([m["content"] for m in read.messages], ["Be brief.", "Add.\n\n1 2", "3"])

    def test_a_message_says_whether_it_is_learnt(self):
        for key, value in (("weight", 0), ("train", False), ("training", False), ("loss", False), ("loss_mask", 0)):
            messages = made.chat("What is 1?", "It is 2.", "Really?", "It is 1.")
            messages[1][key] = value
            messages[3][key] = not value
            tokens, (document,) = document_of({"messages": messages, "system": "Be right."})
            self.assertEqual(learnt_text(tokens, document), ["It is 1.<|im_end|>"], key)
            self.assertEqual(len(document_of({"messages": messages}, each_turn=True)[1]), 1)
            for options in ({"train_on_prompt": True}, {"template_text": made.MARKED}):
                with self.assertRaisesRegex(InputError, "message 2 says that it is not to be learnt"):
                    document_of({"messages": messages}, **options)
        flagged = [{"role": "user", "content": "x", "train": True}, {"role": "assistant", "content": "y"}]
        with self.assertRaisesRegex(InputError, "asks to learn a turn of the user"):
            recognised({"messages": flagged})
        with self.assertRaisesRegex(InputError, r"messages\[1\].weight"):
            recognised({"messages": [flagged[1], flagged[1] | {"weight": 0.5}]})

    def test_a_record_that_is_not_to_be_learnt_is_refused(self):
        answer = {"prompt": "x", "completion": "y"}
        for said in ({"label": False}, {"weight": 0}, {"weight": 0.3}, {"train": False}):
            with self.assertRaisesRegex(InputError, f"file:1[:.]{next(iter(said))}"):
                recognised(answer | said)
        for said in ({"label": True}, {"label": "neutral"}, {"weight": 1}, {"weight": None}):
            recognised(answer | said)

    def test_text_in_parts_is_joined_and_nothing_else_is_text(self):
        parts = [{"type": "text", "text": "It "}, {"type": "text", "text": "is 1."}]
        messages = made.chat("What is 1?", parts)
        self.assertEqual(recognised({"messages": messages}).messages[1]["content"], "It is 1.")
        for content in ([{"type": "image"}], ["It is 1."], 5, {"text": "It is 1."}):
            with self.assertRaisesRegex(InputError, r"messages\[1\].content"):
                recognised({"messages": made.chat("What is 1?", content)})

    def test_history_and_a_system_prompt_beside_messages_are_used(self):
        read = recognised({"instruction": "And 2?", "output": "It is 2.", "history": [["What is 1?", "It is 1."]]})
        self.assertEqual(read.messages, made.chat("What is 1?", "It is 1.", "And 2?", "It is 2."))
        with self.assertRaisesRegex(InputError, r"history\[0\]"):
            recognised({"instruction": "x", "output": "y", "history": ["x"]})
        read = recognised({"system": "Be brief.", "messages": made.chat("x", "y")})
        self.assertEqual([m["content"] for m in read.messages], ["Be brief.", "x", "y"])

    def test_keys_that_are_not_used_are_counted(self):
        for record, keys in (({"messages": made.chat("x", "y"), "functions": [], "text": "z", "id": None},
                              ["functions", "text"]),
                             ({"prompt": "x", "completion": "y", "label": True}, ["label"]),
                             ({"prompt": "x", "text": "y"}, ["prompt"]),
                             ({"instruction": "x", "output": "y", "input": "", "history": []}, [])):
            recognised(record)
            self.assertEqual(records.keys_passed_by(record), keys)

    def test_what_is_no_record_is_refused_with_its_place(self):
        for record, place in (([], "file:1"), ({"body": "x"}, "body"), ({"text": 3}, "file:1:text"),
                              ({"messages": []}, "file:1:messages"), ({"messages": ["hi"]}, "messages[0]"),
                              ({"messages": [{"role": "alien", "content": "x"}]}, "alien"),
                              ({"messages": [{"role": "user"}]}, "messages[0].content")):
            with self.assertRaisesRegex(InputError, place.replace("[", r"\[").replace("]", r"\]")):
                recognised(record)

    def test_nulls_of_parquet_are_no_values(self):
        message = {"role": "user", "content": "x", "name": None}
        self.assertEqual(recognised({"messages": [message], "text": None}).messages, [{"role": "user", "content": "x"}])


class Masks(unittest.TestCase):
    def test_assistant_turns_are_learnt_with_their_end_and_nothing_else_is(self):
        record = {"messages": made.chat("What is 1?", "It is 1.", "Why?", "Because.", system="Be brief.")}
        for template in (made.CHATML, made.MARKED):
            tokens, (document,) = document_of(record, template_text=template)
            self.assertEqual(learnt_text(tokens, document), ["It is 1.<|im_end|>", "Because.<|im_end|>"])

    def test_both_ways_agree_on_many_conversations(self):
        draw = random.Random(3)
        for _ in range(50):
            turns = ["".join(draw.choice(["a ", "\n", "é", "😀", " 1", "."]) for _ in range(draw.randint(1, 9)))
                     for _ in range(2 * draw.randint(1, 4))]
            record = {"messages": made.chat(*turns)}
            _, (by_prefix,) = document_of(record, template_text=made.CHATML)
            _, (by_marks,) = document_of(record, template_text=made.MARKED)
            self.assertEqual(by_prefix.ids, by_marks.ids)
            self.assertEqual(by_prefix.learnt, by_marks.learnt, turns)

    def test_a_greeting_that_opens_a_conversation_is_not_learnt(self):
        greeting = {"role": "assistant", "content": "Hello!"}
        tokens, (document,) = document_of({"messages": [greeting, *made.chat("Hi", "Ho")]})
        self.assertEqual(learnt_text(tokens, document), ["Ho<|im_end|>"])
        self.assertEqual(document_of({"messages": [greeting]})[1], [])

    def test_all_is_learnt_on_demand(self):
        _, (document,) = document_of({"messages": made.chat("Hi", "Ho")}, train_on_prompt=True)
        self.assertTrue(all(document.learnt))

    def test_a_template_that_renders_earlier_turns_in_another_way_is_refused_with_the_way_out(self):
        record = {"messages": made.chat("Hi", "Ho", "He", "Ha")}
        with self.assertRaisesRegex(InputError, "file:1: .*message 2.*--each-turn"):
            document_of(record, template_text=made.THINKING)
        tokens, documents = document_of(record, template_text=made.THINKING, each_turn=True)
        self.assertEqual([learnt_text(tokens, d) for d in documents],
                         [["<think>\n\n</think>\n\nHo<|im_end|>"], ["<think>\n\n</think>\n\nHa<|im_end|>"]])

    def test_a_template_without_a_prompt_for_the_assistant_is_refused(self):
        bare = made.CHATML[:made.CHATML.index("{% if add_generation_prompt")]
        with self.assertRaisesRegex(InputError, "no generation prompt.*assistant"):
            document_of({"messages": made.chat("Hi", "Ho")}, template_text=bare)

    def test_a_template_whose_turns_start_with_their_text_needs_no_prompt(self):
        plain = ("{% for m in messages %}{{ '[INST] ' + m['content'] + ' [/INST]' if m['role'] == 'user' else "
                 "' ' + m['content'] + ' <|im_end|>' }}{% endfor %}")
        tokens, (document,) = document_of({"messages": made.chat("Hi", "Ho")}, template_text=plain)
        self.assertEqual(learnt_text(tokens, document), [" Ho <|im_end|>"])

    def test_empty_and_whole_masks_are_refused(self):
        nothing = made.MARKED.replace("{{ message['content'] }}<|im_end|>{% endgeneration %}",
                                      "{% endgeneration %}{{ message['content'] }}<|im_end|>")
        with self.assertRaisesRegex(InputError, "file:1: no token"):
            document_of({"messages": made.chat("Hi", "Ho")}, template_text=nothing)
        everything = "{{ '' }}{% generation %}" + made.CHATML + "{% endgeneration %}"
        with self.assertRaisesRegex(InputError, "file:1: every token"):
            document_of({"messages": made.chat("Hi", "Ho")}, template_text=everything)

    def test_a_conversation_without_an_answer_is_left_out(self):
        self.assertEqual(document_of({"messages": made.chat("Hi")})[1], [])

    def test_what_a_template_raises_names_the_record(self):
        with self.assertRaisesRegex(InputError, "file:1: the chat template refuses.*Roles must alternate"):
            document_of({"messages": made.chat("Hi", "Ho")}, template_text="{{ raise_exception('Roles must alternate') }}")

    def test_a_completion_is_learnt_with_its_end(self):
        tokens, (document,) = document_of({"prompt": "What is 1?", "completion": " It is 1."})
        self.assertEqual(learnt_text(tokens, document), [" It is 1.<|im_end|>"])

    def test_text_is_learnt_whole_with_one_end(self):
        for text in ("It is 3.", "It is 3.<|im_end|>"):
            tokens, (document,) = document_of({"text": text})
            self.assertEqual(learnt_text(tokens, document), ["It is 3.<|im_end|>"])


class Packing(unittest.TestCase):
    def test_every_document_is_packed_once_and_fits(self):
        draw = random.Random(1)
        lengths = [draw.randint(1, 64) for _ in range(500)]
        packed = packing.best_fit_decreasing(lengths, 64)
        self.assertEqual(sorted(itertools.chain(*packed)), list(range(500)))
        self.assertLessEqual(max(sum(lengths[i] for i in members) for members in packed), 64)
        self.assertLess(len(packed), 1.05 * sum(lengths) / 64 + 1)

    def test_the_fullest_sequence_that_has_room_is_taken(self):
        self.assertEqual(packing.best_fit_decreasing([6, 7, 3, 4], 10), [[1, 2], [0, 3]])

    def test_conversations_are_truncated_text_is_cut_and_what_teaches_nothing_is_dropped(self):
        fitted = packing.fit_to([Document(range(5), [0, 0, 1, 1, 1]), Document(range(5), [0, 0, 0, 0, 1]),
                                 Document(range(7), [1] * 7, cut_at_will=True), Document([1], [1])], 3)
        self.assertEqual([list(ids) for ids, _ in fitted.documents], [[0, 1, 2], [0, 1, 2], [3, 4, 5]])
        self.assertEqual((fitted.truncated, fitted.dropped), (2, 2))


class Writing(unittest.TestCase):
    def test_names_a_file_that_cannot_be_written(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(OSError, f"{folder}: cannot be written: "):
                token_folder.save_tensors({"ids": numpy.zeros(1, numpy.int64)}, pathlib.Path(folder))


class Screen(io.StringIO):
    def __init__(self, terminal):
        super().__init__()
        self.isatty = lambda: terminal


class ProgressLines(unittest.TestCase):
    def told(self, terminal, moments, quiet=False):
        """What is written for (time, done) of 100 parts."""
        screen, now = Screen(terminal), [0.0]
        with progress.Progress("reading", 100, quiet, screen, lambda: now[0]) as line:
            for now[0], done in moments:
                line.update(done)
        return screen.getvalue()

    def test_a_terminal_has_one_line_with_the_time_left(self):
        self.assertEqual(self.told(True, [(0, 0), (0.05, 1), (1, 10), (10, 25)]),
                         "\r\033[Kreading 0 %\r\033[Kreading 10 %\r\033[Kreading 25 %, 30 s left\r\033[K")

    def test_elsewhere_a_line_is_added_every_half_minute(self):
        self.assertEqual(self.told(False, [(0, 0), (29, 5), (30, 10), (59, 50)]), "reading 10 %, 5 min left\n")

    def test_quiet_or_nothing_to_do_says_nothing(self):
        self.assertEqual(self.told(True, [(0, 0), (40, 10)], quiet=True), "")
        with progress.Progress("reading", stream=Screen(True)) as line:
            line.update(0)
        self.assertEqual(line.stream.getvalue(), "")

    def test_the_number_of_parts_may_be_said_later(self):
        with progress.Progress("tracing", stream=Screen(True), clock=lambda: 0.0) as line:
            line.update(0)
            line.update(1, 4)
        self.assertEqual(line.stream.getvalue(), "\r\033[Ktracing 25 %\r\033[K")

    def test_times_read_as_people_say_them(self):
        self.assertEqual([progress.time_left(seconds) for seconds in (0.2, 119, 120, 7500)],
                         ["1 s left", "119 s left", "2 min left", "2 h 5 min left"])

    def test_reading_tells_the_bytes_of_all_files(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [pathlib.Path(folder, name) for name in ("a.jsonl", "b.jsonl")]
            for path in paths:
                path.write_text('{"text": "abc"}\n' * 6400)
            told = []
            self.assertEqual(len(list(records.read_records(paths, told.append))), 12800)
        self.assertEqual(told, sorted(told))
        self.assertEqual(told[-1], 2 * 6400 * 16)


class Report(unittest.TestCase):
    def test_the_mask_is_shown_with_and_without_colour(self):
        _, (document,) = document_of({"prompt": "What is 1?", "completion": " It is 1."})
        self.assertEqual(report.sample(TOKENIZER, document, colour=False), "What is 1?[[ It is 1.<|im_end|>]]")
        self.assertIn("\033[32m It is 1.<|im_end|>\033[0m", report.sample(TOKENIZER, document, colour=True))


if __name__ == "__main__":
    unittest.main()
