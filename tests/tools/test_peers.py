# SPDX-License-Identifier: Apache-2.0
"""Tests the page of lab/peers.py with planted measurements, and that nothing is predicted after it was measured."""

import argparse
import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "lab"))

import peers  # noqa: E402

CONFIG = {"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "super_offload": True,
                                                                  "cpuadam_cores_perc": 0.75, "ratio": 0.5}}}


def setting(mode, sequences, predicted=None, **other):
    entry = {"model": "gpt2-4b", "mode": mode, "sequences": sequences, "micro_batch": sequences, "blocks_kept": 2}
    return entry | ({"predicted": {"step_seconds": predicted}} if predicted else {}) | other


def line(mode, sequences, step=None, **other):
    entry = {"model": "gpt2-4b", "mode": mode, **({"sequences": sequences} if sequences else {})}
    return entry | ({"step": step, "tokens_per_second": 100, "gpu_gib": 7.2} if step else {}) | other


def document(*settings):
    return {"schema": "athanor.peers/1", "page": {"title": "# Title", "text": ["Text."], "modes": {"zero2": "ZeRO-2"}},
            "settings": list(settings)}


class Page(unittest.TestCase):
    def page_of(self, peers_file, *lines):
        peers.add_measured(peers_file, list(lines))
        return peers.page(peers_file)

    def test_rows_are_sorted_by_step_with_errors_of_predictions(self):
        page = self.page_of(document(setting("zero2", 8, 1.1), setting("zero3", 8, 1.0)), line("zero3", 8, 1.0),
                            line("zero2", 8, 1.25), line("athanor", 8, 0.5, predicted_step=0.51))
        rows = [row.split("|")[1:-1] for row in page.splitlines() if row.startswith("| ") and " s |" in row]
        self.assertEqual([[cell.strip() for cell in row][::2] for row in rows],
                         [["athanor", "0.50 s", "", "", "+2 %"], ["zero3", "1.00 s", "2.00 x as fast", "", "+0 %"],
                          ["zero2", "1.25 s", "2.50 x as fast", "", "-12 %"]])

    def test_what_a_system_said_is_shown_and_does_not_replace_a_figure(self):
        file = document(setting("zero2", 8), setting("zero2", 32))
        page = self.page_of(file, line("zero2", 8, 2.0), line("zero2", None, failed="needs\n99 GiB"))
        self.assertIn("- gpt2-4b, zero2, 32 sequences: needs 99 GiB", page)
        self.assertNotIn("8 sequences: needs", page)

    def test_a_figure_replaces_a_failure(self):
        page = self.page_of(document(setting("zero2", 8)), line("zero2", None, failed="stopped"), line("zero2", 8, 2.0))
        self.assertNotIn("stopped", page)
        self.assertIn("2.00 s", page)

    def test_a_large_error_needs_a_reason(self):
        with self.assertRaisesRegex(peers.BadInput, r"zero2, 8 sequences: predicted -20 % off"):
            self.page_of(document(setting("zero2", 8, 0.8)), line("zero2", 8, 1.0))
        page = self.page_of(document(setting("zero2", 8, 0.8, why="It copies twice.")), line("zero2", 8, 1.0))
        self.assertIn("- gpt2-4b, zero2, 8 sequences, -20 %: It copies twice.", page)

    def test_a_measurement_without_a_setting_is_refused(self):
        with self.assertRaisesRegex(peers.BadInput, "no setting is gpt2-4b, zero1"):
            self.page_of(document(setting("zero2", 8)), line("zero1", 8, 1.0))

    def test_before_anything_is_measured_predictions_are_listed(self):
        page = self.page_of(document(setting("zero2", 8, 1.5), setting("other", 8, not_predicted="no policy")))
        self.assertIn("| zero2 | 8 | 1.50 s |", page)
        self.assertIn("| other | 8 | no policy |", page)


class Prediction(unittest.TestCase):
    def test_super_offload_is_taken_out_of_the_configuration_alone(self):
        config, is_super = peers.modelled(CONFIG)
        self.assertTrue(is_super)
        self.assertEqual(config["zero_optimization"]["offload_optimizer"], {"device": "cpu", "ratio": 0.5})
        self.assertIn("super_offload", CONFIG["zero_optimization"]["offload_optimizer"])

    def test_the_last_blocks_keep_and_super_offload_overlaps(self):
        plan = {"units": [{"activation": "keep"}, *({"activation": "recompute"} for _ in range(4)), {}],
                "schedule": {"optimizer": "after-backward"}, "cpu_adam_threads": 16}
        changed = peers.changed_plan(plan, setting("super", 8, adam_threads=12), True)
        self.assertEqual([u.get("activation") for u in changed["units"]],
                         ["keep", "recompute", "recompute", "keep", "keep", None])
        self.assertEqual((changed["schedule"]["optimizer"], changed["cpu_adam_threads"]), ("overlapped", 12))

    def test_nothing_is_predicted_after_it_was_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "peers.json")
            path.write_text(json.dumps(document(setting("zero2", 8, measured={"step": 1.0}))))
            with self.assertRaisesRegex(peers.BadInput, "was measured"):
                peers.predict_all(argparse.Namespace(file=path, athanor="none"))


if __name__ == "__main__":
    unittest.main()
