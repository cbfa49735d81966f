# SPDX-License-Identifier: Apache-2.0
"""Reads records, makes documents, packs them, writes the folder and says what it did."""

import collections
import itertools
import json
import os
import pathlib
import random
import sys

from athanor_common.errors import InputError, MissingPackage, run_verb

from . import arguments

VALIDATION = "validation"


def require_packages():
    """Says what this Python lacks before anything is read."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        import numpy  # noqa: F401
        import safetensors  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as missing:
        raise MissingPackage(missing.name) from None


def load_tokenizer(folder):
    import transformers
    if not pathlib.Path(folder).is_dir():
        raise InputError("--model", f"'{folder}' is no folder", "Give a Hugging Face folder with tokenizer files")
    try:
        # Without being told that a folder's own code is not to be run, transformers asks on the terminal.
        return transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
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


def read_documents(options, tokens):
    """Returns the documents of every record, and shows the first."""
    from athanor_common.progress import Progress
    from .records import read_records, size_of
    from .report import show_sample
    of_records, shown, passed_by = [], False, collections.Counter()
    with Progress("tokenizing", sum(map(size_of, options.data)), options.quiet) as progress:
        for record in read_records(options.data, progress.update, passed_by):
            of_records.append(tokens.documents(record))
            if of_records[-1] and not shown:
                show_sample(tokens.tokenizer, of_records[-1][0])
                shown = True
    if passed_by:
        keys = ", ".join(f"{key!r} (of {count})" for key, count in passed_by.most_common(12))
        sys.stderr.write(f"athanor tokenize: note: keys of records that are not used: {keys}\n")
    return of_records


def split(of_records, share, seed):
    """Returns the records of each part by name; "" is training. The share is exact, to one record."""
    if share == 0:
        return {"": of_records}
    held = set(random.Random(seed).sample(range(len(of_records)), max(1, round(share * len(of_records)))))
    return {VALIDATION: [documents for i, documents in enumerate(of_records) if i in held],
            "": [documents for i, documents in enumerate(of_records) if i not in held]}


def write_part(options, tokens, vocabulary, name, of_records):
    from .packing import best_fit_decreasing, fit_to
    from .token_folder import write_folder
    fitted = fit_to(itertools.chain.from_iterable(of_records), options.seq)
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
    return counts | {"records": len(of_records), "without_answer": sum(not documents for documents in of_records),
                     "truncated": fitted.truncated, "dropped": fitted.dropped}


def run(words):
    options = arguments.parse(words)
    require_packages()
    from . import image_folder
    config = image_folder.config_of(options.model)
    arguments.settle(options, of_images=config is not None)
    if config is not None:
        return image_folder.run(options, config, split)
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
    of_records = read_documents(options, tokens)
    if not of_records:
        raise InputError("--data", "holds no record, so there is no token to learn", "Give files with records")
    for option, purpose in tokens.idle_options():
        sys.stderr.write(f"athanor tokenize: note: {option} has no effect here: it is for {purpose}\n")
    # The training part is the last: its index completes the folder.
    counts = {name or "training": write_part(options, tokens, vocabulary, name, part)
              for name, part in split(of_records, options.val_share, options.seed).items()}
    print(json.dumps(counts) if options.json else "\n".join(table(name, of) for name, of in counts.items()))


def main(words):
    return run_verb("tokenize", run, words)
