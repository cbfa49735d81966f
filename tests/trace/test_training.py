# SPDX-License-Identifier: Apache-2.0
"""Models that athanor has no units of its own for, from a Hugging Face folder to a trained one.

usage: test_training.py ATHANOR PLATFORM

Exits with 77 (skipped) where transformers is absent."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

if not all(map(importlib.util.find_spec, ("transformers", "safetensors", "torch", "numpy"))):
    print("skipped: transformers is absent")
    sys.exit(77)

import numpy
import small_models as small
import torch
import transformers

ATHANOR, PLATFORM = sys.argv[1:3]
BATCH, STEPS = 4, 3
transformers.logging.set_verbosity_error()


class Training(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        tokens = numpy.random.default_rng(0).integers(0, small.VOCABULARY, 4096).astype(numpy.uint16)
        tokens.tofile(self.folder / "tokens.bin")
        self.tokens = torch.from_numpy(tokens.astype(numpy.int64))

    def athanor(self, *words, code=0):
        done = subprocess.run([ATHANOR, *map(str, words)], cwd=self.folder, capture_output=True, text=True,
                              env=os.environ | {"ATHANOR_PYTHON": sys.executable})
        self.assertEqual(done.returncode, code, f"{words}: {done.stderr}")
        return done.stderr

    def prepare(self, kind):
        model = small.make_model(kind)
        model.save_pretrained(self.folder / "source")
        self.athanor("trace", "--model", "source", "-o", "traced", "--seq", small.SEQUENCE)
        self.athanor("profile", "--backend", "cpu", "--model", "traced", "--seq", small.SEQUENCE, "--micro-batches",
                     1, "--compute-threads", 1, "-o", "profile.json")
        return model

    def train(self, name, *tune, gpus=1):
        """Tunes, trains, and returns the losses of the steps."""
        self.athanor("tune", "--profile", "profile.json", "--platform", PLATFORM, "--gpus", gpus, "--global-batch",
                     BATCH, *tune, "-o", f"{name}.json")
        self.athanor("train", "--plan", f"{name}.json", "--backend", "cpu", "--gpus", gpus, "--model", "traced",
                     "--data", "tokens.bin", "--steps", STEPS, "--lr", 1e-3, "-o", name, "--export", f"{name}-model")
        lines = map(json.loads, (self.folder / name / "metrics.jsonl").read_text().splitlines())
        return [line["loss_metrics/global_avg_loss"] for line in lines]

    def first_loss(self, model):
        """Returns transformers' loss of the first step."""
        windows = [self.tokens[i * small.SEQUENCE:(i + 1) * small.SEQUENCE + 1] for i in range(BATCH)]
        batch = torch.stack(windows)
        with torch.no_grad():
            logits = model(input_ids=batch[:, :-1]).logits.float()
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten()).item()

    def weights(self, folder):
        model = transformers.AutoModelForCausalLM.from_pretrained(self.folder / folder, torch_dtype=torch.float32)
        return dict(model.named_parameters())

    def check(self, kind):
        model = self.prepare(kind)
        losses = self.train("roomy")
        self.assertAlmostEqual(losses[0], self.first_loss(model), places=5)
        # Little memory: state and parameters are fetched from the host.
        tight = self.train("tight", "--gpu-memory", "1MiB")
        self.assertEqual(losses, tight)
        trained, again = self.weights("roomy-model"), self.weights("tight-model")
        for name, weight in trained.items():
            self.assertTrue(torch.equal(weight, again[name]), name)
            self.assertFalse(torch.equal(weight, model.get_parameter(name)), name)
        shared = self.train("shared", gpus=2)
        self.assertAlmostEqual(shared[0], losses[0], places=5)

    def test_cohere2(self):
        self.check("cohere2")

    def test_olmo3(self):
        self.check("olmo3")

    def test_bert_as_a_decoder(self):
        self.check("bert")

    def test_what_a_traced_model_cannot_do_is_named(self):
        self.prepare("phi3")
        self.athanor("tune", "--profile", "profile.json", "--platform", PLATFORM, "--gpus", 1, "--global-batch", BATCH,
                     "-o", "plan.json")
        train = ["train", "--plan", "plan.json", "--backend", "cpu", "--data", "tokens.bin", "--steps", 1, "-o", "run"]
        self.assertIn("fresh weights", self.athanor(*train, "--model", "traced", "--fresh", code=2))
        self.assertIn("athanor trace", self.athanor(*train, "--model", "source", code=2))
        profile = ["profile", "--backend", "cpu", "--model", "traced", "-o", "other.json"]
        self.assertIn("was traced for 16", self.athanor(*profile, "--seq", 32, code=2))
        (self.folder / "traced" / "units" / "block.0.float32.pt").write_bytes(b"no graph")
        self.assertIn("block.0.float32.pt", self.athanor(*profile, "--seq", small.SEQUENCE, code=2))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
