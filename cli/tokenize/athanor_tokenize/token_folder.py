# SPDX-License-Identifier: Apache-2.0
"""Writes a folder of packed tokens: executor/data/packed-tokens.md defines the format."""

import json
import os
import pathlib
import re
import zlib

import numpy
from safetensors import SafetensorError
from safetensors.numpy import save_file

from athanor_common.errors import InputError
from athanor_common.folders import require_writable

SCHEMA = "athanor.tokens/1"
# What this program leaves in a folder that it did not complete: the next attempt writes it anew.
OWN = re.compile(r"validation|index\.json\.unfinished|(tokens|images)-\d+-of-\d+\.safetensors")
SHARD_TOKENS = 1 << 26


def require_free(folder):
    require_writable(folder)
    if (pathlib.Path(folder) / "index.json").exists():
        raise InputError(str(folder), "holds prepared data already", "Name a new folder, or remove this one")
    if pathlib.Path(folder).is_dir():
        foreign = sorted(path.name for path in pathlib.Path(folder).iterdir() if not OWN.fullmatch(path.name))
        if foreign:
            raise InputError(str(folder), f"holds other files, such as '{foreign[0]}'", "Name a new folder")


def rows(packed, documents, length, filler):
    """Returns ids, loss_mask and document_starts of some sequences, each [sequences, length]."""
    shape = (len(packed), length)
    ids = numpy.full(shape, filler, numpy.int32)
    mask, starts = numpy.zeros(shape, numpy.uint8), numpy.zeros(shape, numpy.uint8)
    for row, members in enumerate(packed):
        at = 0
        for member in members:
            tokens, learnt = documents[member]
            end = at + len(tokens)
            ids[row, at:end] = tokens
            # Nothing before a document's first token may predict it.
            mask[row, at + 1:end] = numpy.frombuffer(learnt, numpy.uint8)[1:]
            starts[row, at] = 1
            at = end
    return {"ids": ids, "loss_mask": mask, "document_starts": starts}


def crc32_of(path):
    value = 0
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            value = zlib.crc32(block, value)
    return f"{value:08x}"


def save_tensors(tensors, path):
    """Writes a file of tensors. Raises OSError that names it, on a full disk for example."""
    try:
        save_file(tensors, path)
    except SafetensorError as error:
        raise OSError(f"{path}: cannot be written: {error}") from None


def write_shard(folder, number, count, tensors):
    name = f"tokens-{number + 1:05}-of-{count:05}.safetensors"
    save_tensors(tensors, folder / name)
    return {"file": name, "sequences": len(tensors["ids"]), "bytes": (folder / name).stat().st_size,
            "crc32": crc32_of(folder / name)}


def write_index(folder, index):
    unfinished = folder / "index.json.unfinished"
    unfinished.write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
    os.replace(unfinished, folder / "index.json")


def write_folder(folder, documents, packed, length, vocabulary, model, filler, shard_tokens=SHARD_TOKENS):
    """Writes shards, then the index, without which the folder is incomplete. Returns the index."""
    folder = pathlib.Path(folder)
    require_free(folder)
    folder.mkdir(parents=True, exist_ok=True)
    of_shard = max(1, shard_tokens // length)
    parts = [packed[begin:begin + of_shard] for begin in range(0, len(packed), of_shard)]
    index = {"schema": SCHEMA, "model": model, "vocab_size": vocabulary, "sequence_length": length,
             "sequences": len(packed), "documents": len(documents), "tokens": sum(len(ids) for ids, _ in documents),
             "loss_tokens": 0, "shards": []}
    for number, part in enumerate(parts):
        tensors = rows(part, documents, length, filler)
        index["loss_tokens"] += int(tensors["loss_mask"].sum())
        index["shards"].append(write_shard(folder, number, len(parts), tensors))
    write_index(folder, index)
    return index
