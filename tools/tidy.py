#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy on the sources of a build folder and remembers what was clean.

A source is checked again when it, a header of ours that it includes, its compile command or the configuration has
changed. Sources of one target are checked together, as CMake's unity builds compile them: three quarters of the time
goes to the headers that they share. With --alone each of them is then compiled alone, since there it must not lack an
include that a neighbour brings. Sources that include LibTorch take a minute each: only with --torch. --no-tests leaves
tests/ out.
"""

import argparse
import concurrent.futures
import functools
import hashlib
import json
import pathlib
import re
import shlex
import subprocess
import sys

UNITY_BATCH_SIZE = 20  # as the presets coverage and asan have it: what they compile as one shares no names of its own
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


@functools.lru_cache(maxsize=None)
def includes(path):
    """(quoted, angled) includes of one file, as written."""
    found = INCLUDE.findall(path.read_text())
    return [n for mark, n in found if mark == '"'], [n for mark, n in found if mark == "<"]


def closure(source, root):
    """`source` and the headers of ours that it includes, directly or not, and whether LibTorch is among them."""
    seen, waiting, torch = set(), [source], False
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        quoted, angled = includes(path)
        torch |= any(name.startswith(("torch/", "ATen/", "c10/")) for name in angled)
        for name in quoted:
            waiting += [p for p in (root / name, path.parent / name) if p.is_file()][:1]
    return sorted(seen), torch


def fingerprint(files, command, configuration):
    digest = hashlib.sha256(configuration)
    digest.update(command.encode())
    for path in files:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def entries(build):
    """(source, its entry) of the sources that are ours, in the order of the compile commands."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = pathlib.Path(entry["file"])
        if source.is_file() and build not in source.parents:
            yield source, entry


def batch_name(root, source, entry, places):
    """What is checked in one go with `source`: its neighbours in its target that are compiled with the same options.

    `places` counts the sources of each. Tests share names, so they go alone.
    """
    target = re.search(r"(\S+)\.dir/", entry["command"]).group(1).replace("/", "-")
    options = [a for a in shlex.split(entry["command"]) if source.name not in a]
    neighbours = f"{target}-{hashlib.sha256(shlex.join(options).encode()).hexdigest()[:8]}"
    place = places[neighbours] = places.get(neighbours, -1) + 1
    size = 1 if root / "tests" in source.parents else UNITY_BATCH_SIZE
    return f"{neighbours}-{place // size}{source.suffix}"


def plan(arguments, root):
    """{batch: [(source, entry, stamp)]} of what has to be checked, and how many were left out: clean, with LibTorch."""
    cache = root / ".cache" / "tidy"
    cache.mkdir(parents=True, exist_ok=True)
    version = subprocess.run([arguments.tidy, "--version"], capture_output=True, check=True).stdout
    configuration = version + b"".join(
        p.read_bytes() for p in (root / ".clang-tidy", root / "tests" / ".clang-tidy") if p.is_file())
    batches, places, clean, with_torch = {}, {}, 0, 0
    for source, entry in entries(arguments.build):
        batch = batch_name(root, source, entry, places)
        if arguments.no_tests and root / "tests" in source.parents:
            continue
        files, torch = closure(source, root)
        if torch and not arguments.torch:
            with_torch += 1
            continue
        stamp = cache / fingerprint(files, entry["command"], configuration)
        if stamp.exists():
            clean += 1
        else:
            batches.setdefault(batch, []).append((source, entry, stamp))
    return batches, clean, with_torch


def write_batches(folder, batches):
    """A source for each batch that includes its sources, and their compile commands."""
    folder.mkdir(exist_ok=True)
    commands = []
    for name, members in batches.items():
        (folder / name).write_text("".join(f'#include "{source}"\n' for source, _, _ in members))
        _, first, _ = members[0]
        arguments = [str(folder / name) if a == first["file"] else a for a in shlex.split(first["command"])]
        commands.append({"directory": first["directory"], "file": str(folder / name), "arguments": arguments})
    (folder / "compile_commands.json").write_text(json.dumps(commands))


def compile_alone(compiler, entry):
    """Errors of a source on its own, without warnings: those are the batch's."""
    keep = [a for a in shlex.split(entry["command"]) if a.startswith(("-D", "-std="))]
    include = re.findall(r"-(?:I|isystem)\s*\S+", entry["command"])
    command = [compiler, "-fsyntax-only", "-w", *keep, *shlex.split(" ".join(include)), entry["file"]]
    return subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True)


def check(arguments, folder, name, members):
    runs = [subprocess.run([arguments.tidy, "-p", folder, "--quiet", folder / name], capture_output=True, text=True)]
    if arguments.alone and len(members) > 1:
        runs += [compile_alone(arguments.compiler, entry) for _, entry, _ in members]
    failed = [run for run in runs if run.returncode != 0]
    return len(failed), runs[0].stdout + "".join(run.stderr for run in failed)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="folder with compile_commands.json")
    parser.add_argument("--tidy", default="clang-tidy-19")
    parser.add_argument("--compiler", default="clang++-19")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--alone", action="store_true", help="also compile each source alone")
    parser.add_argument("--torch", action="store_true", help="also the sources that include LibTorch")
    parser.add_argument("--no-tests", action="store_true", help="leave tests/ out")
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()
    root = pathlib.Path(__file__).resolve().parent.parent
    batches, clean, with_torch = plan(arguments, root)
    total = sum(map(len, batches.values()))
    print(f"    {total} to check, {clean} clean before, {with_torch} with LibTorch left out", file=sys.stderr)
    folder = arguments.build / "batches"
    write_batches(folder, batches)
    failed = done = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        runs = {pool.submit(check, arguments, folder, name, members): members for name, members in batches.items()}
        for run in concurrent.futures.as_completed(runs):
            status, output = run.result()
            for source, _, stamp in runs[run]:
                done += 1
                print(f"    [{done}/{total}] {source.relative_to(root)}", file=sys.stderr)
                if status == 0:
                    stamp.touch()
            if status != 0:
                failed += 1
                print(output)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
