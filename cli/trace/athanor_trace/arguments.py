# SPDX-License-Identifier: Apache-2.0
"""Options of `athanor trace`."""

import argparse

from athanor_common.errors import InputError

DESCRIPTION = """Traces a Hugging Face language model that athanor has no units of its own for.

transformers runs the embedding, one layer of each kind and the head once, without their weights. The graphs go into
a new model folder, which every verb takes as --model: profile, tune, train, and train --export. The folder refers to
the weights of FOLDER by links."""


def length(text):
    value = int(text)
    if not 2 <= value <= 1 << 20:
        raise argparse.ArgumentTypeError(f"{text} is not from 2 to 1048576")
    return value


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise InputError("trace", message, "See athanor trace --help")


def parse(words):
    parser = Parser(prog="athanor trace", description=DESCRIPTION,
                    formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--model", required=True, metavar="FOLDER",
                        help="Hugging Face folder: config.json and, for training, model.safetensors")
    parser.add_argument("-o", "--output", required=True, metavar="TRACED", help="new folder for the traced model")
    parser.add_argument("--seq", type=length, default=1024, help="tokens of a sequence (default: 1024)")
    parser.add_argument("--documents", action="store_true",
                        help="let several documents share a sequence, as `athanor tokenize` packs them: attention "
                             "stays within each, at the price of masks")
    parser.add_argument("--quiet", action="store_true", help="print no progress lines")
    return parser.parse_args(words)
