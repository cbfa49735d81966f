# SPDX-License-Identifier: Apache-2.0
"""Becomes the program `athanor`, which lies in this package: the command of the wheel, and `python -m athanor`."""

import os
import pathlib
import sys


def main():
    program = pathlib.Path(__file__).parent / "bin" / "athanor"
    # tokenize and trace are started with the Python whose packages were installed beside this one.
    os.environ.setdefault("ATHANOR_PYTHON", sys.executable)
    os.execv(program, ["athanor", *sys.argv[1:]])


if __name__ == "__main__":
    main()
