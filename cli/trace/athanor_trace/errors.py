# SPDX-License-Identifier: Apache-2.0
"""Errors and exit codes, which are those of all programs."""

DONE, FAILED, BAD_INPUT = 0, 1, 2


class InputError(Exception):
    """The user's input cannot be used. `where` names the file or the option, `hint` the way out."""

    def __init__(self, where, problem, hint):
        super().__init__(f"{where}: {problem}. {hint}")


class MissingPackage(Exception):
    """A package that this Python lacks."""
