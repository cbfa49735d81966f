# SPDX-License-Identifier: Apache-2.0
"""Tests the summary of lab/grid.py with planted answers: each broken promise is named, and nothing else is."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "lab"))

import grid  # noqa: E402

FIRST = grid.Setting("llama-3-8b", 4096, 1, 24, 126, 8)


def row(setting, **answer):
    return setting._asdict() | {"seconds": 1, "processor_seconds": 2} | answer


def plan(setting, step, utilization=0.7, limit="GPU", **other):
    return row(setting, step_seconds=step, utilization=utilization, limit=limit, plan=[1, setting.batch, 1], **other)


def summary(rows):
    """The summary's lists: their lines by title."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as printed:
        path = pathlib.Path(folder, "rows")
        path.write_text("\n".join(map(json.dumps, [{"schema": "athanor.grid/1"}, *rows])) + "\n")
        grid.show(path, None)
    lists, title = {}, None
    for line in printed.getvalue().splitlines():
        if line.startswith("  "):
            lists[title].append(line)
        elif ": " in line and not line.startswith("below half  "):
            title = line.split(":")[0]
            lists[title] = []
    return {title: lines for title, lines in lists.items() if lines}


class Summary(unittest.TestCase):
    def test_answers_that_keep_every_promise_are_not_named(self):
        larger = FIRST._replace(gpu_gib=40)
        rows = [plan(FIRST, 8), plan(larger, 7), plan(FIRST._replace(batch=32), 30),
                row(FIRST._replace(host_gib=62), refused="no plan fits. Proven: every plan needs more"),
                plan(FIRST._replace(sequence=32768), 9, 0.3, "sequence"), plan(FIRST._replace(gpus=2), 9, 0.3, "CPU")]
        self.assertEqual(summary(rows), {})

    def test_each_broken_promise_is_named(self):
        larger, batch = FIRST._replace(gpu_gib=40), FIRST._replace(batch=32)
        unproven = row(larger, refused="no plan fits. Not proven: no bound")
        for title, rows in (("slow searches", [plan(FIRST, 8, processor_seconds=41)]),
                            ("refusals without a proof", [unproven]),
                            ("more is worse", [plan(FIRST, 8), plan(larger, 9)]),
                            ("larger batches", [plan(FIRST, 8), plan(batch, 40)]),
                            ("below half", [plan(FIRST, 8, 0.4, "copies")])):
            self.assertEqual(list(summary(rows)), [title])
        self.assertEqual(set(summary([plan(FIRST, 8), unproven])), {"refusals without a proof", "more is worse"})

    def test_the_grid_has_every_combination_once(self):
        settings = list(grid.settings())
        self.assertEqual(len(set(settings)), len(settings))
        self.assertTrue(all(grid.profile_path(setting).exists() for setting in settings))
        self.assertTrue(all((grid.ROOT / path).exists() for path in grid.PLATFORMS.values()))


if __name__ == "__main__":
    unittest.main()
