#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what a build computes, so that two builds can be compared with cmp or diff.

usage: lab/fingerprint.py --bin FOLDER -o OUT.json [--train]

The file holds the predicted step time and peak memory of every recorded run, ten programs operation by operation, and
the plan that `athanor tune` picks in three settings. --train adds the losses of fifty training steps on the CPU, with
two ranks, under eight plans. A change that should not alter numbers leaves the file as it was, but for renamed keys.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
POLICIES = ["ddp", "zero1", "zero2", "zero3", "zero2-offload", "zero3-offload", "elixir", "gemini", "fsdp2",
            "patrickstar"]
TINY = ["--profile", ROOT / "traces/example-gpt2-tiny.profile.json", "--platform", ROOT / "platforms/example-cpu.json",
        "--gpus", "2", "--global-batch", "8"]


def run(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def merge_patch(value, patch):
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for key, change in patch.items():
        if change is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), change)
    return merged


def records():
    """(record file, record) of every record of runs in the checkout."""
    for path in sorted((ROOT / "traces").rglob("*.json")):
        content = json.loads(path.read_text())
        if content.get("schema", "").startswith("athanor.record/"):
            yield path, content


def predict(sim, path, record, recorded, work):
    """(name, prediction) of one recorded run, on the machine as it was when the run was predicted."""
    platform = json.loads((path.parent / record["platform"]).read_text())
    files = {}
    for name, content in (("platform", merge_patch(platform, recorded.get("platform_changes", {}))),
                          ("plan", recorded["plan"])):
        files[name] = pathlib.Path(work) / f"{recorded['name']}-{os.urandom(8).hex()}.{name}.json"
        files[name].write_text(json.dumps(content))
    answer = json.loads(run(sim, "simulate", "--profile", path.parent / recorded["profile"],
                            "--platform", files["platform"], "--plan", files["plan"], "--gpus", recorded["gpus"],
                            "--global-batch", recorded["global_batch"], "--json"))
    return [answer["step_seconds"], answer["peak_bytes"]]


def predictions(sim, work):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        waiting = {}
        for path, record in records():
            for index, recorded in enumerate(record["runs"]):
                # By content, because records are moved and renamed.
                key = hashlib.sha256(json.dumps([recorded["plan"]["units"], recorded["step_seconds"]]).encode())
                waiting[f"{recorded['name']} {key.hexdigest()[:12]}"] = pool.submit(predict, sim, path, record,
                                                                                  recorded, work)
        return {name: future.result() for name, future in sorted(waiting.items())}


def write_plan(sim, policy, work):
    plan = pathlib.Path(work) / f"{policy}.plan.json"
    answer = json.loads(run(sim, "simulate", *TINY, "--policy", policy, "--json"))
    plan.write_text(json.dumps(answer["plan"]))
    return plan


def programs(sim, work):
    """Each program as a list of operations without their keys, which may be renamed."""
    shown = {}
    for policy in POLICIES:
        plan = write_plan(sim, policy, work)
        program = json.loads(run(sim, "show", "program", plan, "--profile", TINY[1], "--as", "json"))
        shown[policy] = [list(op.values()) for op in program["operations"]]
    return shown


def tuned(sim):
    settings = {"open": [], "capped": ["--gpu-memory", "24MiB"], "clip": ["--gpu-memory", "32MiB", "--clip", "1"]}
    answers = {}
    for name, words in settings.items():
        answer = json.loads(run(sim, "tune", *TINY, *words, "--json"))
        answers[name] = [answer["step_seconds"], answer["peak_bytes"], answer["plan"]]
    return answers


def losses(folder, work):
    data = pathlib.Path(work) / "text.txt"
    data.write_bytes((ROOT / "LICENSE").read_bytes() * 8)
    trained = {}
    for policy in POLICIES[:8]:
        out = pathlib.Path(work) / f"run-{policy}"
        run(folder / "athanor-train", "--plan", write_plan(folder / "athanor-sim", policy, work), *TINY[:4], "--model",
            "gpt2-tiny", "--data", data, "--steps", 50, "--out", out, "--nproc", 2, "--quiet",
            "--checkpoint-every", 0)
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        trained[policy] = [line["loss_metrics/global_avg_loss"] for line in lines]
    return trained


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of the programs")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    parser.add_argument("--train", action="store_true", help="train, too")
    arguments = parser.parse_args()
    folder = arguments.bin.resolve()
    with tempfile.TemporaryDirectory() as work:
        found = {"predictions": predictions(folder / "athanor-sim", work),
                 "programs": programs(folder / "athanor-sim", work), "tuned": tuned(folder / "athanor-sim")}
        if arguments.train:
            found["losses"] = losses(folder, work)
    arguments.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
