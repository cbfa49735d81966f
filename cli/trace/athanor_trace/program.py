# SPDX-License-Identifier: Apache-2.0
"""Traces a model in both types of element, writes the folder and says what is in it."""

import os
import pathlib
import sys
import warnings

from . import arguments
from .errors import BAD_INPUT, DONE, FAILED, InputError, MissingPackage


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
    traced = units.make_units(config, torch.float32, options.seq, options.documents)
    by_dtype = {"float32": traced,
                "bfloat16": units.make_units(config, torch.bfloat16, options.seq, options.documents, traced)}
    classes = folder.write(options, config, by_dtype)
    print(summary(options, config, traced, classes))


def main(words):
    # The front passes its verb on.
    words = words[1:] if words[:1] == ["trace"] else words
    try:
        run(words)
        return DONE
    except InputError as error:
        code, message = BAD_INPUT, str(error)
    except MissingPackage as missing:
        code, message = FAILED, (f"{sys.executable} has no package '{missing}'. Install it (pip install {missing}), or "
                                 "name a Python that has it: ATHANOR_PYTHON=.venv/bin/python")
    except OSError as error:
        code, message = FAILED, str(error)
    except KeyboardInterrupt:
        code, message = 130, "interrupted"
    sys.stderr.write(f"athanor trace: error: {message}\n")
    return code
