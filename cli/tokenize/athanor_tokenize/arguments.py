# SPDX-License-Identifier: Apache-2.0
"""Options of `athanor tokenize`."""

import argparse

from .errors import InputError

DESCRIPTION = """Turns chat files and text into packed training tokens for `athanor train --data TOKENS`.

Records are lines of JSONL or rows of parquet with one of: messages; prompt and completion; instruction, input and
output; conversations (from, value); text. The model's own tokenizer and chat template are used."""


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


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise InputError("tokenize", message, "See athanor tokenize --help")


def parse(words):
    parser = Parser(prog="athanor tokenize", description=DESCRIPTION,
                    formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--model", required=True, metavar="FOLDER", help="Hugging Face folder with the tokenizer")
    parser.add_argument("--data", required=True, nargs="+", action="extend", metavar="FILE", help="JSONL or parquet")
    parser.add_argument("-o", "--output", required=True, metavar="TOKENS", help="new folder for the tokens")
    parser.add_argument("--seq", type=length, default=1024, help="tokens of a sequence (default: 1024)")
    parser.add_argument("--val-share", type=share, default=0.0, metavar="SHARE",
                        help="share of the records that goes to TOKENS/validation (default: 0)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the split and of the order of sequences")
    parser.add_argument("--train-on-prompt", action="store_true",
                        help="learn every token (default: those of assistant turns and completions)")
    parser.add_argument("--each-turn", action="store_true",
                        help="make a document of every assistant turn and what precedes it, for templates that "
                             "render earlier turns in another way")
    parser.add_argument("--chat-template", metavar="FILE", help="use this template (default: the tokenizer's)")
    parser.add_argument("--json", action="store_true", help="print one object with the counts")
    return parser.parse_args(words)
