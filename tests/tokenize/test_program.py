# SPDX-License-Identifier: Apache-2.0
"""Runs `athanor tokenize`: as a user does where it is about starting, else in this process, because it takes seconds to
import transformers.

usage: test_program.py ATHANOR

Exits with 77 (skipped) where transformers is absent. The case with parquet is skipped where pyarrow is."""

import contextlib
import gzip
import importlib.util
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

if not all(map(importlib.util.find_spec, ("transformers", "tokenizers", "safetensors", "jinja2"))):
    print("skipped: transformers is absent")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "cli" / folder) for folder in ("tokenize", "common")]

import model_folder as made  # noqa: E402
from athanor_tokenize import program  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402

ATHANOR = sys.argv.pop(1)
RECORDS = [{"messages": made.chat(f"What is {i} plus 2?", f"It is {i + 2}.")} for i in range(40)]


class Program(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.model = made.make_folder(self.folder / "model")
        self.out = self.folder / "tokens"

    def start(self, *words, python=sys.executable, **variables):
        return subprocess.run([ATHANOR, "tokenize", *map(str, words)], capture_output=True, text=True,
                              env=os.environ | {"ATHANOR_PYTHON": str(python)} | variables)

    def tokenize(self, data, *more, code=0):
        """Returns stdout and stderr."""
        words = ["--model", self.model, "--data", data, "-o", self.out, "--seq", 128, *more]
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
            self.assertEqual(program.main(list(map(str, words))), code, err.getvalue())
        return out.getvalue(), err.getvalue()

    def lines(self, records, name="chat.jsonl"):
        return made.write_lines(self.folder / name, records)

    def test_code_of_a_tokenizer_is_neither_run_nor_asked_about(self):
        path = self.model / "tokenizer_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {
            "tokenizer_class": "OwnTokenizer", "auto_map": {"AutoTokenizer": ["tokenization_own.OwnTokenizer", None]}}))
        (self.model / "tokenization_own.py").write_text("raise SystemExit('was run')\n")
        with mock.patch("builtins.input", return_value="y") as asked:
            self.assertIn("no tokenizer in", self.tokenize(self.lines(RECORDS), code=2)[1])
        asked.assert_not_called()

    def test_nothing_is_passed_by_or_mixed_without_a_word(self):
        told = self.tokenize(self.lines([RECORDS[0] | {"id": 3, "functions": ["f"]}, RECORDS[1] | {"id": 4}]))[1]
        self.assertIn("not used: 'id' (of 2), 'functions' (of 1)", told)
        own = self.folder / "own"
        own.mkdir()
        (own / "thesis.txt").write_text("mine")
        self.assertIn("thesis.txt", self.tokenize(self.lines(RECORDS), "-o", own, code=2)[1])
        self.assertEqual([path.name for path in own.iterdir()], ["thesis.txt"])
        for text in (json.dumps(RECORDS[:2]), json.dumps(RECORDS[:2], indent=1)):
            (self.folder / "array.json").write_text(text)
            self.assertIn("jq -c '.[]'", self.tokenize(self.folder / "array.json", "-o", self.folder / "new", code=2)[1])

    def test_a_place_that_cannot_be_written_is_refused_before_the_work(self):
        data = self.lines(RECORDS)
        with mock.patch("os.access", return_value=False):
            out, told = self.tokenize(data, "-o", self.folder / "new" / "tokens", code=2)
        self.assertIn(f"--output: {self.folder} cannot be written", told)
        self.assertNotIn("The first document", out + told)
        self.assertIn(f"{data} is no folder", self.tokenize(data, "-o", pathlib.Path(data) / "tokens", code=2)[1])

    def test_options_without_effect_are_told(self):
        template = self.folder / "template.jinja"
        template.write_text("{{ messages }}")
        options = ["--each-turn", "--chat-template", template, "--train-on-prompt"]
        told = self.tokenize(self.lines([{"text": "A text of its own."}]), *options)[1]
        for option in ("--each-turn", "--chat-template", "--train-on-prompt"):
            self.assertIn(f"{option} has no effect", told)
        completions = self.lines([{"prompt": "Two and two?", "completion": "Four."}], "completions.jsonl")
        told = self.tokenize(completions, "-o", self.folder / "second", "--train-on-prompt", "--each-turn")[1]
        self.assertIn("--each-turn has no effect", told)
        self.assertNotIn("--train-on-prompt has", told)
        told = self.tokenize(self.lines(RECORDS), "-o", self.folder / "third", "--train-on-prompt", "--each-turn")[1]
        self.assertNotIn("no effect", told)

    def index(self, part="."):
        return json.loads((self.out / part / "index.json").read_text())

    def shard(self):
        shards = self.index()["shards"]
        self.assertEqual(len(shards), 1)
        return load_file(self.out / shards[0]["file"])

    def test_a_folder_holds_what_its_index_says(self):
        counts = json.loads(self.tokenize(self.lines(RECORDS), "--json")[0])["training"]
        index, shard = self.index(), self.shard()
        self.assertEqual(index["schema"], "athanor.tokens/1")
        self.assertEqual(index["vocab_size"], 320)
        self.assertEqual(shard["ids"].shape, (index["sequences"], 128))
        self.assertEqual(shard["loss_mask"].sum(), index["loss_tokens"])
        self.assertEqual(shard["document_starts"].sum(), index["documents"])
        self.assertTrue((shard["document_starts"][:, 0] == 1).all())
        self.assertFalse((shard["loss_mask"] & shard["document_starts"]).any())
        self.assertEqual(counts["records"], 40)
        self.assertEqual(counts["loss_tokens"], index["loss_tokens"])

    def test_learnt_tokens_are_the_answers(self):
        self.tokenize(self.lines(RECORDS))
        shard, tokenizer = self.shard(), made.make_tokenizer()
        text = tokenizer.decode(shard["ids"][shard["loss_mask"] == 1])
        self.assertEqual(sorted(text.removesuffix("<|im_end|>").split("<|im_end|>")),
                         sorted(f"It is {i + 2}." for i in range(40)))

    def test_runs_repeat_and_seeds_differ(self):
        orders = []
        for number, seed in enumerate((1, 1, 2)):
            self.out = self.folder / str(number)
            self.tokenize(self.lines(RECORDS), "--seed", seed)
            orders.append(self.shard()["ids"].tobytes())
        self.assertEqual(orders[0], orders[1])
        self.assertNotEqual(orders[0], orders[2])

    def test_a_share_is_held_out(self):
        counts = json.loads(self.tokenize(self.lines(RECORDS), "--json", "--val-share", 0.25)[0])
        self.assertEqual(counts["training"]["records"] + counts["validation"]["records"], 40)
        self.assertEqual(self.index("validation")["documents"], counts["validation"]["documents"])
        self.assertEqual(counts["validation"]["records"], 10)

    def test_the_front_starts_it_and_the_sample_and_the_counts_are_shown(self):
        done = self.start("--model", self.model, "--data", self.lines(RECORDS), "-o", self.out, "--seq", 128)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("assistant\n[[It is 2.<|im_end|>]]", done.stderr)
        self.assertNotIn("\033", done.stderr + done.stdout)
        for word in ("documents", "truncated", "dropped", "masked", "sequences"):
            self.assertIn(word, done.stdout)
        self.assertEqual(self.start("--help").returncode, 0)

    def test_parquet_holds_the_same_records(self):
        if not importlib.util.find_spec("pyarrow"):
            self.skipTest("pyarrow is absent")
        import pyarrow
        import pyarrow.parquet
        self.tokenize(self.lines(RECORDS))
        of_lines = self.shard()["ids"].tobytes()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(RECORDS), self.folder / "chat.parquet")
        self.out = self.folder / "from parquet"
        self.tokenize(self.folder / "chat.parquet")
        self.assertEqual(self.shard()["ids"].tobytes(), of_lines)

    def test_a_missing_package_is_named_with_the_way_out(self):
        # -S -I and an empty path: a Python without what is installed beside it.
        bare = self.folder / "bare"
        bare.write_text(f"#!/bin/sh\nexec '{sys.base_prefix}/bin/python3' -S -I \"$@\"\n")
        bare.chmod(0o755)
        done = self.start("--model", self.model, "--data", self.lines(RECORDS), "-o", self.out, python=bare)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("has no package", done.stderr)
        self.assertIn("ATHANOR_PYTHON", done.stderr)

    def test_errors_are_objects_where_a_program_asks_for_them(self):
        done = self.start("--model", self.folder / "none", "--data", "x", "-o", self.out, ATHANOR_ERRORS="json")
        error = json.loads(done.stderr)
        self.assertEqual(set(error), {"program", "message", "hint", "exit_code"})
        self.assertEqual((error["program"], error["exit_code"]), ("athanor tokenize", 2))
        self.assertEqual(done.returncode, 2)
        self.assertTrue(error["message"].endswith(error["hint"]) and error["hint"])

    def test_bad_input_is_refused_with_its_place(self):
        good = self.lines(RECORDS)
        text = self.folder / "data.txt"
        text.write_text("Just some text.\n")
        binary = self.folder / "data.bin"
        binary.write_bytes(bytes([200, 10, 255, 0]) * 9)
        packed = self.folder / "chat.jsonl.gz"
        packed.write_bytes(gzip.compress(pathlib.Path(good).read_bytes()))
        deep = self.folder / "deep.jsonl"
        deep.write_text("[" * 100_000)
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        lone = self.folder / "lone.jsonl"
        lone.write_text('{"text": "\\ud800 alone"}\n')
        for data, words in ((self.folder / "nowhere", "nowhere"), (text, "data.txt:1"), (binary, "UTF-8"),
                            (packed, "gunzip"), (deep, "deep.jsonl:1"), (pipe, "pipe"), (lone, "lone.jsonl:1"),
                            (self.folder, "is a folder, and the model reads text"),
                            (self.lines([*RECORDS, {"body": 1}], "keys.jsonl"), "keys.jsonl:41"),
                            (self.lines([], "empty.jsonl"), "no token to learn")):
            self.assertIn(words, self.tokenize(data, code=2)[1])
            self.assertFalse((self.out / "index.json").exists())

    def test_bad_options_are_refused(self):
        data = self.lines(RECORDS)
        for words, message in ((["--seq", "1"], "16777216"), (["--val-share", "1"], "from 0 up to 1"),
                               (["--chat-template", self.folder / "no"], "--chat-template"), (["--fast"], "--fast")):
            self.assertIn(message, self.tokenize(data, *words, code=2)[1])
        self.model = self.folder
        self.assertIn("tokenizer", self.tokenize(data, code=2)[1])

    def test_tokens_beyond_the_vocabulary_are_refused(self):
        made.make_folder(self.model, vocabulary=300)
        self.assertIn("the model has 300", self.tokenize(self.lines(RECORDS), code=2)[1])

    def test_a_finished_folder_is_not_written_over(self):
        self.tokenize(self.lines(RECORDS))
        self.assertIn("holds prepared data already", self.tokenize(self.lines(RECORDS), code=2)[1])


if __name__ == "__main__":
    unittest.main()
