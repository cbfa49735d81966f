#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predicts the steps of DeepSpeed and MegaTrain as they are set, and makes the page that shows them beside measured steps.

usage: lab/peers.py predict FILE [--athanor PROGRAM]
       lab/peers.py table FILE MEASURED.jsonl -o PAGE.md

FILE (traces/README.md, athanor.peers/1) lists settings. `predict` writes into it what athanor makes of each: that of
`athanor simulate --deepspeed` with the setting's own configuration, changed where a configuration cannot say it: which
blocks recompute, and SuperOffload's updates, which run as gradients arrive. It refuses to predict again what was measured.

`table` adds the lines of MEASURED.jsonl to FILE, each to the setting of its model, mode and batch, and writes PAGE.md.
A line has `model`, `mode`, `sequences` and what was measured (`step`, `every_step`, `gpu_gib`, ..), or `failed`: what the
system said. Lines of the mode "athanor" need no setting. A later line of the same setting replaces an earlier one,
unless it failed and the earlier did not.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

MUST_EXPLAIN = 0.15  # a larger difference has a `why` in FILE
SUPER_KEYS = ("super_offload", "cpuadam_cores_perc")


class BadInput(Exception):
    """What a file lacks or says twice; names the file and the way out."""


def simulate(program, words):
    command = [program, "simulate", *map(str, words), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout)


def written(folder, name, value):
    path = pathlib.Path(folder) / name
    path.write_text(json.dumps(value))
    return path


def modelled(config):
    """(the configuration without SuperOffload's keys, whether it had them)."""
    config = json.loads(json.dumps(config))
    offload = config["zero_optimization"]["offload_optimizer"]
    is_super = bool(offload.get("super_offload"))
    for key in SUPER_KEYS:
        offload.pop(key, None)
    return config, is_super


def changed_plan(plan, setting, is_super):
    """What DeepSpeed's configuration does not say: the last `kept` blocks keep activations, SuperOffload updates early."""
    blocks = range(1, len(plan["units"]) - 1)  # without embedding and head
    for index in blocks:
        kept = index > len(blocks) - setting["blocks_kept"]
        plan["units"][index]["activation"] = "keep" if kept else "recompute"
    if is_super:
        plan["schedule"]["optimizer"] = "overlapped"
        plan["cpu_adam_threads"] = setting["adam_threads"]
    return plan


def predict(setting, machine, program):
    """The setting's prediction. Where a profile has no micro-batch as large, the step has several smaller ones."""
    config, is_super = modelled(setting["config"])
    micro = min(setting["micro_batch"], setting.get("largest_profiled", setting["micro_batch"]))
    config["train_micro_batch_size_per_gpu"] = micro
    config["gradient_accumulation_steps"] = setting["sequences"] // micro
    with tempfile.TemporaryDirectory() as folder:
        settings = written(folder, "ds_config.json", config)
        words = ["--gpus", 1, "--global-batch", setting["sequences"], "--recompute"]
        answer = simulate(program, ["--deepspeed", settings, *machine, *words])
        plan = written(folder, "plan.json", changed_plan(answer["plan"], setting, is_super))
        answer = simulate(program, ["--plan", plan, *machine])
    result = {key: answer[key] for key in ("step_seconds", "step_seconds_p10", "step_seconds_p90", "peak_bytes")}
    return result | {"micro_batch": micro, "accumulation": setting["sequences"] // micro}


def predict_all(arguments):
    path = arguments.file
    peers = read(path)
    for setting in peers["settings"]:
        if "measured" in setting:
            raise BadInput(f"{path}: {name_of(setting)} was measured: a prediction comes before. Take `measured` out.")
        if "config" not in setting:
            continue
        setting.pop("predicted", None)
        setting.pop("not_predicted", None)
        files = {"--profile": peers["profiles"][setting["model"]], "--platform": peers["platform"]}
        machine = [word for key, value in files.items() for word in (key, path.parent / value)]
        try:
            setting["predicted"] = predict(setting, machine, arguments.athanor)
        except RuntimeError as error:
            setting["not_predicted"] = str(error).split("ds_config.json:")[-1]
        print(name_of(setting), setting.get("predicted", {}).get("step_seconds", setting.get("not_predicted")))
    write(path, peers)


def read(path):
    try:
        peers = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: {error}") from error
    if peers.get("schema") != "athanor.peers/1":
        raise BadInput(f"{path}: schema is {peers.get('schema')!r}, not 'athanor.peers/1'.")
    return peers


def write(path, peers):
    path.write_text(json.dumps(peers, indent=1) + "\n")


def name_of(entry):
    return f"{entry['model']}, {entry['mode']}, {entry['sequences']} sequences"


def key_of(entry):
    return entry["model"], entry["mode"], entry.get("sequences")


def add_measured(peers, lines):
    """Puts each line to its settings; a failure without a batch belongs to each batch that has no figures."""
    ours = {key_of(run): run for run in peers.get("athanor", [])}
    for line in lines:
        if line["mode"] == "athanor" and "failed" not in line:
            ours[key_of(line)] = line
            continue
        where = [s for s in peers["settings"] if key_of(s)[:2] == key_of(line)[:2]
                 and line.get("sequences") in (None, s["sequences"])]
        if not where and line["mode"] != "athanor" and not line["mode"].startswith("athanor-"):
            raise BadInput(f"no setting is {line['model']}, {line['mode']}, {line.get('sequences')} sequences: add it.")
        for setting in where:
            if "failed" not in line or "step" not in setting.get("measured", {}):
                setting["measured"] = {k: v for k, v in line.items() if k not in ("config", *setting)}
    peers["athanor"] = list(ours.values())


def seconds(value):
    return "" if value is None else f"{value:.2f} s"


def gib(value):
    return "" if value is None else f"{value:.0f} GiB"


def best_first(model, sequences, peers):
    """(mode, entry with `step`, setting or None) of all that ran, the fastest first."""
    found = [("athanor", run, None) for run in peers.get("athanor", []) if key_of(run)[0::2] == (model, sequences)]
    for setting in peers["settings"]:
        if (setting["model"], setting["sequences"]) == (model, sequences) and "step" in setting.get("measured", {}):
            found.append((setting["mode"], setting["measured"], setting))
    return sorted(found, key=lambda row: row[1]["step"])


def table(model, sequences, peers):
    """Markdown of one model and batch."""
    rows = best_first(model, sequences, peers)
    ours = next((run["step"] for mode, run, _ in rows if mode == "athanor"), None)
    lines = ["| system | micro-batch | step | tokens/s | athanor is | GPU | host | predicted | error |", "|" + "---|" * 9]
    for mode, run, setting in rows:
        predicted = (setting or {}).get("predicted", {}).get("step_seconds", run.get("predicted_step"))
        error = "" if predicted is None else f"{100 * (predicted / run['step'] - 1):+.0f} %"
        faster = f"{run['step'] / ours:.2f} x as fast" if ours and setting else ""
        lines.append(f"| {mode} | {run.get('micro_batch', setting and setting['micro_batch'])} | {seconds(run['step'])} | "
                     f"{run['tokens_per_second']} | {faster} | {gib(run.get('gpu_gib'))} | {gib(run.get('host_used_gib'))} | "
                     f"{seconds(predicted)} | {error} |")
    return lines if rows else unmeasured(model, sequences, peers)


def unmeasured(model, sequences, peers):
    lines = ["Not measured yet.", "", "| system | micro-batch | predicted |", "|---|---|---|"]
    for s in peers["settings"]:
        if (s["model"], s["sequences"]) == (model, sequences):
            said = seconds(s.get("predicted", {}).get("step_seconds")) or s.get("not_predicted", "")
            lines.append(f"| {s['mode']} | {s['micro_batch']} | {said} |")
    return lines


def what_failed(peers):
    for s in peers["settings"]:
        if "failed" in s.get("measured", {}):
            yield f"- {name_of(s)}: {' '.join(s['measured']['failed'].split())}"


def explanations(peers):
    """Lines on every error that is too large; a BadInput where FILE does not say why."""
    for s in peers["settings"]:
        step = s.get("measured", {}).get("step")
        if step is None or "predicted" not in s:
            continue
        error = s["predicted"]["step_seconds"] / step - 1
        if abs(error) > MUST_EXPLAIN and "why" not in s:
            raise BadInput(f"{name_of(s)}: predicted {100 * error:+.0f} % off. Say why in its `why`.")
        if "why" in s:
            yield f"- {name_of(s)}, {100 * error:+.0f} %: {s['why']}"


def page(peers):
    batches = list(dict.fromkeys((s["model"], s["sequences"]) for s in peers["settings"]))
    out = [peers["page"]["title"], "", *peers["page"]["text"]]
    for model, sequences in batches:
        out += ["", f"## {model}, {sequences} sequences a step", "", *table(model, sequences, peers)]
    for title, lines in (("What did not run", list(what_failed(peers))), ("Where predictions are off", list(explanations(peers)))):
        out += ["", f"## {title}", "", *lines] if lines else []
    out += ["", "## Settings", "", "| mode | what it is |", "|---|---|"]
    out += [f"| {mode} | {text} |" for mode, text in peers["page"]["modes"].items()]
    return "\n".join(out) + "\n"


def make_table(arguments):
    peers = read(arguments.file)
    add_measured(peers, [json.loads(line) for line in arguments.measured.read_text().splitlines() if line.strip()])
    text = page(peers)
    write(arguments.file, peers)
    arguments.output.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True, metavar="predict|table")
    verb = verbs.add_parser("predict", help="write predictions into FILE")
    verb.add_argument("file", type=pathlib.Path)
    verb.add_argument("--athanor", default="athanor")
    verb.set_defaults(run=predict_all)
    verb = verbs.add_parser("table", help="add what was measured, and write the page")
    verb.add_argument("file", type=pathlib.Path)
    verb.add_argument("measured", type=pathlib.Path)
    verb.add_argument("-o", dest="output", type=pathlib.Path, required=True)
    verb.set_defaults(run=make_table)
    arguments = parser.parse_args()
    try:
        arguments.run(arguments)
    except BadInput as error:
        print(f"peers: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
