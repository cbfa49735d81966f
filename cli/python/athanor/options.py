# SPDX-License-Identifier: Apache-2.0
"""Keyword arguments as the words of a command line."""

import json
import numbers
import os
import pathlib

# Options that take a file in JSON, or in YAML, which all JSON is: a dictionary stands for such a file.
FILES = {"accelerate", "deepspeed", "model", "plan", "platform", "profile", "profile_platform", "refresh"}
# Options that the verbs give themselves, or that print something else than a result.
RESERVED = {"help", "json", "version"}


def _text(name, value):
    if isinstance(value, (str, os.PathLike)):
        text = os.fspath(value)
    elif isinstance(value, numbers.Number) and not isinstance(value, (bool, complex)):
        text = str(value)
    else:
        raise TypeError(f"{name}: {value!r} is a {type(value).__name__}, and no option takes it")
    if not isinstance(text, str) or not text:
        raise ValueError(f"{name}: {value!r} is no value; leave it out, or give None")
    return text


class Words:
    """The options of one call. Dictionaries become files in `folder`, which lives as long as the call."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.given_as_data = []  # names of options whose files end with the call

    def of(self, options):
        """Returns the words of all options."""
        words = []
        for name, value in options.items():
            if name in RESERVED:
                raise TypeError(f"{name!r} is no keyword here: a verb returns what --json prints")
            option = "--" + name.replace("_", "-")
            if value is None or value is False:
                continue
            words += [option] if value is True else [f"{option}={text}" for text in self.texts(name, value)]
        return words

    def texts(self, name, value):
        if isinstance(value, dict) and name not in FILES:
            return [f"{_text(name, key)}={_text(name, each)}" for key, each in value.items()]
        values = list(value) if isinstance(value, (list, tuple)) else [value]
        return [self.file(name, each) if isinstance(each, dict) and name in FILES else _text(name, each)
                for each in values]

    def file(self, name, content):
        """Returns the path of a new file that holds `content`."""
        self.given_as_data.append(name)
        folder = self.folder / f"{name}-{len(self.given_as_data)}"
        folder.mkdir()
        path = folder / ("config.json" if name == "model" else f"{name}.json")
        path.write_text(json.dumps(content), encoding="utf-8")
        return str(folder if name == "model" else path)
