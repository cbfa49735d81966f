# SPDX-License-Identifier: Apache-2.0
"""Makes the pages that the browser opens: a search, platforms, and a long run on eight ranks."""

import json
import math
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROFILE = ROOT / "traces" / "profiles" / "h200-gpt2-4b.profile.json"
STEPS, RANKS = 2000, 8


def athanor(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


def search_page(program, folder):
    all_plans = folder / "all.jsonl"
    printed = athanor(program, "tune", "--profile", PROFILE, "--platform", ROOT / "platforms" / "h200x4.json", "--gpus", 4,
                      "--global-batch", 64, "--micro-batch", 16, "--pareto", "--time-resolution", "10%", "--sensitivity",
                      "--top", 5, "--all", all_plans, "--json")
    (folder / "search.json").write_text(printed)
    return written(program, folder, "search", folder / "search.json", "--all", all_plans)


def platforms_page(program, folder):
    names = ["rtx4090x4", "h200x4", "h100x2"]
    printed = athanor(program, "tune", "--profile", PROFILE, "--profile-platform", ROOT / "platforms" / "h200x4.json",
                      "--global-batch", 64, "--platform", *(ROOT / "platforms" / f"{name}.json" for name in names),
                      *(word for name in names for word in ("--price", f"{name}={len(name)}")), "--json")
    (folder / "platforms.json").write_text(printed)
    return written(program, folder, "platforms", folder / "platforms.json")


def long_run_page(program, folder):
    """A run whose measured step is the predicted one, with 2,000 steps of metrics."""
    run = folder / "run"
    run.mkdir()
    shutil.copy(PROFILE, run / "profile.json")
    shutil.copy(ROOT / "platforms" / "h200x8.json", run / "platform.json")
    report = json.loads(athanor(program, "tune", "--profile", PROFILE, "--platform", ROOT / "platforms" / "h200x8.json",
                                "--gpus", RANKS, "--global-batch", 64, "--gpu-memory", "40GiB", "-o", run / "plan.json",
                                "--json"))
    athanor(program, "simulate", "--plan", run / "plan.json", "--trace", run / "measured.trace.json")
    with (run / "metrics.jsonl").open("w") as metrics:
        for step in range(1, STEPS + 1):
            wave = math.sin(0.7 * step)
            metrics.write(json.dumps({
                "step": step, "loss_metrics/global_avg_loss": 3 + wave / 7, "grad_norm": 1 + wave / 3, "lr": 1e-3 / step,
                "throughput(tps)": 1000 + wave, "time_metrics/end_to_end(s)": report["step_seconds"] * (1 + wave / 9),
                "memory/device_peak_bytes": report["peak_bytes"]["gpu"]}) + "\n")
    return written(program, folder, "run", run)


def written(program, folder, name, *inputs):
    page = folder / f"{name}.html"
    athanor(program, "report", *inputs, "-o", page)
    return page
