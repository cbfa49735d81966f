#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes platform files from data sheets, or checks that they are up to date.

usage: lab/datasheets.py [--check] [--folder platforms]

Reads datasheets/{gpus,machines,achieved}.json in the folder and writes a platform file for each machine. A machine with
"compare" is not written: what the formulas say of it must come close to the measured file that it names. --check writes
nothing and exits with 1 where a file differs or is missing. The formulas: platforms/README.md.
"""

import argparse
import json
import pathlib
import sys

import datasheet_formulas

GPU_FIGURES = {"tensor_tflops", "fp64_tflops", "memory_gib", "memory_gb_per_s", "host_link_gb_per_s"}
MACHINE_FIGURES = {"cores", "host_gib", "host_memory_gb_per_s", "gpus_per_host_link"}
# All or none of each.
OPTIONAL_PARTS = {"network": {"nics", "nic_gb_per_s", "max_nodes"},
                  "set of drives": {"drives", "drive_read_gb_per_s", "drive_write_gb_per_s"}}
ACHIEVED = {"matmul", "host_link", "host_link_both_ways", "host_sums", "peer_link", "peer_through_host", "nic", "nic_hop",
            "peer_hop", "drive", "drive_latency", "device_memory", "host_memory", "thread", "square_sum_flops", "host_square_sum",
            "collective_beside_compute", "compute_beside_collective", "device_memory_size", "host_memory_size",
            "copy_latency", "collective_latency", "kernel_latency", "square_sum_latency", "host_latency"}
PEERS = ("nvlink", "pcie", "host", "none")
# Key -> (from this size on, numbers of ranks or threads, how far a formula may be from the measurement).
TOLERANCES = [
    ("h2d", 1 << 20, None, 0.10),
    ("d2h", 1 << 20, None, 0.10),
    ("device_adam", 1 << 20, None, 0.10),
    ("device_square_sum", 1 << 20, None, 0.25),
    ("host_square_sum", 1 << 20, None, 0.15),
    ("all_gather", 1 << 26, {2, 3}, 0.20),
    ("all_gather", 1 << 26, {4}, 0.10),
    ("reduce_scatter", 1 << 26, {2, 3}, 0.25),
    ("reduce_scatter", 1 << 26, {4}, 0.10),
    ("all_reduce", 1 << 26, {2, 3, 4}, 0.10),
    ("cpu_adam", 1 << 24, None, 0.15),
]


class BadTable(Exception):
    """Says where, what is wrong and the way out."""


def figures(where, entry, required, optional, words):
    """The entry with each [value, source] replaced by its value."""
    plain = {}
    for key, value in entry.items():
        if key in required | optional:
            if not (isinstance(value, list) and len(value) == 2 and value[1] in entry.get("sources", {})):
                raise BadTable(f"{where}.{key}: {value} is no [value, source]. Name a source that is in .sources.")
            if not isinstance(value[0], (int, float)) or not value[0] > 0:
                raise BadTable(f"{where}.{key}: {value[0]} is no number above 0. Correct it.")
            plain[key] = value[0]
        elif key in words | {"sources", "note"}:
            plain[key] = value
        else:
            raise BadTable(f"{where}.{key}: unknown key. Remove it, or correct its name.")
    missing = sorted((required | words) - plain.keys() - {"compare"})
    if plain.get("peer") == "nvlink" and "peer_gb_per_s" not in plain:
        missing.append("peer_gb_per_s")
    if missing:
        raise BadTable(f"{where}: lacks {', '.join(missing)}. Give them; figures as [value, source].")
    if plain.get("peer", "none") not in PEERS:
        raise BadTable(f"{where}.peer: unknown way '{plain['peer']}'. Use one of {', '.join(PEERS)}.")
    return plain


def achieved_figures(entries):
    """Their values; each says what it was measured on."""
    if entries.keys() != ACHIEVED:
        named = ", ".join(sorted(entries.keys() ^ ACHIEVED))
        raise BadTable(f"achieved.json: {named}: unknown or missing. Give just the figures that the formulas use.")
    for key, entry in entries.items():
        if not isinstance(entry.get("value"), (int, float)) or not entry["value"] > 0 or not entry.get("from"):
            raise BadTable(f"achieved.json:{key}: {entry} has no value above 0, or no from. Give both.")
    return {key: entry["value"] for key, entry in entries.items()}


def load(folder, name):
    return json.loads((folder / "datasheets" / name).read_text())


def read_tables(folder):
    table = load(folder, "machines.json")
    achieved = achieved_figures(load(folder, "achieved.json")["figures"])
    gpus = {name: figures(f"gpus.json:{name}", entry, GPU_FIGURES, {"peer_gb_per_s"}, {"device", "peer"})
            for name, entry in load(folder, "gpus.json")["gpus"].items()}
    machines = {}
    for name, entry in table["machines"].items():
        machines[name] = figures(f"machines.json:{name}", entry, MACHINE_FIGURES,
                                 {"peer_gb_per_s", "host_link_gb_per_s"}.union(*OPTIONAL_PARTS.values()),
                                 {"name", "gpu", "count", "host", "compare"})
        for part, keys in OPTIONAL_PARTS.items():
            if 0 < len(keys & entry.keys()) < len(keys):
                raise BadTable(f"machines.json:{name}: a {part} has all of {', '.join(sorted(keys))}. "
                               "Give those that are missing.")
        if entry["gpu"] not in gpus:
            raise BadTable(f"machines.json:{name}.gpu: no GPU '{entry['gpu']}'. gpus.json has {', '.join(gpus)}.")
    return table["date"], gpus, machines, achieved


def notes_of(gpu, machine, achieved):
    sources = {**{f"GPU, {key}": text for key, text in gpu["sources"].items()},
               **{f"machine, {key}": text for key, text in machine["sources"].items()}}
    parts = [f"{machine['name']}; host: {machine['host']}"]
    parts += [f"{key}: {text}" for key, text in sources.items()]
    parts.append("assumed: every peak is reached as far as on the measured 4 x H200 (matrix products "
                 f"{achieved['matmul']}, host link {achieved['host_link']}, links between GPUs {achieved['peer_link']}, "
                 f"device memory {achieved['device_memory']}, host memory {achieved['host_memory']}); "
                 "the formulas are in platforms/README.md, the figures in platforms/datasheets")
    parts += [entry["note"] for entry in (gpu, machine) if "note" in entry]
    return "; ".join(part.rstrip(".") for part in parts) + "."


def make_platform(date, gpu, machine, achieved):
    provenance = {"source": "data-sheet", "date": date, "command": "lab/datasheets.py", "versions": {},
                  "notes": notes_of(gpu, machine, achieved)}
    return datasheet_formulas.platform(gpu, machine, achieved) | {"provenance": provenance}


def text_of(platform):
    """JSON with one entry of a list per line."""
    lines = []
    for key, value in platform.items():
        if isinstance(value, list) and value:
            items = ",\n".join("    " + json.dumps(item) for item in value)
            lines.append(f"  {json.dumps(key)}: [\n{items}\n  ]")
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def value_at(curve, size):
    """Straight between points, as Curve::at."""
    for left, right in zip(curve, curve[1:]):
        if size <= right["size"] or right is curve[-1]:
            slope = (right["seconds"] - left["seconds"]) / (right["size"] - left["size"])
            return left["seconds"] + slope * (size - left["size"])
    raise ValueError("a curve of one point")


def curves_of(platform, key):
    """(number of ranks or threads, curve); the number is None for a plain curve."""
    value = platform[key]
    if value and "curve" in value[0]:
        return {entry.get("world_size", entry.get("threads")): entry["curve"] for entry in value}
    return {None: value}


def differences(made, measured):
    """(key, ranks or threads, size, relative difference, tolerance) of every measured point that is compared."""
    for key, smallest, numbers, tolerance in TOLERANCES:
        made_curves = curves_of(made, key)
        for number, curve in curves_of(measured, key).items():
            if (numbers and number not in numbers) or number not in made_curves:
                continue
            for point in curve:
                if point["size"] >= smallest:
                    share = value_at(made_curves[number], point["size"]) / point["seconds"] - 1
                    yield key, number, point["size"], share, tolerance
    share = made["matmul_flops_per_second"] / measured["matmul_flops_per_second"] - 1
    yield "matmul_flops_per_second", None, 0, share, 0.02


def compare(name, made, measured):
    """Problems, and the largest difference of each key on stdout."""
    largest = {}
    for key, number, size, share, tolerance in differences(made, measured):
        if abs(share) > abs(largest.get(key, (0, None, 0))[0]):
            largest[key] = (share, number, size)
        if abs(share) > tolerance:
            yield f"{name}: {key}{'' if number is None else f' for {number}'} at {size:.0f} is {100 * share:+.1f} % " \
                  f"off the measurement (limit {100 * tolerance:.0f} %)"
    for key, (share, number, size) in largest.items():
        print(f"{name}: {key:<24} at most {100 * share:+5.1f} % off{'' if number is None else f' (for {number})'}")


def run(folder, check):
    date, gpus, machines, achieved = read_tables(folder)
    problems = []
    for name, machine in machines.items():
        made = make_platform(date, gpus[machine["gpu"]], machine, achieved)
        path = folder / f"{name}.json"
        if "compare" in machine:
            problems += compare(name, made, json.loads((folder / machine["compare"]).read_text()))
        elif not check:
            path.write_text(text_of(made))
        elif not path.exists() or path.read_text() != text_of(made):
            problems.append(f"{path}: not what the data sheets say. Run lab/datasheets.py.")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where a file is not up to date")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent / "platforms")
    arguments = parser.parse_args()
    try:
        problems = run(arguments.folder, arguments.check)
    except (BadTable, OSError, json.JSONDecodeError) as error:
        problems = [str(error)]
    print("\n".join(problems), end="\n" if problems else "", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
