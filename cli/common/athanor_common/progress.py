# SPDX-License-Identifier: Apache-2.0
"""How far long work is and how much time is left, on stderr, as progress_line.hpp does it: one line on a
terminal, rewritten ten times a second at most; elsewhere a line every half minute."""

import sys
import time

TOO_EARLY = 2  # seconds in which nothing is estimated
ON_TERMINAL, ELSEWHERE = 0.1, 30  # seconds between two lines


def time_left(seconds):
    """Writes a time as people say it."""
    seconds = -int(-seconds // 1)
    if seconds < 120:
        return f"{seconds} s left"
    minutes = (seconds + 30) // 60
    return f"{minutes} min left" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min left"


class Progress:
    """One stage of parts that take as long as each other. How many there are may be said later, by `update`."""

    def __init__(self, stage, total=0, quiet=False, stream=None, clock=time.monotonic):
        self.stage, self.total, self.clock = stage, total, clock
        self.stream = stream or sys.stderr
        self.is_shown = not quiet
        self.rewrites = self.stream.isatty()
        self.start = self.shown = clock()
        self.is_on_screen = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.is_on_screen:
            self.stream.write("\r\033[K")

    def update(self, done, total=None):
        now, self.total = self.clock(), self.total if total is None else total
        first = self.rewrites and not self.is_on_screen
        if not self.is_shown or not self.total or not first and now - self.shown < (ON_TERMINAL if self.rewrites else ELSEWHERE):
            return
        self.shown, self.is_on_screen = now, self.rewrites
        self.stream.write(f"\r\033[K{self.text(done, now)}" if self.rewrites else self.text(done, now) + "\n")
        self.stream.flush()

    def text(self, done, now):
        text = f"{self.stage} {int(100 * done / self.total)} %"
        passed = now - self.start
        return text if passed < TOO_EARLY or not done else f"{text}, {time_left((self.total - done) * passed / done)}"
