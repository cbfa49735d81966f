# SPDX-License-Identifier: Apache-2.0
"""The verbs. Each runs one program and returns what it says in JSON."""

import json
import pathlib
import tempfile

from athanor import programs
from athanor.errors import Error
from athanor.options import Words


def _measured(verb, output, options):
    """Runs a verb that writes a file, and returns the file's content."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(output if output is not None else pathlib.Path(folder, "output.json"))
        programs.answer(verb, [*Words(folder).of(options), f"--output={path}"], options.get("quiet", False))
        return json.loads(path.read_text(encoding="utf-8"))


def calibrate(*, output=None, **options):
    """Measures this machine. Returns the platform, and writes it to `output` where that is given."""
    return _measured("calibrate", output, options)


def profile(model, *, output=None, **options):
    """Measures a model: a Hugging Face folder, its config.json, the same as a dictionary, or a built-in name. Returns the
    profile, and writes it to `output` where that is given."""
    return _measured("profile", output, {"model": model, **options})


def simulate(*, pandas=False, **options):
    """Predicts one plan: step_seconds, tokens_per_second, peak_bytes, bottleneck and more. `plan` is a file or what tune
    returned; `policy` or another system's settings take its place. Raises InfeasibleError, whose result is the report,
    where it does not fit."""
    with tempfile.TemporaryDirectory() as folder:
        words = Words(folder).of(options)
        return _tables(programs.answer("simulate", [*words, "--json"], options.get("quiet", False)), pandas)


def tune(*, output=None, pandas=False, **options):
    """Finds the fastest plan that fits. Returns its prediction; plan is the plan itself, top the ranked ones where
    top=N asks for them. With several platforms, or with prices, platforms holds a row for each."""
    with tempfile.TemporaryDirectory() as folder:
        words = Words(folder)
        command = words.of(options)
        path = _plan_path(output, options, words)
        if path:
            command.append(f"--output={path}")
        try:
            found = programs.answer("tune", [*command, "--json"], options.get("quiet", False))
        except Error as error:
            raise _with_reasons(error) from None
        if path:
            _settle_paths(found["plan"], path, words)
        return _tables(found, pandas)


def compare(run, *, pandas=False, **options):
    """Lays a run's measurements over its prediction. Raises OutsideToleranceError where `tolerance` is given and the step
    time is further off."""
    with tempfile.TemporaryDirectory() as folder:
        words = Words(folder)
        command = [*words.of(options), "--json", "--", *words.texts("run", run)]
        return _tables(programs.answer("compare", command, False), pandas)


def _plan_path(output, options, words):
    """Where tune writes its plan, so that it says where its profile and platform are; None for a table of platforms."""
    platform, gpus = options.get("platform"), options.get("gpus")
    numbers = gpus.split(",") if isinstance(gpus, str) else gpus if isinstance(gpus, (list, tuple)) else []
    several = isinstance(platform, (list, tuple)) and len(platform) > 1 or len({str(number) for number in numbers}) > 1
    if several or options.get("price"):
        if output is not None:
            raise ValueError("output: a plan is written for a single platform and number of GPUs alone; tune the one "
                             "that you choose")
        return None
    if output is None:
        return words.folder / "plan.json"
    if words.given_as_data:
        raise ValueError(f"output: the plan's file would name that of {words.given_as_data[0]!r}, which is a dictionary "
                         "here; write it to a file first")
    return pathlib.Path(output)


def _settle_paths(plan, path, words):
    """Makes the plan's paths absolute, so that it can be used wherever it goes; those of dictionaries are left out."""
    for key, option in (("profile_path", "profile"), ("platform_path", "platform")):
        stored = plan.pop(key, "")
        if stored and option not in words.given_as_data:
            plan[key] = str((path.absolute().parent / stored).resolve())


def _with_reasons(error):
    """Where no platform has a plan, tune prints why in its rows, and says nothing besides."""
    rows = (error.result or {}).get("platforms")
    if not rows:
        return error
    reasons = [f"{row['platform']}: {row['reason']}" for row in rows if row.get("reason")]
    return type(error)("\n".join(reasons), error.hint, error.result)


def _tables(value, wanted):
    """Where pandas is asked for, every list of rows becomes a table; the plan stays an input of other verbs."""
    if not wanted:
        return value
    import pandas as pd  # not needed otherwise
    if isinstance(value, dict):
        return {key: each if key == "plan" else _tables(each, True) for key, each in value.items()}
    if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        return pd.json_normalize(value)
    return value
