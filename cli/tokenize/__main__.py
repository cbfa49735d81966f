# SPDX-License-Identifier: Apache-2.0
"""Starts `athanor tokenize`: Python runs the archive that holds this file."""

import sys

from athanor_tokenize.program import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
