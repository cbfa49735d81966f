# SPDX-License-Identifier: Apache-2.0
"""What the notebooks share: how they call athanor-sim, and where the recorded data is."""

import json
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLATFORMS = ROOT / "platforms"
PROFILES = ROOT / "traces" / "profiles"
RECORDS = ROOT / "traces" / "records"
NO_PLAN_FITS = 3
GIB = 2**30


def program():
    """ATHANOR_SIM, else the athanor-sim that was built last."""
    if "ATHANOR_SIM" in os.environ:
        return os.environ["ATHANOR_SIM"]
    built = sorted(ROOT.glob("build/*/bin/athanor-sim"), key=lambda path: path.stat().st_mtime)
    if not built:
        raise FileNotFoundError("no build/*/bin/athanor-sim: run ./dev build, or set ATHANOR_SIM")
    return str(built[-1])


def run(*words):
    """Standard output and exit code of athanor-sim; a failure other than that nothing fits is raised."""
    done = subprocess.run([program(), *map(str, words)], capture_output=True, text=True)
    if done.returncode not in (0, NO_PLAN_FITS):
        raise RuntimeError(f"athanor-sim {' '.join(map(str, words))}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout, done.returncode


def answer(verb, **options):
    """The JSON object of a verb, or None where no plan fits and there is none. Options are those of the command
    line with underscores; True is a flag, a list several values."""
    words = [verb, "--json"]
    for key, value in options.items():
        words.append("--" + key.replace("_", "-"))
        if value is not True:
            words += value if isinstance(value, list) else [value]
    text, _ = run(*words)
    return json.loads(text) if text else None


def policies():
    """The names that --policy takes, auto first; without those that need NVMe, of which data sheets say nothing."""
    text = " ".join(run("simulate", "--help")[0].split())
    names = re.search(r"A named rule instead of a plan: ((?:[\w-]+, )*[\w-]+)", text).group(1).split(", ")
    return [name for name in names if name != "zero-infinity"]


def platform_of(run, folder):
    """The platform file of a run of records(), as it was when the run was predicted; written to `folder` where that
    is not the file of its record."""
    if "platform_changes" not in run:
        return run["platform"]
    changed = Path(folder, "platform.json")
    changed.write_text(json.dumps({**json.loads(run["platform"].read_text()), **run["platform_changes"]}))
    return changed


def records():
    """The runs of traces/records, each with the machine that it ran on and its lease's folder."""
    runs = []
    for lease in json.loads((RECORDS / "manifest.json").read_text())["leases"]:
        if "runs" not in lease:
            continue
        folder = RECORDS / lease["folder"]
        record = json.loads((folder / lease["runs"]).read_text())
        runs += [{**run, "machine": lease["folder"], "platform": folder / record["platform"],
                  "profile": folder / run["profile"]} for run in record["runs"]]
    return runs
