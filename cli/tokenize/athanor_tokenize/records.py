# SPDX-License-Identifier: Apache-2.0
"""Records of JSONL and parquet files, in the shapes that people have."""

import dataclasses
import json
import pathlib

from athanor_common.errors import InputError, MissingPackage

SHAPES = ("Use records with messages, conversations, prompt and completion, instruction and output, or text")
ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "model": "assistant",
         "chatgpt": "assistant", "bing": "assistant", "bard": "assistant", "system": "system", "tool": "tool",
         "developer": "developer", "function_call": "assistant", "observation": "tool", "function_response": "tool"}


@dataclasses.dataclass
class Conversation:
    """Messages of a chat template, each a dict with role and content."""

    where: str
    messages: list
    tools: list | None = None


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
        raise InputError(where, f"is no JSON object: {error}", "Give JSONL, one object a line") from None


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
    if start[:2] == b"\x1f\x8b":
        raise InputError(path, "is compressed with gzip", f"Unpack it first: gunzip {path}")
    yield from parquet_rows(path, told) if start == b"PAR1" else json_lines(path, told)


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
    if content is None and not message.get("tool_calls"):
        raise InputError(f"{where}.content", "is missing", "Give the text of every message")
    # Parquet fills the keys that other rows have with nulls, which templates would take for values.
    rest = {key: value for key, value in message.items() if value is not None and key not in ("from", "value")}
    return rest | {"role": ROLES[role], "content": "" if content is None else content}


def conversation(where, record, key, messages):
    if not isinstance(messages, list) or not messages:
        raise InputError(f"{where}:{key}", "is no list of messages", SHAPES)
    read = [message_of(f"{where}:{key}[{i}]", message) for i, message in enumerate(messages)]
    tools = record.get("tools")
    if isinstance(tools, str):
        tools = parse_line(f"{where}:tools", tools)
    if key == "conversations" and isinstance(record.get("system"), str) and read[0]["role"] != "system":
        read.insert(0, {"role": "system", "content": record["system"]})
    return Conversation(where, read, tools or None)


def instruction(where, record):
    """The form of Alpaca: instruction, perhaps input, and output."""
    asked = text_of(where, record, "instruction")
    if record.get("input"):
        asked += "\n\n" + text_of(where, record, "input")
    answer = {"role": "assistant", "content": text_of(where, record, "output")}
    lead = [{"role": "system", "content": record["system"]}] if record.get("system") else []
    return Conversation(where, [*lead, {"role": "user", "content": asked}, answer])


def recognised(where, record):
    """Returns the raw record as a Conversation, Completion or Text."""
    if not isinstance(record, dict):
        raise InputError(where, f"is {type(record).__name__}, expected an object", SHAPES)
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


def read_records(paths, told=unheard):
    """Yields the records of all files, and tells how many bytes of them are read."""
    before = 0
    for path in paths:
        for where, record in read_file(path, lambda done, before=before: told(before + done)):
            yield recognised(where, record)
        before += size_of(path)
