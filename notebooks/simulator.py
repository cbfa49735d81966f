# SPDX-License-Identifier: Apache-2.0
"""What the notebooks share: athanor from Python, with the programs of this checkout, and where the recorded data is."""

import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLATFORMS = ROOT / "platforms"
PROFILES = ROOT / "traces" / "profiles"
RECORDS = ROOT / "traces" / "records"
GIB = 2**30


def folder_of_programs():
    """That of ATHANOR_SIM, else of the athanor-sim that was built last."""
    if "ATHANOR_SIM" in os.environ:
        return Path(os.environ["ATHANOR_SIM"]).parent
    built = sorted(ROOT.glob("build/*/bin/athanor-sim"), key=lambda path: path.stat().st_mtime)
    if not built:
        raise FileNotFoundError("no build/*/bin/athanor-sim: run ./dev build, or set ATHANOR_SIM")
    return built[-1].parent


os.environ["PATH"] = f"{folder_of_programs()}:{os.environ['PATH']}"
sys.path.insert(0, str(ROOT / "cli" / "python"))
warnings.simplefilter("ignore")  # notes, such as that a record's limit is above what the platform has

import athanor  # noqa: E402


def policies():
    """The names that --policy takes, auto first; without those that need NVMe, of which data sheets say nothing."""
    done = subprocess.run(["athanor", "simulate", "--help"], capture_output=True, text=True, check=True)
    text = " ".join(done.stdout.split())
    names = re.search(r"A named rule instead of a plan: ((?:[\w-]+, )*[\w-]+)", text).group(1).split(", ")
    return [name for name in names if name != "zero-infinity"]


def platform_of(run):
    """The platform of a run of records(), as it was when the run was predicted."""
    return json.loads(run["platform"].read_text()) | run.get("platform_changes", {})


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
