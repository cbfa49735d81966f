# SPDX-License-Identifier: Apache-2.0
"""Shows what was made: the first document with its mask, and the counts."""

import os
import sys

LEARNT, PLAIN = "\033[32m", "\033[0m"
SHOWN_TOKENS = 400


def colour_wanted(stream):
    return stream.isatty() and not os.environ.get("NO_COLOR")


def runs(document):
    """Yields (learnt, ids) of consecutive tokens that are alike."""
    begin, learnt = 0, document.learnt[:SHOWN_TOKENS]
    for end in range(1, len(learnt) + 1):
        if end == len(learnt) or learnt[end] != learnt[begin]:
            yield learnt[begin], document.ids[begin:end]
            begin = end


def sample(tokenizer, document, colour):
    """Returns the text of a document. Learnt text is green, or between [[ and ]] without colours."""
    opening, closing = (LEARNT, PLAIN) if colour else ("[[", "]]")
    text = "".join(f"{opening}{part}{closing}" if learnt else part for learnt, part in
                   ((learnt, tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))
                    for learnt, ids in runs(document)))
    return text + (" .." if len(document.ids) > SHOWN_TOKENS else "")


def show_sample(tokenizer, document, stream=sys.stderr):
    colour = colour_wanted(stream)
    how = "green" if colour else "between [[ and ]]"
    stream.write(f"The first document ({how}: what is learnt):\n{sample(tokenizer, document, colour)}\n\n")


def share(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "-"


def table(name, counts):
    room = counts["sequences"] * counts["sequence_length"]
    lines = [
        ("records", f"{counts['records']}, {counts['without_answer']} without an answer"),
        ("documents", f"{counts['documents']}, {counts['truncated']} truncated, {counts['dropped']} dropped"),
        ("tokens", f"{counts['tokens']}, {counts['loss_tokens']} learnt ({share(counts['loss_tokens'], counts['tokens'])}), "
                   f"{counts['tokens'] - counts['loss_tokens']} masked"),
        ("sequences", f"{counts['sequences']} of {counts['sequence_length']} ({share(counts['tokens'], room)} full)")]
    return "\n".join([name, *(f"  {key:<10} {value}" for key, value in lines)])
