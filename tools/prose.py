#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the project's prose: comments start with the noun or verb of what they document, pages use short sentences.

usage: tools/prose.py FILE..

A comment that begins with a word such as "Of" or "What" is a genitive or a clause without its noun. Pages (*.md) must
average at most 20 words a sentence; tables, code blocks and headings do not count.
"""

import pathlib
import re
import sys

# How a comment must not begin: "/// Of the plan", "///< of a unit", "// The same for ..". In documentation no line may,
# so that a search for such beginnings finds beginnings alone.
DOC_FRAGMENT = re.compile(r"///<? (?:Of|of|The same|What|what)\b")
FRAGMENT = re.compile(r"//\s+(?:Of|of|The same|What|what)\b")
# A line that continues the plain comment above it may begin with any word.
COMMENT_LINE = re.compile(r"^\s*//")
MAX_WORDS = 20
CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
SENTENCE_END = re.compile(r"(?<=[a-z0-9)`'\"*\]%])[.!?](?=\s+|$)")


def comment_problems(path, text):
    before = ""
    for number, line in enumerate(text.splitlines(), 1):
        continues = COMMENT_LINE.match(line) and COMMENT_LINE.match(before)
        if DOC_FRAGMENT.search(line) or (FRAGMENT.search(line) and not continues):
            yield f"{path}:{number}: start the comment with its noun or verb: {line.strip()[:60]}"
        before = line


def paragraphs(text):
    """Running text: without code, tables, headings and links' targets; a list item is a paragraph."""
    text = LINK.sub(r"\1", CODE_BLOCK.sub("", text))
    kept = []
    for line in text.splitlines():
        bare = line.strip()
        if not bare or bare.startswith(("|", "#", "<", "```")):
            kept.append("")
        elif re.match(r"(?:[-*]|\d+\.)\s", bare):
            kept += ["", re.sub(r"^(?:[-*]|\d+\.)\s+", "", bare)]
        else:
            kept.append(bare)
    return [" ".join(block.split()) for block in "\n".join(kept).split("\n\n") if block.strip()]


def sentences(text):
    for paragraph in paragraphs(text):
        yield from (s for s in SENTENCE_END.split(paragraph) if len(s.split()) > 1)


def page_problems(path, text):
    lengths = [len(sentence.split()) for sentence in sentences(text)]
    if lengths and sum(lengths) / len(lengths) > MAX_WORDS:
        longest = max(sentences(text), key=lambda s: len(s.split()))
        yield (f"{path}: {sum(lengths) / len(lengths):.1f} words a sentence; a page averages at most {MAX_WORDS}. "
               f"The longest: {longest[:80]}")


def main():
    found = []
    for path in sys.argv[1:]:
        text = pathlib.Path(path).read_text()
        found += page_problems(path, text) if path.endswith(".md") else comment_problems(path, text)
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
