# SPDX-License-Identifier: Apache-2.0
"""Runs the README's tour as it is written, command by command, on the CPU backend with two ranks.

usage: test_tour.py ATHANOR

The first code block under "A tour" is the tour; what needs GPUs or other tools' files is named in the text behind it. Every
command has to end with 0 and to write what it names, and the loss has to fall as in the demo. Exits with 77 (skipped) where transformers is absent."""

import importlib.util
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

if not all(map(importlib.util.find_spec, ("transformers", "tokenizers", "safetensors", "jinja2"))):
    print("skipped: transformers is absent")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUTPUTS = ("-o", "--export")
# The way from a person's own model and chats to a trained model. Other verbs may stand between and behind.
WAY = ["calibrate", "tokenize", "profile", "tune", "train", "compare", "report"]


def tour(page):
    """Returns the lines of the tour; a backslash continues one."""
    block = re.search(r"^## A tour\n.*?^```\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert block, "README.md has no tour"
    return block[1].replace("\\\n", " ").splitlines()


def verbs_of(commands):
    return [words[1] for words in (shlex.split(command, comments=True) for command in commands)]


def outputs_of(command):
    words = shlex.split(command, comments=True)
    return [value for option, value in zip(words, words[1:]) if option in OUTPUTS]


def environment(athanor):
    """Returns a shell's environment with athanor on its PATH, and without GPUs: two ranks would need two."""
    return os.environ | {"PATH": f"{pathlib.Path(athanor).resolve().parent}:{os.environ['PATH']}",
                         "ATHANOR_PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""}


def run(command, assignments, folder, variables):
    print(f"$ {command}", flush=True)
    begin = time.monotonic()
    script = "\n".join(["set -euo pipefail", *assignments, command])
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=variables, capture_output=True, text=True)
    print(f"{time.monotonic() - begin:.1f} s", flush=True)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    for name in outputs_of(command):
        assert (folder / name).exists(), f"wrote no {name}"


def check(athanor, folder):
    lines = tour((ROOT / "README.md").read_text(encoding="utf-8"))
    commands = [line for line in lines if line.startswith("athanor ")]
    assignments = [line for line in lines if line not in commands]
    assert all(re.match(r"[A-Z]+=", line) for line in assignments), f"neither command nor variables: {assignments}"
    assert [verb for verb in dict.fromkeys(verbs_of(commands)) if verb in WAY] == WAY, verbs_of(commands)
    (folder / "examples").symlink_to(ROOT / "examples")
    for command in commands:
        run(command, assignments, folder, environment(athanor))
    subprocess.run([sys.executable, ROOT / "tools" / "demo_loss.py", folder / "run" / "metrics.jsonl"], check=True)
    assert (folder / "run" / "report.html").is_file()
    import transformers  # not before: the programs come first
    given = transformers.AutoTokenizer.from_pretrained(folder / "trained")("What is a plan?").keys()
    assert set(given) == {"input_ids", "attention_mask"}, f"generate() of the trained model does not take {list(given)}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        check(sys.argv[1], pathlib.Path(scratch))
