# SPDX-License-Identifier: Apache-2.0
"""What the verbs raise: one class for each of the programs' exit codes."""


class Error(Exception):
    """A program failed. `message` is what it said, which ends with `hint`, the way out, where one is known."""

    def __init__(self, message, hint="", result=None):
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.result = result  # what the program printed all the same, such as the report of a plan that does not fit


class InputError(Error):
    """An option or a file cannot be used."""


class InfeasibleError(Error):
    """No plan, or not this plan, fits the memory at hand."""


class OutsideToleranceError(Error):
    """A run was further from its prediction than `tolerance`. `result` is the comparison."""


BY_EXIT_CODE = {2: InputError, 3: InfeasibleError, 4: OutsideToleranceError}
