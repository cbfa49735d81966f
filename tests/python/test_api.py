# SPDX-License-Identifier: Apache-2.0
"""Calls athanor from Python.

usage: test_api.py [BIN] [options of unittest]

BIN is the folder of programs of a build, which are laid out as a wheel does it. Without it the installed package is tested.
The cases that measure and train are skipped where the trainer is absent, those with tables where pandas is."""

import contextlib
import importlib.util
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import warnings
from unittest import mock

import wheel_layout

SCRATCH = tempfile.TemporaryDirectory()
OPTIONS = sys.argv[1:]
if OPTIONS and not OPTIONS[0].startswith("-"):
    wheel_layout.install(OPTIONS.pop(0), SCRATCH.name)
    sys.path.insert(0, SCRATCH.name)

import athanor  # noqa: E402
from athanor import programs  # noqa: E402
from athanor.options import Words  # noqa: E402

BIN = pathlib.Path(athanor.__file__).parent / "bin"
SHARE = BIN.parent / "share" / "athanor"
CAN_TRAIN = (BIN / "athanor-train").exists() and (BIN / "athanor-calibrate").exists()
CASE = {"profile": "h200-gpt2-4b", "platform": "h200x4", "gpus": 4, "global_batch": 64, "micro_batch": 16}


def shell(verb, *words):
    """What the program prints as JSON for the same words."""
    done = subprocess.run([BIN / "athanor", verb, *words, "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def words(**options):
    with tempfile.TemporaryDirectory() as folder:
        return Words(folder).of(options)


class Options(unittest.TestCase):
    def test_a_keyword_is_an_option(self):
        self.assertEqual(words(gpu_memory="24GiB", gpus=4, clip=0.5, pareto=True, json_is_no=False, top=None),
                         ["--gpu-memory=24GiB", "--gpus=4", "--clip=0.5", "--pareto"])

    def test_a_value_that_looks_like_an_option_is_a_value(self):
        self.assertEqual(words(model="--gpus"), ["--model=--gpus"])

    def test_lists_and_pairs_are_given_several_times(self):
        self.assertEqual(words(micro_batches=[1, 2], platform=(pathlib.Path("a"), "b"), price={"a": 2, "b": "3.5"}),
                         ["--micro-batches=1", "--micro-batches=2", "--platform=a", "--platform=b", "--price=a=2",
                          "--price=b=3.5"])

    def test_a_dictionary_stands_for_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            made = Words(folder)
            platform, first, second = (word.partition("=")[2] for word in
                                       made.of({"platform": {"a": 1}, "profile": [{"b": "ü"}, {"c": 3}]}))
            self.assertEqual([json.loads(pathlib.Path(path).read_text()) for path in (platform, first, second)],
                             [{"a": 1}, {"b": "ü"}, {"c": 3}])
            self.assertEqual(made.given_as_data, ["platform", "profile", "profile"])
            model = made.texts("model", {"model_type": "gpt2"})[0]
            self.assertEqual(json.loads(pathlib.Path(model, "config.json").read_text()), {"model_type": "gpt2"})

    def test_what_no_option_takes_is_named(self):
        for value, kind in ((object(), "object"), (b"x", "bytes"), ([[1]], "list"), (1j, "complex"), ({1, 2}, "set")):
            with self.subTest(kind), self.assertRaisesRegex((TypeError, ValueError), "^gpus: "):
                words(gpus=value)
        for value in ("", [""]):
            with self.assertRaisesRegex(ValueError, "^plan: .* leave it out"):
                words(plan=value)
        for name in ("json", "help", "version"):
            with self.assertRaisesRegex(TypeError, f"^'{name}' is no keyword"):
                words(**{name: True})


class Simulator(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.found = athanor.tune(**CASE, top=3)

    def test_tune_returns_what_the_program_prints(self):
        printed = shell("tune", "--profile=h200-gpt2-4b", "--platform=h200x4", "--gpus=4", "--global-batch=64",
                        "--micro-batch=16", "--top=3")
        for key in printed.keys() - {"plan"}:
            self.assertEqual(self.found[key], printed[key], key)
        self.assertEqual(len(self.found["top"]), 3)

    def test_a_tuned_plan_is_an_input(self):
        again = athanor.simulate(plan=self.found["plan"])
        self.assertEqual(again["step_seconds"], self.found["step_seconds"])
        profile = json.loads((SHARE / "profiles" / "h200-gpt2-4b.profile.json").read_text())
        platform = json.loads((SHARE / "platforms" / "h200x4.json").read_text())
        other = athanor.tune(**{**CASE, "profile": profile, "platform": platform})
        self.assertEqual(other["step_seconds"], self.found["step_seconds"])
        self.assertNotIn("profile_path", other["plan"])
        third = athanor.simulate(plan=other["plan"], profile=profile, platform=platform)
        self.assertEqual(third["step_seconds"], self.found["step_seconds"])

    def test_an_output_is_the_plan(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "plan.json")
            athanor.tune(**CASE, output=path)
            self.assertEqual(athanor.simulate(plan=path)["step_seconds"], self.found["step_seconds"])
            with self.assertRaisesRegex(ValueError, "'platform', which is a dictionary"):
                athanor.tune(**{**CASE, "platform": {}}, output=path)
            with self.assertRaisesRegex(ValueError, "single platform"):
                athanor.tune(**{**CASE, "platform": ["h200x4", "h100x2"]}, output=path)

    def test_several_platforms_are_rows(self):
        rows = athanor.tune(profile="h200-gpt2-4b", profile_platform="h200x4", platform=["h200x4", "rtx4090x4"],
                            global_batch=64, price={"h200x4": 14, "rtx4090x4": 1.6})["platforms"]
        self.assertEqual([row["price_per_hour"] for row in rows if row["platform"].startswith("4 x RTX")], [1.6])
        self.assertEqual({row["outcome"] for row in rows}, {"planned"})

    def test_several_numbers_of_gpus_are_rows(self):
        for gpus in [1, 2], "1,2":
            rows = athanor.tune(**{**CASE, "gpus": gpus})["platforms"]
            self.assertEqual([row["gpus"] for row in rows], [1, 2])
        with self.assertRaisesRegex(ValueError, "single platform and number of GPUs"):
            athanor.tune(**{**CASE, "gpus": [1, 2]}, output="plan.json")
        self.assertIn("plan", athanor.tune(**{**CASE, "gpus": [4, 4]}))

    def test_platforms_without_a_plan_say_why(self):
        with self.assertRaisesRegex(athanor.InfeasibleError, "What would fit") as caught:
            athanor.tune(profile="h200-gpt2-4b", profile_platform="h200x4", platform=["h200x4", "rtx4090x4"],
                         global_batch=64, gpu_memory="1GiB")
        self.assertEqual(len(caught.exception.result["platforms"]), 2)

    def test_what_does_not_fit_has_a_way_out_and_a_report(self):
        with self.assertRaises(athanor.InfeasibleError) as caught:
            athanor.tune(**CASE, gpu_memory="1GiB")
        error = caught.exception
        self.assertTrue(error.message.startswith("no plan fits"), error.message)
        self.assertTrue(error.hint.startswith("What would fit: --gpu-memory "), error.hint)
        self.assertTrue(str(error) == error.message and error.message.endswith(error.hint))
        self.assertIsNone(error.result)
        with self.assertRaises(athanor.InfeasibleError) as caught:
            athanor.simulate(**CASE, policy="ddp", gpu_memory="1GiB")
        self.assertIs(caught.exception.result["feasible"], False)

    def test_bad_input_is_the_programs_own_error(self):
        with self.assertRaises(athanor.InputError) as caught:
            athanor.tune(**{**CASE, "platform": "h20x4"})
        self.assertIn("Is it 'h200x4'?", caught.exception.hint)
        with self.assertRaisesRegex(athanor.InputError, "--gpu-memry: unknown option") as caught:
            athanor.tune(**CASE, gpu_memry="1GiB")
        self.assertIn("--gpu-memory", caught.exception.hint)
        with self.assertRaisesRegex(athanor.Error, "no-such-run"):
            athanor.compare("no-such-run")

    def test_notes_are_warnings(self):
        with self.assertWarnsRegex(UserWarning, "^the profile was made on NVIDIA H200, the platform is"):
            athanor.simulate(**{**CASE, "platform": "h100x2", "gpus": 2}, policy="zero3-offload")

    @unittest.skipUnless(importlib.util.find_spec("pandas"), "pandas is absent")
    def test_rows_become_tables(self):
        tables = athanor.tune(**CASE, top=3, pandas=True)
        self.assertEqual(list(tables["top"]["step_seconds"]), [plan["step_seconds"] for plan in self.found["top"]])
        self.assertEqual(list(tables["top"]["peak_bytes.gpu"]), [plan["peak_bytes"]["gpu"] for plan in self.found["top"]])
        self.assertEqual(tables["plan"], self.found["plan"])

    def test_the_readme_runs_as_it_is_written(self):
        page = (wheel_layout.ROOT / "cli" / "python" / "README.md").read_text(encoding="utf-8")
        example = re.search(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(example[1], "cli/python/README.md", "exec"), {})  # noqa: S102
        self.assertIn("tokens/s\n1 ", printed.getvalue())
        self.assertIn("What would fit: --gpu-memory", printed.getvalue())


class Failures(unittest.TestCase):
    """Programs that end as no program of ours should."""

    def call(self, script, **options):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "athanor")
            path.write_text("#!/bin/sh\n" + script)
            path.chmod(0o755)
            with mock.patch.object(programs, "program", lambda: str(path)), contextlib.redirect_stderr(io.StringIO()) as said:
                try:
                    athanor.compare("run", **options)
                finally:
                    self.said = said.getvalue()

    def test_a_program_that_is_killed_is_named_with_what_it_said(self):
        with self.assertRaisesRegex(athanor.Error, "(?s)last words.*athanor compare was ended by SIGKILL"):
            self.call("echo last words >&2; kill -9 $$")
        self.assertEqual(self.said, "last words\n")

    def test_a_program_that_says_nothing_is_named_with_its_code(self):
        with self.assertRaisesRegex(athanor.Error, "athanor compare ended with exit code 9"):
            self.call("exit 9")

    def test_outside_tolerance_has_the_comparison(self):
        with self.assertRaisesRegex(athanor.OutsideToleranceError, "^step time is 7 % off") as caught:
            self.call("""echo '{"within_tolerance": false}'; echo 'athanor-sim: step time is 7 % off' >&2; exit 4""")
        self.assertEqual(caught.exception.result, {"within_tolerance": False})

    def test_where_nothing_is_installed_the_way_out_is_named(self):
        with mock.patch.object(programs, "__file__", "/nowhere/programs.py"), \
             mock.patch.object(shutil, "which", lambda name: None), \
             self.assertRaisesRegex(athanor.Error, "Install the wheel athanor-sim"):
            athanor.compare("run")


@unittest.skipUnless(CAN_TRAIN, "the trainer is absent")
class Machine(unittest.TestCase):
    """The whole way on this machine's processors."""

    def test_measure_tune_train_and_compare(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()) as said:
            files = {name: pathlib.Path(folder, f"{name}.json") for name in ("platform", "profile", "plan")}
            platform = athanor.calibrate(backend="cpu", gpus=1, quick=True, output=files["platform"])
            self.assertEqual(platform, json.loads(files["platform"].read_text()))
            self.assertIn("copies", said.getvalue())
            said.truncate(0)
            profile = athanor.profile("gpt2-tiny", seq=32, micro_batches=[1, 2], backend="cpu", quiet=True,
                                      output=files["profile"])
            self.assertEqual({cost["micro_batch"] for cost in profile["costs"]}, {1, 2})
            athanor.tune(profile=files["profile"], platform=files["platform"], gpus=1, global_batch=2,
                         output=files["plan"])
            text = pathlib.Path(folder, "text.txt")
            text.write_text("athanor " * 400)
            subprocess.run([BIN / "athanor", "train", "--plan", files["plan"], "--model", "gpt2-tiny", "--data", text,
                            "--steps", "4", "--quiet", "-o", pathlib.Path(folder, "run")], check=True)
            compared = athanor.compare(pathlib.Path(folder, "run"))
            self.assertEqual(compared, shell("compare", pathlib.Path(folder, "run")))
            with self.assertRaises(athanor.OutsideToleranceError) as caught:
                athanor.compare(pathlib.Path(folder, "run"), tolerance="0.0001%")
            self.assertIs(caught.exception.result["within_tolerance"], False)
            self.assertNotIn("micro-batch", said.getvalue())


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    warnings.simplefilter("ignore")
    unittest.main(argv=[sys.argv[0], *OPTIONS])
