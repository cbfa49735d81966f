#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy on the sources of a build folder and remembers what was clean.

A source is checked again when it, a header of ours that it includes, its compile command or the configuration has
changed. Sources that include LibTorch take a minute each: only with --torch. --no-tests leaves tests/ out.
"""

import argparse
import concurrent.futures
import functools
import hashlib
import json
import pathlib
import re
import subprocess
import sys

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


def check(tidy, build, source):
    done = subprocess.run([tidy, "-p", build, "--quiet", source], capture_output=True, text=True)
    return done.returncode, done.stdout + ("" if done.returncode == 0 else done.stderr)


def plan(arguments, root):
    """[(source, stamp)] of what has to be checked, and how many were skipped: clean before, with LibTorch."""
    cache = root / ".cache" / "tidy"
    cache.mkdir(parents=True, exist_ok=True)
    version = subprocess.run([arguments.tidy, "--version"], capture_output=True, check=True).stdout
    configuration = version + b"".join(
        p.read_bytes() for p in (root / ".clang-tidy", root / "tests" / ".clang-tidy") if p.is_file())
    todo, clean, with_torch = [], 0, 0
    for entry in json.loads((arguments.build / "compile_commands.json").read_text()):
        source = pathlib.Path(entry["file"])
        if not source.is_file() or arguments.build in source.parents:
            continue
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
            todo.append((source, stamp))
    return todo, clean, with_torch


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="folder with compile_commands.json")
    parser.add_argument("--tidy", default="clang-tidy-19")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--torch", action="store_true", help="also the sources that include LibTorch")
    parser.add_argument("--no-tests", action="store_true", help="leave tests/ out")
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()
    root = pathlib.Path(__file__).resolve().parent.parent
    todo, clean, with_torch = plan(arguments, root)
    print(f"    {len(todo)} to check, {clean} clean before, {with_torch} with LibTorch left out", file=sys.stderr)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        runs = {pool.submit(check, arguments.tidy, arguments.build, s): (s, stamp) for s, stamp in todo}
        for number, run in enumerate(concurrent.futures.as_completed(runs), 1):
            source, stamp = runs[run]
            status, output = run.result()
            print(f"    [{number}/{len(todo)}] {source.relative_to(root)}", file=sys.stderr)
            if status == 0:
                stamp.touch()
            else:
                failed += 1
                print(output)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
