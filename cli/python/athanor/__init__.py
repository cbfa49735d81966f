# SPDX-License-Identifier: Apache-2.0
"""athanor from Python: five verbs of the programs, which return plain data.

Keyword arguments are the options of `athanor VERB --help`, with underscores: gpu_memory="24GiB" is --gpu-memory 24GiB.
True sets a flag, None and False leave an option out, and a list gives it several times. An input may be a path, the name
of an installed file, or a dictionary that another verb returned. What fails raises an Error with the program's message.

The wheel athanor-sim installs this package with the programs that simulate; the wheel athanor adds those that measure and
train."""

from athanor.errors import Error, InfeasibleError, InputError, OutsideToleranceError
from athanor.verbs import calibrate, compare, profile, simulate, tune

__all__ = ["calibrate", "compare", "profile", "simulate", "tune",
           "Error", "InfeasibleError", "InputError", "OutsideToleranceError"]
