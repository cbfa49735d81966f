# SPDX-License-Identifier: Apache-2.0
"""The folder of a traced model: traced.json, the graphs, and what the model's own folder has."""

import json
import pathlib
import shutil

import transformers

from athanor_common.errors import InputError
from athanor_common.folders import require_writable

DESCRIPTION = "traced.json"
GRAPHS = "units"


def require_free(folder):
    folder = pathlib.Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError("--output", f"'{folder}' exists already", "Name a new folder")
    require_writable(folder)


def _classes(by_dtype):
    """Returns the class of each unit: the name of the first one that does the same."""
    first, classes = {}, []
    for units in zip(*by_dtype.values()):
        shapes = tuple(tuple(parameter.shape) for _, parameter in units[0].parameters)
        key = (tuple(unit.graph.key for unit in units), shapes)
        classes.append(first.setdefault(key, units[0].name))
    return classes


def _described(units, classes):
    """Returns the units as an architecture lists them: a parameter belongs to the first unit that takes it."""
    owners, described = {}, []
    for i, (unit, unit_class) in enumerate(zip(units, classes)):
        own, borrowed = [], []
        for name, parameter in unit.parameters:
            owner = owners.setdefault(name, i)
            if owner != i:
                borrowed.append({"unit": owner, "parameter": name})
            elif all(entry["name"] != name for entry in own):
                own.append({"name": name, "shape": list(parameter.shape)})
        described.append({"name": unit.name, "class": unit_class, "parameters": own, "borrows": borrowed,
                          "forward_flops_per_token": unit.flops_per_token,
                          "forward_flops_per_token_per_context": unit.flops_per_token_per_context})
    return described


def description(options, config, traced, classes):
    """Returns what traced.json holds."""
    units = traced.units
    graphs = [{"name": unit_class, "parameters": [name for name, _ in unit.parameters]}
              for unit, unit_class in zip(units, classes)]
    if traced.projection:
        graphs[-1]["parameters"].pop()  # the graph ends before the projection
    architecture = {"name": config.model_type, "language_model": None,
                    "traced": {"model_type": config.model_type, "vocab_size": config.get_text_config().vocab_size,
                               "sequence_length": options.seq, "documents": options.documents},
                    "units": _described(units, classes)}
    return {"schema": "athanor.traced-model/1", "architecture": architecture, "graphs": graphs,
            "projection": traced.projection, "base_prefix": traced.base_prefix,
            "ignored_tensors": traced.ignored_tensors, "transformers": transformers.__version__}


def _is_weight(path):
    return path.suffix in (".safetensors", ".bin", ".pt", ".pth", ".gguf") or path.name.endswith(".safetensors.index.json")


def write(options, config, by_dtype):
    """Writes the folder; traced.json, which completes it, comes last. `by_dtype` has the traced model of each type."""
    source, output = pathlib.Path(options.model), pathlib.Path(options.output)
    (output / GRAPHS).mkdir(parents=True)
    classes = _classes({dtype: traced.units for dtype, traced in by_dtype.items()})
    for dtype, traced in by_dtype.items():
        for unit, unit_class in zip(traced.units, classes):
            if unit.name == unit_class:
                unit.graph.module.save(str(output / GRAPHS / f"{unit.name}.{dtype}.pt"))
    for path in sorted(source.iterdir()):
        if path.is_file() and _is_weight(path):
            (output / path.name).symlink_to(path.resolve())
        elif path.is_file():
            shutil.copyfile(path, output / path.name)
    text = json.dumps(description(options, config, next(iter(by_dtype.values())), classes), indent=1)
    (output / DESCRIPTION).write_text(text + "\n")
    return classes
