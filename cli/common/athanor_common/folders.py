# SPDX-License-Identifier: Apache-2.0
"""Where a program writes its folder."""

import os
import pathlib

from .errors import InputError


def require_writable(folder):
    """Refuses a place where no folder can be made, before the work whose result goes there."""
    above = pathlib.Path(folder).absolute()
    while not above.exists() and above != above.parent:
        above = above.parent
    if not above.is_dir():
        raise InputError("--output", f"{above} is no folder", "Name another folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise InputError("--output", f"{above} cannot be written", "Name another folder")
