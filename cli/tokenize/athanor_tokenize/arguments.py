# SPDX-License-Identifier: Apache-2.0
"""Options of `athanor tokenize`."""

import argparse

from athanor_common.errors import InputError

DESCRIPTION = """Turns what people have into training data of a model, for `athanor train --data OUTPUT`.

For a language model that is packed tokens of chat files and text, for a classifier of images pixels and labels.

Records are lines of JSONL or rows of parquet with one of: messages; prompt and completion; instruction, input and
output; conversations (from, value); text. The model's own tokenizer and chat template are used.

Images are a folder with a folder for each class, or parquet with image and label. The model's own image processor
resizes and crops them. --seq and the options of templates are for language models."""
ONLY_TEXT = ("seq", "train_on_prompt", "each_turn", "chat_template")
DEFAULT_LENGTH = 1024


def share(text):
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 up to 1")
    return value


def length(text):
    value = int(text)
    if not 2 <= value <= 1 << 24:
        raise argparse.ArgumentTypeError(f"{text} is not from 2 to 16777216")
    return value


def side(text):
    value = int(text)
    if not 1 <= value <= 1 << 16:
        raise argparse.ArgumentTypeError(f"{text} is not from 1 to 65536")
    return value


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise InputError("tokenize", message, "See athanor tokenize --help")


def parse(words):
    parser = Parser(prog="athanor tokenize", description=DESCRIPTION,
                    formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--model", required=True, metavar="FOLDER", help="Hugging Face folder with the tokenizer or the image processor")
    parser.add_argument("--data", required=True, nargs="+", action="extend", metavar="FILE",
                        help="JSONL or parquet; of images parquet, or a folder of class folders")
    parser.add_argument("-o", "--output", required=True, metavar="OUTPUT", help="new folder for the data")
    parser.add_argument("--seq", type=length, help="tokens of a sequence (default: 1024)")
    parser.add_argument("--val-share", type=share, default=0.0, metavar="SHARE",
                        help="share of the records that goes to OUTPUT/validation (default: 0)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the split and of the order of sequences or images")
    parser.add_argument("--image-size", type=side, metavar="PIXELS",
                        help="side of the images (default: the image processor's)")
    parser.add_argument("--train-on-prompt", action="store_true",
                        help="learn every token (default: those of assistant turns and completions)")
    parser.add_argument("--each-turn", action="store_true",
                        help="make a document of every assistant turn and what precedes it, for templates that "
                             "render earlier turns in another way")
    parser.add_argument("--chat-template", metavar="FILE", help="use this template (default: the tokenizer's)")
    parser.add_argument("--quiet", action="store_true", help="print no progress lines")
    parser.add_argument("--json", action="store_true", help="print one object with the counts")
    return parser.parse_args(words)


def settle(options, of_images):
    """Refuses options of the other kind of model, and fills in what was not given."""
    foreign = next((name for name in (ONLY_TEXT if of_images else ("image_size",)) if getattr(options, name)), None)
    if foreign:
        raise InputError(f"--{foreign.replace('_', '-')}", f"is for {'language models' if of_images else 'images'}, and "
                         f"'{options.model}' is {'a classifier of images' if of_images else 'no classifier of images'}",
                         "Leave it out, or name another model")
    options.seq = options.seq or DEFAULT_LENGTH
