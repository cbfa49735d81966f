# SPDX-License-Identifier: Apache-2.0
"""Packs documents into sequences of one length: best fit, the longest first."""

import bisect
import collections
import dataclasses


@dataclasses.dataclass
class Fitted:
    documents: list
    truncated: int = 0
    dropped: int = 0


def has_target(learnt):
    """Whether training learns something: a document's first token has nothing before it that predicts it."""
    return any(learnt[1:])


def fit_to(documents, length):
    """Cuts documents to `length` tokens and drops those without a token to learn.

    Plain text goes on in the next piece. A conversation loses its end, because the rest would lack what it answers.
    """
    fitted = Fitted([])
    for document in documents:
        ends = range(0, len(document.ids), length) if document.cut_at_will else [0]
        fitted.truncated += not document.cut_at_will and len(document.ids) > length
        for begin in ends:
            ids, learnt = document.ids[begin:begin + length], document.learnt[begin:begin + length]
            if has_target(learnt):
                fitted.documents.append((ids, learnt))
            elif begin == 0:
                fitted.dropped += 1
    return fitted


def best_fit_decreasing(lengths, capacity):
    """Returns lists of indices whose lengths add up to `capacity` at most. Equal input gives equal output."""
    bins, by_room, rooms = [], collections.defaultdict(list), []
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        at = bisect.bisect_left(rooms, lengths[index])
        if at == len(rooms):
            bins.append([index])
            place, room = len(bins) - 1, capacity
        else:
            room = rooms[at]
            place = by_room[room].pop()
            if not by_room[room]:
                rooms.pop(at)
            bins[place].append(index)
        left = room - lengths[index]
        if left > 0:
            if not by_room[left]:
                bisect.insort(rooms, left)
            by_room[left].append(place)
    return bins
