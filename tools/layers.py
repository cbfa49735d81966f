#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the shape of the code: includes point downward only, third parties stay in their layer, files stay short."""

import pathlib
import re
import sys

# Folder -> the other folders of ours that it may include. Longest prefix wins; tests and cli see everything.
ALLOWED = {
    "sim/model": [],
    "sim/engine": ["sim/model"],
    "sim/tune": ["sim/model", "sim/engine"],
    "executor/lanes": ["sim/model"],
    "executor/io": ["sim/model", "executor/lanes"],
    "executor/units": ["sim/model", "executor/lanes", "executor/io"],
    "executor/run": ["sim/model", "executor"],
    "executor/cuda": ["sim/model", "executor/lanes"],
    # What is measured must be the code that runs: the one exception to "meet in files".
    "calibrate": ["sim/model", "executor/lanes", "executor/units", "cli/common"],
    "calibrate/cuda": ["sim/model", "executor/lanes", "executor/units", "executor/cuda", "calibrate"],
}
# Third-party include prefix -> the only folders that may use it.
OWNERS = {
    "simgrid/": ["sim/engine", "tests/engine"],
    "torch/": ["executor", "calibrate", "tests", "cli"],
    "cuda": ["executor/cuda", "calibrate/cuda", "tests/cuda"],
    "cupti": ["calibrate/cuda", "tests/cuda"],
    "nccl.h": ["executor/cuda", "calibrate/cuda", "tests/cuda"],
    "mpi.h": ["executor/lanes", "calibrate", "tests"],
}
MAX_LINES = 500
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def inside(path, folder):
    return path == folder or path.startswith(folder + "/")


def layer_of(path):
    layers = [layer for layer in ALLOWED if inside(path, layer)]
    return max(layers, key=len, default=None)


def problems(path):
    text = pathlib.Path(path).read_text()
    if text.count("\n") > MAX_LINES:
        yield f"{path}: more than {MAX_LINES} lines; split it"
    if not text.startswith("// SPDX-License-Identifier: Apache-2.0\n"):
        yield f"{path}: does not start with the SPDX line"
    layer = layer_of(path)
    for mark, name in INCLUDE.findall(text):
        if mark == '"' and layer and "/" in name:
            if not any(inside(name, folder) for folder in [layer, *ALLOWED[layer]]):
                yield f"{path}: {layer} must not include {name}"
        for prefix, folders in OWNERS.items():
            if mark == "<" and name.startswith(prefix) and not any(inside(path, f) for f in folders):
                yield f"{path}: <{name}> belongs to {', '.join(folders)}"


def main():
    found = [problem for path in sys.argv[1:] for problem in problems(path)]
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
