# SPDX-License-Identifier: Apache-2.0
"""Images and their labels, from folders of class folders and from parquet."""

import collections
import dataclasses
import io
import json
import pathlib
import sys

from athanor_common.errors import InputError, MissingPackage

from .records import parquet_rows

KINDS = "Give a folder with a folder of images for each class, or parquet with image and label"
IMAGE_COLUMNS, LABEL_COLUMNS = ("image", "img"), ("label", "labels")
NEW_CLASSIFIER = ('Give the model a classifier for them: python3 -c "from transformers import '
                  "AutoModelForImageClassification as M; M.from_pretrained('{}', num_labels={}, "
                  "ignore_mismatched_sizes=True).save_pretrained('NEW')\", and copy preprocessor_config.json")


@dataclasses.dataclass
class Labelled:
    """An encoded image: bytes of a row, or a file. The label is a name, or a number where there are no names."""

    where: str
    label: str | int
    content: bytes | pathlib.Path

    def decoded(self, channels):
        """Returns the pixels, uint8 [height, width, channels], as cameras meant them to stand."""
        import numpy
        from PIL import Image, ImageOps
        try:
            source = io.BytesIO(self.content) if isinstance(self.content, bytes) else self.content
            with Image.open(source) as image:
                self.require_8_bits(image)
                pixels = numpy.asarray(ImageOps.exif_transpose(image).convert("RGB" if channels == 3 else "L"))
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:  # how Pillow says it
            raise InputError(self.where, f"is no image that can be read: {error}", "Remove or replace it") from None
        return pixels.reshape(*pixels.shape[:2], channels)


    def require_8_bits(self, image):
        """Refuses pixels that Pillow would clip to 255: an image of 16 bits would be white, one of fractions black."""
        if image.mode != "F" and image.mode.split(";")[0] != "I":
            return
        least, most = image.getextrema()
        if image.mode == "F" or least < 0 or most > 255:
            raise InputError(self.where, f"has pixels of more than 8 bits (Pillow's mode {image.mode}), which would be "
                             "clipped", "Write the image with 8 bits a channel, in the range that you want")


def class_folders(folder):
    """Yields the images of each class. Hidden files are no images."""
    visible = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    classes = [entry for entry in visible if entry.is_dir()]
    if not classes:
        raise InputError(str(folder), "has no class folders", KINDS)
    if loose := [entry.name for entry in visible if not entry.is_dir()]:
        sys.stderr.write(f"athanor tokenize: note: {folder}: files beside the class folders are not used: {loose[0]!r} "
                         f"({len(loose)} in all)\n")
    for of_class in classes:
        files = sorted(entry for entry in of_class.iterdir()
                       if not entry.name.startswith(".") and entry.name != "Thumbs.db")
        inner = next((entry for entry in files if entry.is_dir()), None)
        if inner or not files:
            what = f"holds the folder '{inner.name}'" if inner else "is empty"
            raise InputError(str(of_class), f"{what}, and should hold the images of one class",
                             f"Name the folder of classes itself: --data {of_class}" if inner else KINDS)
        yield from (Labelled(str(path), of_class.name, path) for path in files)


def label_names_of(path, column):
    """Returns the names that Hugging Face's datasets write into a file, by number; None where there are none."""
    import pyarrow.parquet
    metadata = (pyarrow.parquet.read_schema(path).metadata or {}).get(b"huggingface")
    if metadata is None:
        return None
    try:
        return json.loads(metadata)["info"]["features"][column].get("names")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None  # the key is datasets' own; numbers stay numbers without it


def column_of(where, row, known):
    found = [name for name in known if name in row]
    if not found:
        raise InputError(where, f"has no column {' or '.join(known)}, but {', '.join(map(str, row))}", KINDS)
    return found[0]


def row_label(where, value, names):
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise InputError(where, f"is {type(value).__name__}, expected a number or a name", KINDS)
    if isinstance(value, str) or not names:
        return value
    if not 0 <= value < len(names):
        raise InputError(where, f"label {value} is none of the file's {len(names)} names", "Correct the file")
    return names[value]


def rows_of(path, order):
    """Yields the images of a parquet file. `order` gets the names of labels that the file has."""
    names = None
    for number, (where, row) in enumerate(parquet_rows(path)):
        image, label = column_of(where, row, IMAGE_COLUMNS), column_of(where, row, LABEL_COLUMNS)
        if number == 0:
            names = label_names_of(path, label)
            order.update(dict.fromkeys(names or ()))
        content = row[image].get("bytes") if isinstance(row[image], dict) else row[image]
        if not isinstance(content, bytes):
            raise InputError(f"{where}:{image}", "holds no bytes of an image", "Write the images into the file")
        yield Labelled(where, row_label(f"{where}:{label}", row[label], names), content)


def is_parquet(path):
    with open(path, "rb") as file:
        return file.read(4) == b"PAR1"


def read_images(paths):
    """Returns all images, and the order of label names where files say one."""
    images, order = [], {}
    for path in map(pathlib.Path, paths):
        if path.is_dir():
            images += class_folders(path)
        elif path.is_file() and is_parquet(path):
            images += rows_of(str(path), order)
        elif path.exists():
            raise InputError(str(path), "holds no images, and the model classifies images", KINDS)
        else:
            raise InputError(str(path), "is not there", "Check the path")
    return images, list(order)


def model_labels(config):
    """Returns the names of the model's labels, and whether somebody has chosen them."""
    named = config.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
    names = [named[key] for key in sorted(named, key=int)]
    return names, names != [f"LABEL_{i}" for i in range(len(names))]


def numbered(images, order, config, model):
    """Returns the names of labels by number, and every image's number.

    A model with names of its own decides their numbers. Otherwise numbers are those of the files, or names in order.
    """
    names, chosen = model_labels(config)
    if len({type(image.label) for image in images}) > 1:
        raise InputError("--data", "has labels with names and labels without", "Give data of one kind")
    if isinstance(images[0].label, str) and not chosen:
        found = order or sorted({image.label for image in images})
        if len(found) != len(names):
            raise InputError("--data", f"has {len(found)} classes, and the model tells {len(names)} apart",
                             NEW_CLASSIFIER.format(model, len(found)))
        names = found
    numbers = {name: i for i, name in enumerate(names)}
    return names, [number_of(image, names, numbers, model) for image in images]


def number_of(image, names, numbers, model):
    if isinstance(image.label, str) and image.label in numbers:
        return numbers[image.label]
    if isinstance(image.label, int) and 0 <= image.label < len(names):
        return image.label
    shown = f"label {image.label}" if isinstance(image.label, int) else f"class '{image.label}'"
    raise InputError(image.where, f"{shown} is none of the model's {len(names)} (id2label of config.json)",
                     "Name the classes as the model does, or set id2label and num_labels: "
                     + NEW_CLASSIFIER.format(model, "N"))


def per_label(numbers):
    """Returns the smallest and the largest number of images of a label that occurs."""
    counts = collections.Counter(numbers).values()
    return min(counts), max(counts)


def require_pillow():
    try:
        import PIL  # noqa: F401
    except ImportError:
        raise MissingPackage("pillow") from None
