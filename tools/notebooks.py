#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Executes notebooks/*.ipynb, one on each core, and compares what they print with what is committed.

usage: tools/notebooks.py [--write] [NAME..]

--write  stores the new outputs instead of comparing

Environment: ATHANOR_SIM (the program that they call). Pictures are drawn but not compared; what goes to stderr is dropped. Exits with 4 where the
packages of tools/requirements-notebooks.txt are missing.
"""

import argparse
import concurrent.futures
import os
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "notebooks"
MISSING = 4
SECONDS_PER_CELL = 600

try:
    import nbclient
    import nbformat
except ImportError as error:
    print(f"notebooks: {error}; ./dev setup installs what they need", file=sys.stderr)
    sys.exit(MISSING)


def execute(path):
    """The notebook as it is now: no times of execution, which would differ each time."""
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, kernel_name="python3", timeout=SECONDS_PER_CELL, record_timing=False,
                            resources={"metadata": {"path": str(FOLDER)}}).execute()
    for cell in notebook.cells:  # progress says how long it takes
        cell["outputs"] = [output for output in cell.get("outputs", []) if output.get("name") != "stderr"]
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"}}
    return notebook


def printed(notebook):
    """Texts of all outputs, by cell; an object's text holds an address where it has no better one."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return ["".join(text_of(output) for output in cell.outputs) for cell in cells]


def text_of(output):
    data = output.get("data", {})
    return output.get("text", "") + data.get("text/html", data.get("text/plain", ""))


def check(path, write):
    """Whether the notebook runs and prints what it should."""
    committed = nbformat.read(path, as_version=4)
    try:
        fresh = execute(path)
    except nbclient.exceptions.CellExecutionError as error:
        print(f"{path.name}: {error}", file=sys.stderr)
        return False
    if write:
        nbformat.write(fresh, path)
        return True
    for number, (old, new) in enumerate(zip(printed(committed), printed(fresh), strict=True), 1):
        if old != new:
            print(f"{path.name}: code cell {number} prints\n{new}\nand not what is committed. If that is right, run "
                  "./dev notebooks --write", file=sys.stderr)
            return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a notebook, without .ipynb (default: all)")
    arguments = parser.parse_args()
    names = arguments.names or sorted(path.stem for path in FOLDER.glob("*.ipynb"))
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        runs = [pool.submit(check, FOLDER / f"{name}.ipynb", arguments.write) for name in names]
        good = [run.result() for run in runs]
    print(f"{sum(good)} of {len(names)} notebooks are good")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
