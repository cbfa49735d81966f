#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predicts every recorded run again, and says how far the predictions are off: over all runs and by group.

usage: lab/fidelity.py [--sim PROGRAM] [--since DATE] [--until DATE] [--pool] [--rates] [--worst N]

Prints four lines that predictions are held to, and a table of groups: by accumulation, GPUs, kind of plan, what was
predicted to be the bottleneck, model and lease.

--pool predicts every run a second time, on its machine pooled (athanor pool) with all earlier looks at machines of its
kind: calibrations of earlier leases, and of its own before the run. It prints the lines and the groups of both.

--rates asks which lanes' rates the errors come from. Records hold the times of steps and not of lanes. So it slows each
lane by 5 % to see how much of that each step takes, and finds the rate of the lane that explains a lease's runs best,
for one lane after the other and for all at once. A rate counts as it lies around its calibration by sim/rates: far ones
need more evidence. What is left is what no rate of a whole lease explains. Nothing that predicts uses these rates.

Runs with state on NVMe from before the split master keep the prediction that was recorded: today's programs move less.
"""

import argparse
import collections
import concurrent.futures
import copy
import itertools
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORDS = ROOT / "traces" / "records"
TENTH = 1.2815515655446004  # standard deviations that bound a tenth of a normal distribution
SLOWER = math.exp(0.05)
# Standard deviations of a lane's rate in a run around its calibration (sim/rates/calibrated_spreads.cpp).
DRIFT = {"kernels": 0.039, "collectives": 0.039, "h2d": 0.039, "d2h": 0.039, "cpu-adam": 0.097, "files": 0.19,
         "launches": 0.085}
REST = 0.0226  # of predictions with a run's own rates (sim/engine/prediction_interval.hpp)
MOST_BIAS, FEWEST_POLICIES = 2.0, 4


def runs_between(since, until):
    """Recorded runs, each with its lease and with the platform as it was when the run was predicted."""
    runs = []
    for lease in json.loads((RECORDS / "manifest.json").read_text())["leases"]:
        if "runs" not in lease or not since <= lease["date"] <= until:
            continue
        folder = RECORDS / lease["folder"]
        record = json.loads((folder / lease["runs"]).read_text())
        platform = json.loads((folder / record["platform"]).read_text())
        for run in record["runs"]:
            runs.append({**run, "lease": lease["folder"], "platform": {**platform, **run.get("platform_changes", {})},
                         "profile": folder / run["profile"]})
    return runs


def answer_of(program, words, about):
    """What the program printed in JSON. A plan that does not fit is an answer, too."""
    done = subprocess.run([program, *words], capture_output=True, text=True)
    if not done.stdout:
        raise RuntimeError(f"{about}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def looks_at_machines():
    """Calibrations in order of time, each with its lease: also those of leases without runs, and before single runs."""
    looks = []
    for lease in json.loads((RECORDS / "manifest.json").read_text())["leases"]:
        folder = RECORDS / lease["folder"]
        record = json.loads((folder / lease["runs"]).read_text()) if "runs" in lease else {"runs": []}
        name = record.get("platform", lease.get("platform"))
        if not name:
            continue
        platform = json.loads((folder / name).read_text())
        for changes in [{}, *(run.get("platform_changes", {}) for run in record["runs"])]:
            look = {**platform, **changes}
            if (lease["folder"], look) not in looks:
                looks.append((lease["folder"], look))
    return looks


def kind_of_machine(platform):
    """What `athanor pool` wants to be the same."""
    sizes = tuple((each["threads"], each["curve"][-1]["size"]) for each in platform["cpu_adam"])
    return tuple(platform[key] for key in ("device", "num_devices", "device_memory", "host_memory", "host_cores")) + (sizes,)


def pooled_looks(program):
    """Each look with its pool of all earlier looks of its kind, by lease. A pool holds the looks that it was made of."""
    pools, newest = collections.defaultdict(list), {}
    with tempfile.TemporaryDirectory() as folder:
        for number, (lease, look) in enumerate(looks_at_machines()):
            path, pooled = pathlib.Path(folder, f"{number}.json"), pathlib.Path(folder, f"pooled-{number}.json")
            path.write_text(json.dumps(look))
            earlier = newest.get(kind_of_machine(look))
            if earlier:
                answer_of(program, ["pool", path, "--earlier", earlier, "-o", pooled, "--json"], lease)
                path = pooled
            newest[kind_of_machine(look)] = path
            pools[lease].append((look, json.loads(path.read_text())))
    return pools


def with_pooled(runs, pools):
    """The runs on their machines as pooled. Those of the first look at a kind of machine keep it."""
    return [{**run, "platform": next(pooled for look, pooled in pools[run["lease"]] if look == run["platform"])}
            for run in runs]


def simulate(program, run, platform, profile):
    with tempfile.TemporaryDirectory() as folder:
        files = {"plan": run["plan"], "platform": platform, "profile": profile}
        words = ["simulate", "--json"]
        for name, content in files.items():
            path = profile
            if isinstance(content, dict):
                path = pathlib.Path(folder, f"{name}.json")
                path.write_text(json.dumps(content))
            words += [f"--{name}", path]
        return answer_of(program, words, f"{run['lease']}: {run['name']}")


def kind_of(plan):
    chunks = [chunk for unit in plan["units"] for chunk in unit["chunks"]]
    homes = {chunk["optimizer"] for chunk in chunks}
    if "nvme" in homes:
        return "NVMe"
    if any(chunk.get("adam") == "gpu" for chunk in chunks):
        return "state streams through the GPU"
    if homes == {"gpu"}:
        return "nothing offloaded"
    if "gpu" in homes:
        return "part of the optimizer"
    return "parameters too" if any(chunk["parameters"] == "host" for chunk in chunks) else "all of the optimizer"


def as_recorded(run):
    return "nvme" in run and not run.get("split_master")


def predict(program, run):
    """The run with its prediction, and the logarithms of what was measured and of the bounds over it."""
    answer = simulate(program, run, run["platform"], run["profile"])
    step = answer["step_seconds"]
    low, high = (math.log(answer[f"step_seconds_{end}"] / step) for end in ("p10", "p90"))
    predicted = run["predicted_step_seconds"] if as_recorded(run) else step
    return {**run, "predicted": predicted, "error": 100 * (predicted / run["step_seconds"] - 1), "low": low, "high": high,
            "bottleneck": answer["bottleneck"], "log": math.log(run["step_seconds"] / predicted),
            "kind": kind_of(run["plan"])}


# ---- which rates errors come from


def phases_of(value):
    """Every phase below `value`, a part of a profile, but not its kernels."""
    if isinstance(value, list):
        for each in value:
            yield from phases_of(each)
    elif isinstance(value, dict):
        if "peak_bytes" in value and "seconds" in value:
            yield value
        for key, each in value.items():
            if key not in ("kernels", "replay"):
                yield from phases_of(each)


def slow_curves(platform, keys):
    for key in keys:
        curves = platform.get(key, [])
        for points in [each["curve"] for each in curves] if curves and "curve" in curves[0] else [curves]:
            for point in points:
                point["seconds"] *= SLOWER


CURVES = {"collectives": ("all_gather", "reduce_scatter", "all_reduce", "all_to_all"), "h2d": ("h2d",),
          "d2h": ("d2h", "d2h_add"), "cpu-adam": ("cpu_adam", "cpu_adam_beside"), "files": ("file_read", "file_write")}


def with_slow_lane(run, lane):
    """The platform and the profile of a run with one lane 5 % slower."""
    platform = copy.deepcopy(run["platform"])
    if lane in CURVES:
        slow_curves(platform, CURVES[lane])
        return platform, run["profile"]
    profile = json.loads(run["profile"].read_text())
    keys = ("seconds", "unthrottled_seconds") if lane == "kernels" else ("issue_seconds",)
    for phase in phases_of(profile["costs"]):
        for part in (phase, phase.get("replay", {})):
            for key in keys:
                if key in part:
                    part[key] *= SLOWER
    if lane == "launches":
        platform["issue"] = {key: value * SLOWER for key, value in platform.get("issue", {}).items()}
        if "launch_seconds" in profile:
            profile["launch_seconds"] *= SLOWER
    return platform, profile


def add_shares(program, run):
    """How much of a lane's slowdown the step takes, for each lane."""
    run["shares"] = {}
    for lane in DRIFT:
        slow = simulate(program, run, *with_slow_lane(run, lane))["step_seconds"]
        run["shares"][lane] = 0 if as_recorded(run) else math.log(slow / run["predicted"]) / math.log(SLOWER)


def rates_of(runs, lanes):
    """The logarithms of the lanes' rates that explain the runs of a lease best: ridge regression, lane by lane."""
    rates = dict.fromkeys(lanes, 0.0)
    for _, lane in itertools.product(range(200), lanes):
        others = [run["log"] - sum(run["shares"][each] * rates[each] for each in lanes if each != lane) for run in runs]
        shares = [run["shares"][lane] for run in runs]
        weight = sum(share**2 for share in shares) + (REST / DRIFT[lane]) ** 2
        rates[lane] = sum(share * other for share, other in zip(shares, others)) / weight
    return rates


def left_with(runs, lanes, left_out):
    """Mean error with the rates of each lease. With `left_out`, a run's own time tells nothing of them."""
    errors = []
    for lease, group in by(runs, "lease").items():
        known = rates_of(group, lanes)
        for run in group:
            if left_out:
                known = rates_of([each for each in group if each is not run], lanes)
            explained = sum(run["shares"][lane] * known[lane] for lane in lanes)
            errors.append(100 * abs(math.exp(explained - run["log"]) - 1))
    return statistics.mean(errors)


def print_rates(runs):
    print(f"\n{'rate of each lease':22}{'known':>8}{'from its other runs':>21}   (mean error, %)")
    for name, lanes in [("none", []), *((lane, [lane]) for lane in DRIFT), ("all", list(DRIFT))]:
        print(f"{name:22}{left_with(runs, lanes, False):8.2f}{left_with(runs, lanes, True):21.2f}")


# ---- the lines and the groups


def by(runs, key):
    groups = collections.defaultdict(list)
    for run in runs:
        groups[key(run) if callable(key) else run[key]].append(run)
    return dict(sorted(groups.items(), key=lambda item: str(item[0])))


def summary(errors):
    return (f"{len(errors):5} runs, mean {statistics.mean(map(abs, errors)):5.2f} %, bias {statistics.mean(errors):+6.2f} %, "
            f"worst {max(map(abs, errors)):5.2f} %")


def deviations(run):
    """Distance of what was measured from the prediction, in half widths of the interval."""
    return run["log"] / run["low"] if run["log"] < 0 else run["log"] / run["high"]


def print_intervals(runs):
    """The interval as it is, and scaled by what would hold 80 % of the runs of all other leases."""
    distance = {id(run): deviations(run) for run in runs}
    inside = left_out = 0
    for lease, group in by(runs, "lease").items():
        others = sorted(distance[id(run)] for run in runs if run["lease"] != lease)
        scale = others[int(0.8 * (len(others) - 1))] if others else 1
        inside += sum(distance[id(run)] <= 1 for run in group)
        left_out += sum(distance[id(run)] <= scale for run in group)
    width = statistics.median(100 * (math.exp(run["high"]) - math.exp(run["low"])) for run in runs)
    print(f"80 % interval          {100 * inside / len(runs):.0f} % inside, {100 * left_out / len(runs):.0f} % with their "
          f"lease left out, median width {width:.1f} %")


def tau(runs):
    """Kendall's tau of predicted and measured times."""
    signs = [math.copysign(1, (a["predicted"] - b["predicted"]) * (a["step_seconds"] - b["step_seconds"]))
             for a, b in itertools.combinations(runs, 2)]
    return statistics.mean(signs)


def print_choice(runs):
    """Order of policies in settings with at least four of them: the first run of each counts."""
    def setting(run):
        return tuple(str(run.get(key)) for key in ("lease", "model", "gpus", "global_batch", "gpu_memory", "host_memory",
                                                   "nvme", "clip", "clipped_share"))
    taus, regrets = [], []
    for group in by(runs, setting).values():
        first = list({run["policy"]: run for run in reversed(group)}.values())
        if len(first) < FEWEST_POLICIES:
            continue
        best = min(run["step_seconds"] for run in first)
        chosen = min(first, key=lambda run: run["predicted"])
        taus.append(tau(first))
        regrets.append(100 * (chosen["step_seconds"] / best - 1))
    if taus:
        print(f"policies               {len(taus)} settings, tau {statistics.mean(taus):.2f}, regret mean "
              f"{statistics.mean(regrets):.2f} %, worst {max(regrets):.2f} %")


def print_lines(runs):
    print(f"before training      {summary([run['error'] for run in runs])}")
    second = [100 * (run["repredicted_step_seconds"] / run["step_seconds"] - 1) for run in runs
              if "repredicted_step_seconds" in run]
    if second:
        print(f"after two steps      {summary(second)}")
    print_intervals(runs)
    print_choice(runs)


GROUPS = {"accumulation": lambda run: "added up" if run["plan"]["accumulation"] > 1 else "of one micro-batch",
          "GPUs": "gpus", "kind of plan": "kind", "bottleneck": "bottleneck",
          "rule": lambda run: "auto" if run["policy"] == "auto" else "others", "model": "model", "lease": "lease"}


def print_groups(runs):
    for name, key in GROUPS.items():
        print()
        for value, group in by(runs, key).items():
            errors = [run["error"] for run in group]
            biased = "  biased" if abs(statistics.mean(errors)) > MOST_BIAS else ""
            print(f"{name}: {value}".ljust(48), summary(errors) + biased)


def report(runs, arguments):
    """Predicts the runs and prints what was asked for."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = list(pool.map(lambda run: predict(arguments.sim, run), runs))
        if arguments.rates:
            list(pool.map(lambda run: add_shares(arguments.sim, run), runs))
    print_lines(runs)
    print_groups(runs)
    if arguments.rates:
        print_rates(runs)
    for run in sorted(runs, key=lambda run: -abs(run["error"]))[:arguments.worst]:
        print(f"{run['error']:+7.2f} %  {run['lease']}: {run['name']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sim", default="athanor-sim", help="the simulator's program")
    parser.add_argument("--since", default="", help="first day of the leases that count")
    parser.add_argument("--until", default="9999", help="last day of the leases that count")
    parser.add_argument("--pool", action="store_true", help="also predict on machines pooled with earlier looks")
    parser.add_argument("--rates", action="store_true", help="say which lanes' rates the errors come from")
    parser.add_argument("--worst", type=int, default=0, help="list this many runs that are furthest off")
    arguments = parser.parse_args()
    runs = runs_between(arguments.since, arguments.until)
    report(runs, arguments)
    if arguments.pool:
        print("\nCPU Adam pooled over earlier looks at machines of the kind\n")
        report(with_pooled(runs, pooled_looks(arguments.sim)), arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
