#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the shape of the code.

A room is a folder of sources that is one idea. ROOMS lists every room with the rooms that it may include. The script
fails on a folder that is no room, on an include that ROOMS does not allow, on a third party outside its rooms, on a
room with more than 30 files (a header and its source count as two), and on a source without the licence line.
ROOMS is in layer order: a room may include only rooms that stand above it in the list, so no cycle can be written.
"""

import collections
import pathlib
import re
import sys

MODEL = ["sim/base", "sim/model"]
# Room -> the other rooms that it may include.
ROOMS = {
    "sim/base": [],
    "sim/failures": ["sim/base"],
    "sim/model": ["sim/base"],
    "sim/patterns": MODEL,
    "sim/lowering": MODEL,
    "sim/cost": MODEL,
    "sim/rates": [*MODEL, "sim/lowering", "sim/cost"],
    "sim/families": MODEL,
    "sim/formats": [*MODEL, "sim/patterns", "sim/rates", "sim/families"],
    "sim/interchange": [*MODEL, "sim/formats"],
    "sim/benchmarks": [*MODEL, "sim/formats"],
    "sim/engine": [*MODEL, "sim/cost", "sim/rates"],
    "sim/bounds": [*MODEL, "sim/cost"],
    "sim/report": [*MODEL, "sim/cost", "sim/bounds"],
    "sim/policy/elixir": MODEL,
    "sim/policy": [*MODEL, "sim/cost", "sim/lowering", "sim/bounds", "sim/policy/elixir"],
    "sim/settings": [*MODEL, "sim/formats", "sim/policy"],
    "sim/search/space": [*MODEL, "sim/policy"],
    "sim/search": [*MODEL, "sim/search/space", "sim/patterns", "sim/cost", "sim/lowering", "sim/bounds", "sim/report", "sim/policy", "sim/engine"],
    "executor/cpu": MODEL,
    "executor/io": [*MODEL, "sim/formats", "executor/cpu"],
    "executor/data": [*MODEL, "sim/formats", "executor/io"],
    "executor/rendezvous": ["sim/base"],
    "executor/watch": [*MODEL, "executor/rendezvous"],
    "executor/recording": ["sim/base"],
    "executor/backend": [*MODEL, "executor/cpu", "executor/recording", "executor/rendezvous"],
    "executor/ranks": ["sim/base", "executor/rendezvous", "executor/backend"],
    "executor/layers": MODEL,
    "executor/experts": [*MODEL, "executor/layers"],
    "executor/travel": ["executor/layers", "executor/experts"],
    "executor/units": [*MODEL, "sim/patterns", "executor/cpu", "executor/backend", "executor/layers", "executor/experts",
                       "executor/travel"],
    "executor/vision": [*MODEL, "executor/layers", "executor/units"],
    "executor/traced": [*MODEL, "sim/formats", "executor/layers", "executor/units", "executor/vision"],
    "executor/batches": [*MODEL, "executor/data", "executor/layers", "executor/units"],
    "executor/memory": [*MODEL, "sim/lowering", "executor/cpu", "executor/backend"],
    "executor/snapshot": [*MODEL, "sim/failures", "sim/lowering", "executor/cpu", "executor/backend", "executor/memory"],
    "executor/job": [*MODEL, "sim/rates", "sim/formats", "executor/io"],
    "executor/train": [*MODEL, "executor/recording", "sim/patterns", "sim/lowering", "executor/cpu", "executor/io", "executor/batches", "executor/backend",
                       "executor/units", "executor/memory", "executor/snapshot", "executor/job", "executor/watch"],
    "executor/checkpoint": [*MODEL, "sim/formats", "executor/cpu", "executor/backend", "executor/io", "executor/job", "executor/train"],
    "executor/cuda/kernels": [*MODEL, "executor/cpu"],
    "executor/cuda": [*MODEL, "executor/recording", "executor/cpu", "executor/rendezvous", "executor/backend", "executor/cuda/kernels"],
    "executor/cuda/operators": [*MODEL, "executor/cuda/kernels", "executor/cuda"],
    # What is measured must be the code that runs, so calibrate includes the executor's lanes and units.
    "calibrate/bench": ["sim/base"],
    "calibrate/power": [*MODEL, "sim/cost", "sim/formats", "calibrate/bench"],
    "calibrate/kernels": [*MODEL, "calibrate/bench"],
    "calibrate/activities": [*MODEL, "executor/cpu", "executor/backend", "calibrate/bench"],
    "calibrate/device": [*MODEL, "executor/backend", "calibrate/power", "calibrate/activities"],
    "calibrate/machine": [*MODEL, "sim/cost", "sim/formats", "executor/cpu", "executor/io", "executor/rendezvous", "executor/backend",
                          "calibrate/bench", "calibrate/power", "calibrate/activities", "calibrate/device"],
    "calibrate/profile": [*MODEL, "executor/recording", "sim/patterns", "executor/backend", "executor/units", "calibrate/bench", "calibrate/power",
                          "calibrate/kernels", "calibrate/machine"],
    "calibrate/cuda": [*MODEL, "executor/cuda/kernels", "executor/cuda", "calibrate/bench", "calibrate/power",
                       "calibrate/kernels", "calibrate/activities", "calibrate/device", "calibrate/profile"],
    "cli/common": ["sim/base"],
    "cli/front": ["sim/base", "cli/common"],
    "cli/doctor": ["sim/base", "cli/common"],
    "cli/rates": ["sim", "cli/common"],
    "cli/sim": ["sim", "cli/common", "cli/rates"],
    "cli/compare": ["sim", "cli/common", "cli/rates", "cli/sim"],
    "cli/report": ["sim", "cli/common", "cli/sim", "cli/compare"],
    "cli/settings": ["sim", "cli/common", "cli/sim"],
    "cli/failures": ["sim", "cli/common", "cli/sim"],
    "cli/calibrate": [*MODEL, "sim/rates", "sim/formats", "executor/rendezvous", "executor/backend", "executor/ranks", "calibrate/power",
                      "calibrate/kernels",
                      "calibrate/device", "calibrate/machine", "calibrate/profile", "executor/traced",
                      "executor/units", "cli/common"],
    "cli/retune": [*MODEL, "sim/cost", "sim/rates", "sim/formats", "executor", "cli/common"],
    "cli/train/log": ["sim/base", "executor"],
    "cli/train": [*MODEL, "sim/patterns", "sim/lowering", "sim/cost", "sim/rates", "sim/formats", "executor", "cli/common",
                  "cli/retune", "cli/train/log"],
    # Tests and examples see everything.
    "examples": ["sim", "executor", "calibrate"],
    "tests": ["sim", "executor", "calibrate", "cli", "tests"],
}
# Third-party include prefix -> the only rooms that may use it.
OWNERS = {
    "simgrid/": ["sim/engine", "tests/engine"],
    "torch/": ["executor", "calibrate", "tests", "cli", "examples"],
    "yaml-cpp/": ["sim/settings"],
    "toml++/": ["sim/settings"],
    "cuda": ["executor/cuda", "calibrate/cuda", "tests/cuda"],
    "cupti": ["calibrate/cuda", "tests/cuda"],
    "nccl.h": ["executor/cuda", "calibrate/cuda", "tests/cuda"],
    "mpi.h": ["executor/backend", "calibrate", "tests"],
}
MAX_LINES = 500
MAX_FILES = 30
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def inside(path, folder):
    return path == folder or path.startswith(folder + "/")


def room_of(path):
    """The room of a source: its folder; tests and what they consist of are one."""
    folder = str(pathlib.PurePath(path).parent)
    return "tests" if inside(folder, "tests") else folder


def include_problems(path, room, text):
    for mark, name in INCLUDE.findall(text):
        if mark == '"' and "/" in name:
            target = room_of(name)
            if target != room and not any(target == a or (a in WINGS and inside(target, a)) for a in ROOMS[room]):
                yield f"{path}: {room} must not include {name}"
        for prefix, rooms in OWNERS.items():
            if mark == "<" and name.startswith(prefix) and not any(inside(path, r) for r in rooms):
                yield f"{path}: <{name}> belongs to {', '.join(rooms)}"


# What stands for all its rooms where it is allowed as a whole.
WINGS = {"sim", "executor", "calibrate", "cli", "tests"}


def problems(path):
    text = pathlib.Path(path).read_text()
    if text.count("\n") > MAX_LINES:
        yield f"{path}: more than {MAX_LINES} lines; split it"
    if not text.startswith("// SPDX-License-Identifier: Apache-2.0\n"):
        yield f"{path}: does not start with the SPDX line"
    room = room_of(path)
    if room not in ROOMS:
        yield f"{path}: {room} is no room; add it to ROOMS in tools/layers.py, or move the file"
    else:
        yield from include_problems(path, room, text)


def order_problems():
    """A room that may include one that stands below it in ROOMS: the way to a cycle."""
    above = set()
    for room, allowed in ROOMS.items():
        for name in allowed:
            if name not in above and name not in WINGS:
                yield f"tools/layers.py: {room} may include {name}, which does not stand above it"
        above.add(room)


def size_problems(paths):
    for room, files in collections.Counter(map(room_of, paths)).items():
        if room != "tests" and files > MAX_FILES:
            yield f"{room}: {files} files; a room has at most {MAX_FILES}"


def installed_headers(text):
    """The headers that a text of CMake installs."""
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    found = re.findall(r"athanor_install_headers\((\S+/\S+)\s+([^)]*)\)", code)
    return [f"{room}/{name}.hpp" for room, names in found for name in names.split()]


def install_problems(headers, read):
    """Installed headers that include one which is not installed: nobody could compile them."""
    for header in headers:
        for mark, name in INCLUDE.findall(read(header)):
            if mark == '"' and name not in headers:
                yield f"{header} is installed, and {name}, which it includes, is not: see {INSTALLED}"


INSTALLED = "cmake/AthanorInstall.cmake"


def main():
    paths = sys.argv[1:]
    found = [*order_problems(), *size_problems(paths), *(problem for path in paths for problem in problems(path))]
    if pathlib.Path(INSTALLED).exists():
        headers = installed_headers(pathlib.Path(INSTALLED).read_text())
        found += install_problems(headers, lambda header: pathlib.Path(header).read_text())
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
