# SPDX-License-Identifier: Apache-2.0
"""Reads records, makes documents, packs them, writes the folder and says what it did."""

import json
import os
import pathlib
import random
import sys

from . import arguments
from .errors import BAD_INPUT, DONE, FAILED, InputError, MissingPackage

VALIDATION = "validation"


def load_tokenizer(folder):
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        import numpy  # noqa: F401
        import safetensors  # noqa: F401
        import transformers
    except ImportError as missing:
        raise MissingPackage(missing.name) from None
    if not pathlib.Path(folder).is_dir():
        raise InputError("--model", f"'{folder}' is no folder", "Give a Hugging Face folder with tokenizer files")
    try:
        return transformers.AutoTokenizer.from_pretrained(folder)
    except Exception as error:  # transformers raises whatever its parts raise
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError("--model", f"no tokenizer in '{folder}' can be read: {first_line}",
                         "Copy tokenizer.json and tokenizer_config.json of the model into it") from None


def vocabulary_of(folder, tokenizer):
    """Returns the model's vocabulary, which may be larger than the tokenizer's."""
    config = pathlib.Path(folder) / "config.json"
    size = None
    if config.is_file():
        try:
            read = json.loads(config.read_text(encoding="utf-8"))
            size = read.get("vocab_size", (read.get("text_config") or {}).get("vocab_size"))
        except (ValueError, AttributeError) as error:
            raise InputError(str(config), f"is no configuration: {error}", "Copy the model's config.json again") from None
    if isinstance(size, int) and size < len(tokenizer):
        sys.stderr.write(f"athanor tokenize: note: the tokenizer has {len(tokenizer)} tokens, the model {size}\n")
    return size if isinstance(size, int) else len(tokenizer)


def require_known(documents, vocabulary):
    """Refuses ids that the model has no embedding for, such as tokens that were added to the tokenizer alone."""
    top = max((max(ids) for ids, _ in documents), default=0)
    if top >= vocabulary:
        raise InputError("--model", f"the tokenizer gives token {top}, and the model has {vocabulary}",
                         "Use the tokenizer that the model was made with, or enlarge its embedding")


class Split:
    """Documents of the training or of the validation part, and what became of the records."""

    def __init__(self):
        self.documents = []
        self.records = self.without_answer = 0

    def add(self, documents):
        self.records += 1
        self.without_answer += not documents
        self.documents += documents


def split_records(options, tokens):
    choice = random.Random(options.seed)
    from .records import read_records
    parts = {"": Split(), VALIDATION: Split()}
    shown = False
    for record in read_records(options.data):
        part = VALIDATION if choice.random() < options.val_share else ""
        documents = tokens.documents(record)
        parts[part].add(documents)
        if documents and not shown:
            from .report import show_sample
            show_sample(tokens.tokenizer, documents[0])
            shown = True
    return parts


def write_part(options, tokens, vocabulary, name, part):
    from .packing import best_fit_decreasing, fit_to
    from .token_folder import write_folder
    fitted = fit_to(part.documents, options.seq)
    if not fitted.documents:
        raise InputError("--data", f"leaves no token to learn in the {name or 'training'} part",
                         "Give more records, longer sequences (--seq) or another --val-share")
    require_known(fitted.documents, vocabulary)
    packed = best_fit_decreasing([len(ids) for ids, _ in fitted.documents], options.seq)
    random.Random(options.seed).shuffle(packed)
    filler = next((i for i in (tokens.tokenizer.pad_token_id, tokens.tokenizer.eos_token_id)
                   if i is not None and i < vocabulary), 0)
    model = pathlib.Path(options.model).resolve().name
    index = write_folder(pathlib.Path(options.output) / name, fitted.documents, packed, options.seq, vocabulary, model,
                         filler)
    counts = {key: index[key] for key in ("sequence_length", "sequences", "documents", "tokens", "loss_tokens")}
    return counts | {"records": part.records, "without_answer": part.without_answer, "truncated": fitted.truncated,
                     "dropped": fitted.dropped}


def run(words):
    options = arguments.parse(words)
    tokenizer = load_tokenizer(options.model)
    from .documents import Tokens
    from .report import table
    from .token_folder import require_free
    require_free(options.output)
    template = None
    if options.chat_template:
        try:
            template = pathlib.Path(options.chat_template).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError("--chat-template", str(error), "Give a file with a Jinja template") from None
    tokens = Tokens(tokenizer, template, options.train_on_prompt, options.each_turn)
    vocabulary = vocabulary_of(options.model, tokenizer)
    parts = split_records(options, tokens)
    wanted = ["", VALIDATION] if options.val_share > 0 else [""]
    # The validation part first: the index of the whole folder is the last file.
    counts = {name or "training": write_part(options, tokens, vocabulary, name, parts[name])
              for name in reversed(wanted)}
    print(json.dumps(counts) if options.json else "\n".join(table(name, of) for name, of in counts.items()))


def main(words):
    # The front passes its verb on.
    words = words[1:] if words[:1] == ["tokenize"] else words
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
    sys.stderr.write(f"athanor tokenize: error: {message}\n")
    return code
