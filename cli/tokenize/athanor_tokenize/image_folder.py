# SPDX-License-Identifier: Apache-2.0
"""Writes a folder of labelled images: executor/data/labelled-images.md defines the format."""

import json
import os
import pathlib
import random
import sys

import numpy

from athanor_common.errors import InputError
from athanor_common.progress import Progress

from .images import numbered, per_label, read_images, require_pillow
from .pixels import Pixels, load_processor
from .token_folder import crc32_of, require_free, save_tensors, write_index

SCHEMA = "athanor.images/1"
SHARD_BYTES = 1 << 28


def config_of(folder):
    """Returns config.json of a classifier of images; None for any other model."""
    path = pathlib.Path(folder) / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        classes = config.get("architectures") or [""]
        return config if str(classes[0]).endswith("ForImageClassification") else None
    except (OSError, ValueError, AttributeError, TypeError, KeyError, IndexError):
        return None  # what is wrong with it is said where it is read as a language model's


def write_shard(folder, number, count, images, numbers, pixels, converted):
    name = f"images-{number + 1:05}-of-{count:05}.safetensors"
    made = numpy.empty((len(images), pixels.channels, pixels.side, pixels.side), numpy.uint8)
    for row, image in enumerate(images):
        made[row] = pixels.of(image)
        converted(row + 1)
    save_tensors({"pixels": made, "labels": numpy.array(numbers, numpy.int64)}, folder / name)
    return {"file": name, "images": len(images), "bytes": (folder / name).stat().st_size,
            "crc32": crc32_of(folder / name)}


def write_folder(folder, members, names, pixels, model, shard_bytes=SHARD_BYTES, quiet=True):
    """Writes shards of (image, number), then the index, without which the folder is incomplete. Returns the index."""
    folder = pathlib.Path(folder)
    require_free(folder)
    folder.mkdir(parents=True, exist_ok=True)
    of_shard = max(1, shard_bytes // (pixels.channels * pixels.side * pixels.side))
    parts = [members[begin:begin + of_shard] for begin in range(0, len(members), of_shard)]
    index = {"schema": SCHEMA, "model": model, "channels": pixels.channels, "height": pixels.side,
             "width": pixels.side, "images": len(members), "scale": pixels.scale, "mean": pixels.mean,
             "std": pixels.std, "labels": names, "shards": []}
    with Progress("converting images", len(members), quiet) as progress:
        for number, part in enumerate(parts):
            images, numbers = zip(*part)
            index["shards"].append(write_shard(folder, number, len(parts), images, numbers, pixels,
                                               lambda done, before=number * of_shard: progress.update(before + done)))
    write_index(folder, index)
    return index


def counts_of(index, numbers):
    least, most = per_label(numbers)
    return {"images": index["images"], "labels": len(index["labels"]), "labels_that_occur": len(set(numbers)),
            "channels": index["channels"], "height": index["height"], "width": index["width"],
            "images_per_label": [least, most]}


def table(name, counts):
    least, most = counts["images_per_label"]
    return (f"{name}\n  images     {counts['images']} of {counts['height']} x {counts['width']} pixels, "
            f"{counts['channels']} channels\n  labels     {counts['labels']}, {counts['labels_that_occur']} occur, "
            f"each {least} to {most} times")


def run(options, config, split):
    """`split` takes a list, a share and a seed, and returns its parts by name."""
    require_free(options.output)
    require_pillow()
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    pixels = Pixels(load_processor(options.model), config, options.image_size)
    images, order = read_images(options.data)
    if not images:
        raise InputError("--data", "holds no image", "Give files with rows, or folders with images")
    names, numbers = numbered(images, order, config, options.model)
    model = pathlib.Path(options.model).resolve().name
    counts = {}
    # The training part is the last: its index completes the folder.
    for name, members in split(list(zip(images, numbers)), options.val_share, options.seed).items():
        if not members:
            raise InputError("--data", f"leaves no image in the {name or 'training'} part", "Give more images or another "
                             "--val-share")
        random.Random(options.seed).shuffle(members)
        index = write_folder(pathlib.Path(options.output) / name, members, names, pixels, model, quiet=options.quiet)
        counts[name or "training"] = counts_of(index, [number for _, number in members])
    if options.image_size:
        sys.stderr.write(f"athanor tokenize: note: images have {pixels.side} pixels a side, and the model's "
                         "preprocessor_config.json may say another number: change it there too\n")
    print(json.dumps(counts) if options.json else "\n".join(table(name, of) for name, of in counts.items()))
