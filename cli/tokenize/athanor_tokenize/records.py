# SPDX-License-Identifier: Apache-2.0
"""Records of JSONL and parquet files, in the shapes that people have."""

import dataclasses
import json
import pathlib

from athanor_common.errors import InputError, MissingPackage

SHAPES = ("Use records with messages, conversations, prompt and completion, instruction and output, or text")
ARRAY = "Give JSONL, one object a line; of an array, jq makes it: jq -c '.[]' FILE > FILE.jsonl"
ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "model": "assistant",
         "chatgpt": "assistant", "bing": "assistant", "bard": "assistant", "system": "system", "tool": "tool",
         "developer": "developer", "function_call": "assistant", "observation": "tool", "function_response": "tool"}


@dataclasses.dataclass
class Conversation:
    """Messages of a chat template, each a dict with role and content."""

    where: str
    messages: list
    tools: list | None = None
    unlearnt: frozenset = frozenset()  # places of the assistant's messages that are not to be learnt


@dataclasses.dataclass
class Completion:
    """A prompt and its completion as plain text."""

    where: str
    prompt: str
    completion: str


@dataclasses.dataclass
class Text:
    """A document whose every token is learnt."""

    where: str
    text: str


def unheard(_):
    """What is told where nobody wants to know."""


def json_lines(path, told=unheard):
    with open(path, encoding="utf-8-sig") as file:
        try:
            for number, line in enumerate(file, 1):
                if number % 64 == 0:
                    told(file.buffer.tell())
                if line.strip():
                    yield f"{path}:{number}", parse_line(f"{path}:{number}", line)
        except UnicodeDecodeError as error:
            raise InputError(path, f"is not UTF-8 text ({error.reason} at byte {error.start} of a block)",
                             "Give JSONL, one object a line, or parquet") from None


def parse_line(where, line):
    try:
        return json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        hint = ARRAY if line.lstrip().startswith("[") else "Give JSONL, one object a line"
        raise InputError(where, f"is no JSON object: {error}", hint) from None


def parquet_rows(path, told=unheard):
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingPackage("pyarrow") from None
    try:
        file = pyarrow.parquet.ParquetFile(path)
        number, size = 0, size_of(path)
        for batch in file.iter_batches(batch_size=1024):
            for row in batch.to_pylist():
                number += 1
                told(size * number / file.metadata.num_rows)
                yield f"{path}: row {number}", row
    except pyarrow.ArrowException as error:
        raise InputError(path, f"is no parquet file that can be read: {error}", "Write it again") from None


def size_of(path):
    """The bytes of a file, or 0 for one that reading will refuse."""
    return pathlib.Path(path).stat().st_size if pathlib.Path(path).is_file() else 0


def read_file(path, told=unheard):
    """Yields (where, raw record) of one file, and tells how many bytes are read. Parquet is recognised by its first
    bytes, all else is JSONL."""
    if pathlib.Path(path).is_dir():
        raise InputError(path, "is a folder, and the model reads text", "Give files. Folders of images are for models "
                         "whose class ends in ForImageClassification")
    if not pathlib.Path(path).is_file():
        raise InputError(path, "is no regular file that can be read", "Check the path")
    with open(path, "rb") as file:
        start = file.read(4)
    for magic, program, unpack in ((b"\x1f\x8b", "gzip", "gunzip"), (b"\x28\xb5\x2f\xfd", "zstd", "unzstd")):
        if start.startswith(magic):
            raise InputError(path, f"is compressed with {program}", f"Unpack it first: {unpack} {path}")
    yield from parquet_rows(path, told) if start == b"PAR1" else json_lines(path, told)


# What says of a message or a record whether it is learnt: OpenAI's, axolotl's, ms-swift's and others' keys.
LEARNT = ("weight", "train", "training", "loss", "loss_mask")
WANTED = ("weight", "train")  # of a record; the others may say anything there


def is_learnt(where, of, keys):
    """Returns what a message or record says of itself, and nothing where it says nothing."""
    said = {key: of[key] for key in keys if of.get(key) is not None}
    for key, value in said.items():
        if value not in (0, 1):  # True and False are 1 and 0
            raise InputError(f"{where}.{key}", f"is {value!r}, and text is learnt or not", "Use 0 or 1, or remove the key")
    if len(set(map(bool, said.values()))) > 1:
        raise InputError(where, f"{' and '.join(said)} contradict each other", "Keep one of them")
    return bool(next(iter(said.values()))) if said else None


def require_wanted(where, record):
    """Refuses records that say of themselves that they are not to be learnt."""
    undesired = "label" if record.get("label") is False else None  # as KTO marks answers
    if is_learnt(where, record, WANTED) is False:
        undesired = next(key for key in WANTED if record.get(key) is not None)
    if undesired:
        raise InputError(f"{where}:{undesired}", f"is {record[undesired]!r}: the record is not to be learnt",
                         "Leave such records out, or remove the key to learn them")


def text_of(where, record, key):
    value = record.get(key)
    if not isinstance(value, str):
        raise InputError(f"{where}:{key}", f"is {type(value).__name__}, expected text", SHAPES)
    return value


def message_of(where, message):
    """Returns a message with role and content, from the form of ShareGPT as well."""
    if not isinstance(message, dict):
        raise InputError(where, f"is {type(message).__name__}, expected an object", SHAPES)
    role = message.get("role", message.get("from"))
    if role not in ROLES:
        raise InputError(f"{where}.role", f"unknown role {role!r}", f"Use one of {', '.join(sorted(ROLES))}")
    content = message.get("content", message.get("value"))
    if message.get("function_call") is not None:
        raise InputError(f"{where}.function_call", "is the older form of a call, which templates pass by",
                         "Use tool_calls: [{\"type\": \"function\", \"function\": ..}]")
    if content is None and not message.get("tool_calls"):
        raise InputError(f"{where}.content", "is missing", "Give the text of every message")
    # Parquet fills the keys that other rows have with nulls, which templates would take for values.
    passed_by = ("from", "value", *LEARNT)
    rest = {key: value for key, value in message.items() if value is not None and key not in passed_by}
    content = content_of(f"{where}.content", content, ROLES[role])
    return rest | {"role": ROLES[role], "content": content}


def content_of(where, content, role):
    """Returns the text of a message. Many templates would print a list of parts as Python does, brackets and all."""
    if content is None:
        return ""
    if isinstance(content, str) or role == "tool":  # what a tool returns may be any JSON
        return content
    if not isinstance(content, list):
        raise InputError(where, f"is {type(content).__name__}, expected text", SHAPES)
    for i, part in enumerate(content):
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            kind = part.get("type") if isinstance(part, dict) else type(part).__name__
            raise InputError(f"{where}[{i}]", f"is a part of type {kind!r}, and only text can be learnt",
                             "Leave out records with images or sound")
    return "".join(part["text"] for part in content)


def unlearnt(where, messages, roles):
    """Returns the places of the assistant's messages that say that they are not to be learnt."""
    places = set()
    for i, (message, role) in enumerate(zip(messages, roles)):
        said = is_learnt(f"{where}[{i}]", message, LEARNT)
        if said and role != "assistant":
            raise InputError(f"{where}[{i}]", f"asks to learn a turn of the {role}, and only the assistant's are learnt",
                             "Remove the key, or learn every token with --train-on-prompt")
        if said is False and role == "assistant":
            places.add(i)
    return places


def conversation(where, record, key, messages):
    if not isinstance(messages, list) or not messages:
        raise InputError(f"{where}:{key}", "is no list of messages", SHAPES)
    read = [message_of(f"{where}:{key}[{i}]", message) for i, message in enumerate(messages)]
    skipped = unlearnt(f"{where}:{key}", messages, [message["role"] for message in read])
    tools = record.get("tools")
    if isinstance(tools, str):
        tools = parse_line(f"{where}:tools", tools)
    if record.get("system") and read[0]["role"] != "system":
        read.insert(0, {"role": "system", "content": text_of(where, record, "system")})
        skipped = {place + 1 for place in skipped}
    return Conversation(where, read, tools or None, frozenset(skipped))


def earlier_turns(where, record):
    """Returns the messages of Alpaca's history: pairs of what was asked and answered before."""
    turns = []
    for i, pair in enumerate(record.get("history") or []):
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise InputError(f"{where}:history[{i}]", "is no pair of texts", "Give [question, answer]")
        turns += [{"role": "user", "content": pair[0]}, {"role": "assistant", "content": pair[1]}]
    return turns


def instruction(where, record):
    """The form of Alpaca: instruction, perhaps input, and output."""
    asked = text_of(where, record, "instruction")
    if record.get("input"):
        asked += "\n\n" + text_of(where, record, "input")
    answer = {"role": "assistant", "content": text_of(where, record, "output")}
    lead = [{"role": "system", "content": record["system"]}] if record.get("system") else []
    return Conversation(where, [*lead, *earlier_turns(where, record), {"role": "user", "content": asked}, answer])


USED = {"messages": {"tools", "system"}, "conversations": {"tools", "system"}, "prompt": {"completion", "tools", "system"},
        "instruction": {"input", "output", "system", "history"}, "text": set()}


def keys_passed_by(record):
    """Returns the keys of a record whose values are not used; of a record that is read."""
    shape = next((key for key in USED if record.get(key) is not None), None)
    if shape == "prompt" and record.get("completion") is None:
        shape = next(key for key in ("instruction", "text") if record.get(key) is not None)
    used = {shape, *USED[shape], *WANTED}
    return [key for key, value in record.items() if value is not None and key not in used]


def recognised(where, record):
    """Returns the raw record as a Conversation, Completion or Text."""
    if not isinstance(record, dict):
        raise InputError(where, f"is {type(record).__name__}, expected an object",
                         ARRAY if isinstance(record, list) else SHAPES)
    require_wanted(where, record)
    for key in ("messages", "conversations"):
        if record.get(key) is not None:
            return conversation(where, record, key, record[key])
    if record.get("prompt") is not None and record.get("completion") is not None:
        if isinstance(record["prompt"], list) and isinstance(record["completion"], list):
            return conversation(where, record, "prompt", record["prompt"] + record["completion"])
        return Completion(where, text_of(where, record, "prompt"), text_of(where, record, "completion"))
    if record.get("instruction") is not None:
        return instruction(where, record)
    if record.get("text") is not None:
        return Text(where, text_of(where, record, "text"))
    raise InputError(where, f"has none of the known keys, but {', '.join(map(str, record)) or 'nothing'}", SHAPES)


def read_records(paths, told=unheard, passed_by=None):
    """Yields the records of all files, and tells how many bytes of them are read. `passed_by` counts the records that
    have each key which is not used."""
    before = 0
    for path in paths:
        for where, record in read_file(path, lambda done, before=before: told(before + done)):
            yield recognised(where, record)
            if passed_by is not None:
                passed_by.update(keys_passed_by(record))
        before += size_of(path)
