#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks athanor tune for plans in a grid of settings, and says how good and how fast the answers are.

usage: lab/grid.py -o FILE [--athanor PROGRAM] [--cores N,N] [--only WORD] [--every N] [--again]
       lab/grid.py --show FILE [--beside FILE]

A setting is a model with a sequence length, a number of H100s, GPU and host memory, and a batch. FILE gets the answer to
each, one JSON object a line: the plan's step, its share of the GPUs' sustained rate and what limits it, or the refusal
with its proof; and the seconds that the search took, by the clock and of processors. Settings that FILE has are left
out, unless --again. Searches run one after the other, on the processors of --cores.

The summary names every setting that breaks a promise: a search of more than 20 s on two processors, a refusal that no
bound proves, a plan that more memory or more GPUs lose or slow down, a batch that takes longer a sequence than a
smaller one, and a plan below half of the sustained rate that neither the CPU nor the sequence limits.
"""

import argparse
import collections
import itertools
import json
import os
import pathlib
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Lengths that were profiled on an H100. Others cannot be derived: kernels of other shapes run at other rates.
PROFILES = {("qwen2.5-7b", 4096): "h100-qwen2.5-7b-fused", ("llama-3-8b", 4096): "h100-llama-3-8b",
            ("llama-3-8b", 32768): "h100-llama-3-8b-32k"}
PLATFORMS = {1: "platforms/h100x1.json", 2: "platforms/h100x2.json",
             4: "traces/records/2026-11-27-h100x4/platform.json", 8: "platforms/h100-sxmx8.json"}
GPU_GIB = (24, 40, 75)
HOST_GIB = (62, 126, 252)
BATCHES = (8, 32, 128)
LIMIT_SECONDS = 20  # of a search on two processors
HALF = 0.5
MORE = 1.02  # a step may take this much longer with more of anything: plans are whole units

Setting = collections.namedtuple("Setting", "model sequence gpus gpu_gib host_gib batch")


def settings():
    for (model, sequence), gpus, gpu, host, batch in itertools.product(PROFILES, PLATFORMS, GPU_GIB, HOST_GIB, BATCHES):
        yield Setting(model, sequence, gpus, gpu, host, batch)


def name_of(setting):
    return (f"{setting.model} {setting.sequence}, {setting.gpus} x {setting.gpu_gib} GiB, {setting.host_gib} GiB, "
            f"batch {setting.batch}")


def profile_path(setting):
    return ROOT / "traces/profiles" / f"{PROFILES[setting.model, setting.sequence]}.profile.json"


def computing_alone(setting):
    """Seconds a sequence that kernels take, without recomputation, copies or updates."""
    profile = json.loads(profile_path(setting).read_text())
    classes = collections.Counter(unit["class"] for unit in profile["architecture"]["units"])
    seconds = collections.defaultdict(float)
    for cost in profile["costs"]:
        alone = cost["forward_keep"]["seconds"] + cost["backward"]["seconds"]
        seconds[cost["micro_batch"]] += classes[cost["unit_class"]] * alone / cost["micro_batch"]
    return min(seconds.values())


def limit_of(setting, answer):
    """What keeps a plan from half of the sustained rate: the busiest of the CPU, copies and the GPU, or the sequence."""
    alone = computing_alone(setting) * setting.batch / setting.gpus
    at_best = answer["utilization"] * answer["step_seconds"] / alone
    if at_best < HALF:
        return "sequence"
    return {"cpu-adam": "CPU", "compute": "GPU"}.get(answer["busiest"], "copies")


def ask(arguments, setting):
    command = [arguments.athanor, "tune", "--profile", profile_path(setting), "--platform",
               ROOT / PLATFORMS[setting.gpus], "--gpus", setting.gpus, "--global-batch", setting.batch, "--gpu-memory",
               f"{setting.gpu_gib}GiB", "--host-memory", f"{setting.host_gib}GiB", "--json", "--quiet"]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          env=os.environ | {"ATHANOR_ERRORS": "json"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processors = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    row = setting._asdict() | {"seconds": round(time.monotonic() - start, 2), "processor_seconds": round(processors, 2)}
    if done.returncode == 3:
        error = json.loads(done.stderr.strip().splitlines()[-1])
        return row | {"refused": error["message"].removesuffix(" " + error["hint"])}
    if done.returncode != 0:
        raise RuntimeError(f"{name_of(setting)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    answer = json.loads(done.stdout)
    plan = answer["plan"]
    row |= {"step_seconds": answer["step_seconds"], "utilization": round(answer["model_flops_utilization"], 4),
            "busiest": answer["bottleneck"], "simulated": answer["searched"]["simulated"],
            "plans": answer["searched"]["plans"],
            "plan": [plan["micro_batch"], plan["accumulation"], plan.get("micro_batch_group", 1)]}
    return row | {"limit": limit_of(setting, row)}


def circumstances(arguments):
    version = subprocess.run([arguments.athanor, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    processor = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")
    return {"schema": "athanor.grid/1", "athanor": version, "processor": processor,
            "cores": len(os.sched_getaffinity(0)), "date": time.strftime("%Y-%m-%d")}


def read_rows(path):
    if not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    return {Setting(*(row[key] for key in Setting._fields)): row for row in rows}


def measure(arguments):
    if arguments.cores:
        os.sched_setaffinity(0, {int(core) for core in arguments.cores.split(",")})
    known = {} if arguments.again else read_rows(arguments.output)
    chosen = [setting for setting in settings() if arguments.only in name_of(setting)][::arguments.every]
    header = json.dumps(circumstances(arguments))
    for setting in chosen:
        if setting in known:
            continue
        known[setting] = row = ask(arguments, setting)
        # In the order of the grid, so that two files can be compared line by line.
        lines = [header] + [json.dumps(known[each]) for each in settings() if each in known]
        arguments.output.write_text("\n".join(lines) + "\n")
        print(text_of(setting, row), flush=True)


def text_of(setting, row):
    if "refused" in row:
        said = f"refused: {row['refused']}"
    else:
        split = "{} x {} in groups of {}".format(*row["plan"])
        said = f"{row['step_seconds']:.3g} s, {row['utilization']:.0%}, {row['limit']}, {split}"
    return f"{name_of(setting)}: {said} [{row['seconds']:.1f} s, {row['processor_seconds']:.1f} s of processors]"


def is_slow(row):
    return row["processor_seconds"] / 2 > LIMIT_SECONDS


def neighbours(setting, rows):
    """Settings with the next more of one thing: what, and the setting."""
    for key, values in (("gpu_gib", GPU_GIB), ("host_gib", HOST_GIB), ("gpus", tuple(PLATFORMS))):
        above = [value for value in values if value > getattr(setting, key)]
        other = setting._replace(**{key: above[0]}) if above else None
        if other in rows:
            yield key, other


def worse(setting, row, rows):
    """Sentences about neighbours with more memory or GPUs whose plan is missing, or slower."""
    if "refused" in row:
        return
    for key, other in neighbours(setting, rows):
        if "refused" in rows[other]:
            yield f"{name_of(setting)}: more {key} lose the plan"
        elif key != "gpus" and rows[other]["step_seconds"] > MORE * row["step_seconds"]:
            yield (f"{name_of(setting)}: {row['step_seconds']:.3g} s; with {getattr(other, key)} of {key} "
                   f"{rows[other]['step_seconds']:.3g} s")


def slower_batches(setting, row, rows):
    if "refused" in row:
        return
    for batch in BATCHES:
        other = setting._replace(batch=batch)
        if batch <= setting.batch or other not in rows:
            continue
        if "refused" in rows[other]:
            yield f"{name_of(setting)}: has a plan, batch {batch} has none"
        elif rows[other]["step_seconds"] / batch > MORE * row["step_seconds"] / setting.batch:
            yield (f"{name_of(setting)}: {row['step_seconds'] / setting.batch:.3g} s a sequence; batch {batch} takes "
                   f"{rows[other]['step_seconds'] / batch:.3g} s")


def show(path, beside):
    rows = read_rows(path)
    refused = [each for each, row in rows.items() if "refused" in row]
    unproven = [each for each in refused if "Proven" not in rows[each]["refused"]]
    slow = [each for each, row in rows.items() if is_slow(row)]
    low = [each for each, row in rows.items() if row.get("utilization", 1) < HALF]
    excused = [each for each in low if rows[each]["limit"] in ("CPU", "sequence")]
    print(f"settings             {len(rows)} of {sum(1 for _ in settings())}")
    print(f"plans                {len(rows) - len(refused)}")
    print(f"refused              {len(refused)}, {len(unproven)} of them without a proof")
    limits = collections.Counter(rows[each]["limit"] for each in low)
    print(f"below half           {len(low)}: {dict(limits)}; {len(low) - len(excused)} of "
          f"{len(rows) - len(refused)} count")
    times = sorted((row["processor_seconds"] / 2, row["seconds"]) for row in rows.values())
    print(f"half of processors   median {times[len(times) // 2][0]:.1f} s, worst {times[-1][0]:.1f} s; {len(slow)} "
          f"above {LIMIT_SECONDS} s")
    print(f"by the clock         worst {max(seconds for _, seconds in times):.1f} s")
    lists = {"slow searches": [text_of(each, rows[each]) for each in slow],
             "refusals without a proof": [text_of(each, rows[each]) for each in unproven],
             "more is worse": [text for each, row in rows.items() for text in worse(each, row, rows)],
             "larger batches": [text for each, row in rows.items() for text in slower_batches(each, row, rows)],
             "below half": [text_of(each, rows[each]) for each in low if each not in excused]}
    if beside:
        before = read_rows(beside)
        lists["other answers than before"] = [
            f"{text_of(each, row)}; before: {text_of(each, before[each])}" for each, row in rows.items()
            if each in before and before[each].get("step_seconds") != row.get("step_seconds")]
    for title, texts in lists.items():
        print(f"\n{title}: {len(texts)}")
        for text in texts:
            print("  " + text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=pathlib.Path, help="file of answers, one a line")
    parser.add_argument("--athanor", default="athanor")
    parser.add_argument("--cores", help="processors that searches run on, with a comma")
    parser.add_argument("--only", default="", help="settings whose name has this")
    parser.add_argument("--every", type=int, default=1, help="only every so manieth setting")
    parser.add_argument("--again", action="store_true", help="ask again what the file answers")
    parser.add_argument("--show", type=pathlib.Path, metavar="FILE", help="print the summary of a file")
    parser.add_argument("--beside", type=pathlib.Path, metavar="FILE", help="answers of before, to compare with")
    arguments = parser.parse_args()
    if arguments.show:
        show(arguments.show, arguments.beside)
    elif arguments.output:
        measure(arguments)
    else:
        parser.error("-o FILE or --show FILE is needed")


if __name__ == "__main__":
    sys.exit(main())
