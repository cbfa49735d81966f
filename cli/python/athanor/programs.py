# SPDX-License-Identifier: Apache-2.0
"""Finds the programs, runs them, and makes exceptions of what they say."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings

from athanor.errors import BY_EXIT_CODE, Error

MOST_LINES = 20  # of what a program said that died without a message


def program():
    """The program `athanor` of the wheel, beside this file; else, in a checkout, that of the PATH."""
    beside = pathlib.Path(__file__).parent / "bin" / "athanor"
    found = str(beside) if beside.is_file() else shutil.which("athanor")
    if not found:
        raise Error("the programs of athanor are not installed. Install the wheel athanor-sim, or add them to PATH.",
                    "Install the wheel athanor-sim, or add them to PATH.")
    return found


def environment():
    """What the programs see: errors as JSON, and this Python for those that are written in it."""
    return {**os.environ, "ATHANOR_ERRORS": "json",
            "ATHANOR_PYTHON": os.environ.get("ATHANOR_PYTHON") or sys.executable}


def as_error(line):
    """The object that a line of stderr holds where it is an error of a program, else None."""
    if not line.startswith('{"program": '):
        return None
    try:
        return json.loads(line)
    except ValueError:
        return None


class Listener:
    """What a program writes to stderr: notes become warnings, and progress goes on to this program's stderr."""

    def __init__(self, quiet):
        self.quiet = quiet
        self.error = None
        self.lines = []

    def hear(self, line):
        error = as_error(line)
        name, is_note, note = line.partition(": note: ")
        if error:
            self.error = error
        elif is_note and name.startswith("athanor-"):
            warnings.warn(note, stacklevel=5)
        elif line:
            self.lines = [*self.lines[1 - MOST_LINES:], line]
            if not self.quiet:
                print(line, file=sys.stderr, flush=True)

    def message(self, verb, code):
        if self.error:
            return self.error["message"]
        if code < 0:
            return "\n".join([*self.lines, f"athanor {verb} was ended by {signal.Signals(-code).name}"])
        said = "\n".join(line.removeprefix("athanor-sim: ") for line in self.lines)
        return said or f"athanor {verb} ended with exit code {code}"


def listen(process, listener):
    """Hears the program to its end. An exception here, such as Control-C, ends the program, too."""
    try:
        for line in process.stderr:
            listener.hear(line.rstrip("\n"))
        return process.wait()
    except BaseException:
        process.terminate()
        raise


def run(verb, words, quiet):
    """Runs a verb and returns its exit code, what it printed, and what it said."""
    listener = Listener(quiet)
    with tempfile.TemporaryFile() as printed:
        with subprocess.Popen([program(), verb, *words], stdin=subprocess.DEVNULL, stdout=printed,
                              stderr=subprocess.PIPE, env=environment(), encoding="utf-8",
                              errors="replace") as process:
            code = listen(process, listener)
        printed.seek(0)
        return code, printed.read().decode("utf-8"), listener


def answer(verb, words, quiet):
    """The JSON object that a verb prints, or None where it prints nothing. Raises what its exit code says."""
    code, text, listener = run(verb, words, quiet)
    result = json.loads(text) if text.lstrip().startswith("{") else None
    if code != 0:
        hint = listener.error["hint"] if listener.error else ""
        raise BY_EXIT_CODE.get(code, Error)(listener.message(verb, code), hint, result)
    return result
