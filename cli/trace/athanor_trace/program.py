# SPDX-License-Identifier: Apache-2.0
"""Traces a model in both types of element, writes the folder and says what is in it."""

import os
import pathlib
import sys
import warnings

from athanor_common.errors import InputError, MissingPackage, run_verb
from athanor_common.progress import Progress

from . import arguments


def require_packages():
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    warnings.filterwarnings("ignore")  # the tracer warns of every size that becomes a number
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as missing:
        raise MissingPackage(missing.name) from None


def summary(options, config, traced, classes):
    count = sum(parameter.numel() for parameter in {id(p): p for unit in traced.units
                                                    for _, p in unit.parameters}.values())
    kinds = {}
    for unit, unit_class in zip(traced.units, classes):
        kinds.setdefault(unit_class, []).append(unit.name)
    return "\n".join([f"{config.model_type}: {count} parameters in {len(traced.units)} units of {len(kinds)} kinds, "
                      f"sequences of {options.seq} tokens",
                      *(f"  {name:<12} {len(units)} unit{'s' if len(units) > 1 else ''}"
                        for name, units in kinds.items()),
                      f"written to {options.output}; use it as --model {options.output} --seq {options.seq}"])


def run(words):
    options = arguments.parse(words)
    if not pathlib.Path(options.model).is_dir():
        raise InputError("--model", f"'{options.model}' is no folder", "Give a Hugging Face folder with a config.json")
    require_packages()
    import torch

    from . import folder, skeleton, units
    folder.require_free(options.output)
    config = skeleton.read_config(options.model)
    traced, by_dtype = None, {}
    for dtype in (torch.float32, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        with Progress(f"tracing units in {name}", quiet=options.quiet) as progress:
            traced = by_dtype[name] = units.make_units(config, dtype, options.seq, options.documents, traced,
                                                       progress.update)
    classes = folder.write(options, config, by_dtype)
    print(summary(options, config, by_dtype["float32"], classes))


def main(words):
    return run_verb("trace", run, words)
