# SPDX-License-Identifier: Apache-2.0
"""Errors and exit codes, which are those of all programs, and how a program ends with them."""

import json
import os
import sys

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


class InputError(Exception):
    """The user's input cannot be used. `where` names the file and record or the option, `hint` the way out."""

    def __init__(self, where, problem, hint):
        super().__init__(f"{where}: {problem}. {hint}")
        self.hint = hint


class MissingPackage(Exception):
    """A package that this Python lacks."""

    def __init__(self, name):
        self.hint = f"Install it (pip install {name}), or name a Python that has it: ATHANOR_PYTHON=.venv/bin/python"
        super().__init__(f"{sys.executable} has no package '{name}'. {self.hint}")


def report(program, message, hint, code):
    """Says on stderr why a program ends, as sim/base/error_report.hpp does it, and returns its exit code."""
    if os.environ.get("ATHANOR_ERRORS") == "json":
        line = json.dumps({"program": program, "message": message, "hint": hint, "exit_code": code})
    else:
        line = f"{program}: error: {message}"
    sys.stderr.write(line + "\n")
    return code


def run_verb(verb, run, words):
    """Runs `run(words)` as the program of a verb and returns the exit code. The front passes its verb on."""
    program = f"athanor {verb}"
    try:
        run(words[1:] if words[:1] == [verb] else words)
        return DONE
    except InputError as error:
        return report(program, str(error), error.hint, BAD_INPUT)
    except MissingPackage as missing:
        return report(program, str(missing), missing.hint, FAILED)
    except OSError as error:
        return report(program, str(error), "", FAILED)
    except KeyboardInterrupt:
        return report(program, "interrupted", "", INTERRUPTED)
