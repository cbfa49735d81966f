#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the runs that a record lists and writes what came out beside what was predicted.

usage: lab/record.py RECORD.json --data FILE [--refresh] [--nvme FOLDER] [--athanor PROGRAM] [--only NAME,..]
                       [--keep FOLDER]

Each run is predicted (athanor tune for the policy auto, athanor simulate for the others) before it is trained. Paths
in the record are relative to its folder; format: traces/README.md. Results already there are measured again.

--refresh measures what the host does again before each prediction: in virtual machines that others share hosts with,
it changes within minutes.

--keep keeps each run's folder as FOLDER/NAME, for athanor compare and for Perfetto.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

LEAST_STEPS = 5


def athanor(arguments, *words):
    command = [arguments.athanor, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def platform_now(arguments, folder, record, run, work):
    """The platform file to predict from; what changed since it was measured goes into the run."""
    run.pop("platform_changes", None)
    before = folder / record["platform"]
    if not arguments.refresh:
        return before
    now = work / "platform.json"
    athanor(arguments, "calibrate", "--refresh", before, "-o", now)
    old, new = json.loads(before.read_text()), json.loads(now.read_text())
    run["platform_changes"] = {key: new[key] for key in new if key != "provenance" and new[key] != old.get(key)}
    return now


def make_plan(arguments, folder, run, platform, path):
    """Writes the plan, with its prediction."""
    words = ["--profile", folder / run["profile"], "--platform", platform, "--gpus", run["gpus"]]
    words += ["--global-batch", run["global_batch"]]
    for key in ("gpu_memory", "host_memory", "nvme", "micro_batch", "adam_threads", "clip", "clipped_share",
                "cuda_graphs", "pattern"):
        if key in run:
            words += ["--" + key.replace("_", "-"), run[key]]
    if run["policy"] == "auto":
        words += ["--host-slowdown", run["host_margin"]] if "host_margin" in run else []
        words += ["--snapshot", run["snapshot"]] if "snapshot" in run else []
        answer = json.loads(athanor(arguments, "tune", *words, "-o", path, "--json"))
    else:
        words += ["--snapshots-by", run["snapshot"]] if "snapshot" in run else []
        answer = json.loads(athanor(arguments, "simulate", *words, "--policy", run["policy"], "--json"))
    path.write_text(json.dumps(answer["plan"]))
    return answer


def measure(arguments, folder, record, run, work):
    plan = work / "plan.json"
    platform = platform_now(arguments, folder, record, run, work)
    run["predicted_step_seconds"] = make_plan(arguments, folder, run, platform, plan)["step_seconds"]
    out = arguments.keep / run["name"] if arguments.keep else work / "run"
    words = ["--plan", plan, "--profile", folder / run["profile"], "--platform", platform]
    words += ["--model", run["model"], "--data", arguments.data, "--steps", run["steps"], "--warmup-steps", run["steps"]]
    words += ["--lr", "1e-4", "--output", out, "--gpus", run["gpus"], "--quiet", "--checkpoint-every", "0"]
    words += ["--repredict", "wait"]  # nothing simulates beside the steps that count
    if not arguments.data.endswith(".bin"):
        words += ["--tokens-dtype", "bytes"]  # a record is about time: any tokens will do
    if "gpu_memory" in run:
        words += ["--gpu-memory", run["gpu_memory"]]
    if "nvme" in run:
        if arguments.nvme is None:
            raise RuntimeError("keeps state on NVMe: say where with --nvme FOLDER")
        words += ["--nvme", arguments.nvme]
    if run["steps"] < LEAST_STEPS:  # two to warm up, the last one, and two that tell a spread
        raise RuntimeError(f"{run['name']}: steps: {run['steps']} is less than {LEAST_STEPS}")
    athanor(arguments, "train", *words)
    compared = json.loads(athanor(arguments, "compare", out, "--json"))
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    every_step = [line["time_metrics/end_to_end(s)"] for line in lines]
    seconds = every_step[2:-1]
    quartiles = statistics.quantiles(seconds, n=4)
    run["plan"] = json.loads(plan.read_text()) | {"profile_path": run["profile"], "platform_path": record["platform"]}
    run["split_master"] = True
    run["step_seconds"] = compared["step_seconds"]["measured"]
    if "repredicted" in compared["step_seconds"]:
        run["repredicted_step_seconds"] = compared["step_seconds"]["repredicted"]
    run["operations"] = compared["operations"]
    run["phase_seconds_by_rank"] = compared["phase_seconds_by_rank"]
    run["spread"] = quartiles[2] - quartiles[0]
    run["device_peak_bytes"] = compared["device_peak_bytes"]["measured"]
    run["predicted_device_peak_bytes"] = compared["device_peak_bytes"]["predicted"]
    run["every_step_seconds"] = [round(step, 6) for step in every_step]
    run["losses"] = [line["loss_metrics/global_avg_loss"] for line in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", type=pathlib.Path)
    parser.add_argument("--data", required=True, help="tokens or text to train on")
    parser.add_argument("--refresh", action="store_true", help="measure the host again before each run")
    parser.add_argument("--nvme", help="folder for what runs keep on NVMe")
    parser.add_argument("--athanor", default="athanor")
    parser.add_argument("--only", help="names of runs, with commas")
    parser.add_argument("--keep", type=pathlib.Path, help="folder that keeps the folder of each run")
    arguments = parser.parse_args()
    record = json.loads(arguments.record.read_text())
    os.environ.update(record.get("environment", {}))
    folder = arguments.record.resolve().parent
    failed = 0
    for run in record["runs"]:
        if arguments.only and run["name"] not in arguments.only.split(","):
            continue
        with tempfile.TemporaryDirectory(dir=arguments.nvme) as work:
            try:
                measure(arguments, folder, record, run, pathlib.Path(work))
            except RuntimeError as error:
                print(f"{run['name']}: {error}", file=sys.stderr)
                failed += 1
                continue
        share = run["predicted_step_seconds"] / run["step_seconds"] - 1
        print(f"{run['name']}: predicted {run['predicted_step_seconds']:.4f} s, measured {run['step_seconds']:.4f} s "
              f"({100 * share:+.1f} %), device {run['device_peak_bytes']} B", flush=True)
        arguments.record.write_text(json.dumps(record, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
