# SPDX-License-Identifier: Apache-2.0
"""The whole way from a folder of pictures to a trained classifier that transformers loads.

usage: test_training.py ATHANOR PLATFORM

Exits with 77 (skipped) where transformers or Pillow is absent."""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

if not all(map(importlib.util.find_spec, ("transformers", "safetensors", "torch", "numpy", "PIL"))):
    print("skipped: transformers or Pillow is absent")
    sys.exit(77)

import numpy
import small_classifiers as small
import torch
import transformers
from safetensors.torch import load_file, save_file

ATHANOR, PLATFORM = sys.argv[1:3]
BATCH, STEPS, OF_CLASS = 6, 4, 11
transformers.logging.set_verbosity_error()


def metrics_of(run, key):
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return {line["step"]: line[key] for line in lines if key in line}


class Case(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        small.write_pictures(self.folder / "pictures", OF_CLASS)

    def athanor(self, *words, code=0):
        done = subprocess.run([ATHANOR, *map(str, words)], cwd=self.folder, capture_output=True, text=True,
                              env=os.environ | {"ATHANOR_PYTHON": sys.executable})
        self.assertEqual(done.returncode, code, f"{words}: {done.stderr}")
        return done.stderr

    def prepare(self, kind):
        """Writes a model, its data with a held-out part, and its profile."""
        torch.manual_seed(2)
        config = small.CONFIGS[kind]
        model = transformers.AutoModelForImageClassification.from_config(config, attn_implementation="eager").eval()
        model.save_pretrained(self.folder / "model")
        small.write_processor(self.folder / "model")
        self.athanor("tokenize", "--model", "model", "--data", "pictures", "-o", "images", "--val-share", 0.25)
        self.athanor("profile", "--backend", "cpu", "--model", "model", "--micro-batches", "1,3", "--compute-threads",
                     1, "-o", "profile.json")
        return model

    def tune(self, name, *words, gpus=1, batch=BATCH):
        self.athanor("tune", "--profile", "profile.json", "--platform", PLATFORM, "--gpus", gpus, "--global-batch",
                     batch, *words, "-o", f"{name}.json")

    def train(self, name, *words, plan=None, gpus=1, steps=STEPS, rate=1e-2):
        """Trains and returns the losses of the steps."""
        self.athanor("train", "--plan", f"{plan or name}.json", "--backend", "cpu", "--gpus", gpus, "--model", "model",
                     "--data", "images", "--steps", steps, "--lr", rate, "--schedule", "constant", "-o", name,
                     "--export", f"{name}-model", *words)
        return metrics_of(self.folder / name, "loss_metrics/global_avg_loss")

    def samples(self, folder):
        """Returns pixels, normalised by hand, and labels in the order of the folder."""
        index = json.loads((self.folder / folder / "index.json").read_text())
        shards = [load_file(self.folder / folder / shard["file"]) for shard in index["shards"]]
        pixels = torch.cat([shard["pixels"] for shard in shards]).float() * index["scale"]
        mean, std = (torch.tensor(index[key]).view(1, -1, 1, 1) for key in ("mean", "std"))
        return (pixels - mean) / std, torch.cat([shard["labels"] for shard in shards])

    def loss_in_transformers(self, model, folder, count=None):
        pixels, labels = (values[:count] for values in self.samples(folder))
        with torch.no_grad():
            return model(pixel_values=pixels, labels=labels).loss.item()

    def load(self, folder):
        loaded, info = transformers.AutoModelForImageClassification.from_pretrained(
            self.folder / folder, attn_implementation="eager", output_loading_info=True)
        self.assertFalse(any(map(len, info.values())), info)
        return loaded.eval()


class Training(Case):
    def check(self, kind):
        model = self.prepare(kind)
        self.tune("roomy")
        losses = self.train("roomy")
        self.assertAlmostEqual(losses[1], self.loss_in_transformers(model, "images", BATCH), places=5)
        # Little memory: state and parameters are fetched from the host, and layers are computed again.
        self.tune("tight", "--gpu-memory", "200KiB", "--micro-batch", 1)
        self.tune("single", "--micro-batch", 1)
        plans = [json.loads((self.folder / f"{name}.json").read_text()) for name in ("tight", "single")]
        self.assertNotEqual(plans[0]["units"], plans[1]["units"])
        tight, single = self.train("tight"), self.train("single")
        self.assertEqual(tight, single)
        weights = [self.load(f"{name}-model").state_dict() for name in ("tight", "single")]
        before = model.state_dict()
        for name, weight in weights[0].items():
            self.assertTrue(torch.equal(weight, weights[1][name]), name)
            self.assertEqual(torch.equal(weight, before[name]), name.endswith("mask_token"), name)

    def test_vit(self):
        self.check("vit")

    def test_dinov2(self):
        self.check("dinov2")

    def test_two_processes_evaluate_as_transformers_does(self):
        for kind in ("vit", "dinov2, gated"):
            with self.subTest(kind):
                shutil.rmtree(self.folder / "images", ignore_errors=True)
                model = self.prepare(kind)
                name = kind.split(",")[0]
                self.tune(name, gpus=2)
                losses = self.train(name, "--eval-data", "images/validation", gpus=2, steps=12)
                self.assertAlmostEqual(losses[1], self.loss_in_transformers(model, "images", BATCH), places=5)
                self.assertLess(losses[12], losses[1])
                evaluated = metrics_of(self.folder / name, "validation_metrics/global_avg_loss")[12]
                theirs = self.loss_in_transformers(self.load(f"{name}-model"), "images/validation")
                self.assertLess(abs(evaluated - theirs), 1e-4 * theirs)
                held = metrics_of(self.folder / name, "validation_metrics/num_targets")[12]
                self.assertEqual(held, round(0.25 * OF_CLASS * len(small.LABELS)))
                exported = self.folder / f"{name}-model"
                self.assertEqual((exported / "preprocessor_config.json").read_bytes(),
                                 (self.folder / "model" / "preprocessor_config.json").read_bytes())
                config = [json.loads((path / "config.json").read_text()) for path in (exported, self.folder / "model")]
                self.assertEqual(config[0], config[1])

    def test_a_run_goes_on_where_it_stopped_and_in_the_same_order(self):
        self.prepare("vit")
        self.tune("plan")
        for order in ((), ("--shuffle",)):
            with self.subTest(order):
                name = "whole" + "".join(order)
                whole = self.train(name, *order, plan="plan", steps=10)  # more than two passes over 25 images
                self.train(f"{name}-cut", *order, plan="plan", steps=3)
                shutil.rmtree(self.folder / f"{name}-cut-model")
                again = self.train(f"{name}-cut", *order, "--resume", plan="plan", steps=10)
                self.assertEqual(whole, again)
        self.assertNotEqual(metrics_of(self.folder / "whole", "loss_metrics/global_avg_loss"), whole)

    def test_a_run_goes_on_at_the_next_image_with_another_global_batch(self):
        model = self.prepare("vit")
        self.tune("plan")
        self.tune("half", batch=BATCH // 2)
        self.train("run", plan="plan", steps=2, rate=0)
        shutil.rmtree(self.folder / "run-model")
        losses = self.train("run", "--resume", plan="half", steps=5, rate=0)
        pixels, labels = self.samples("images")
        for step in (3, 4, 5):
            begin = 2 * BATCH + (step - 3) * BATCH // 2
            members = slice(begin, begin + BATCH // 2)
            with torch.no_grad():
                theirs = model(pixel_values=pixels[members], labels=labels[members]).loss.item()
            self.assertAlmostEqual(losses[step], theirs, places=5)

    def test_fresh_weights_are_drawn_as_transformers_does(self):
        config = self.prepare("dinov2").config
        config.layerscale_value = 0.25
        config.save_pretrained(self.folder / "model")
        self.tune("plan")
        self.train("drawn", "--fresh", plan="plan", steps=1, rate=0)
        for name, weight in self.load("drawn-model").named_parameters():
            constant = 0.25 if "lambda1" in name else 1.0 if weight.dim() == 1 else None
            if name.endswith((".bias", "mask_token")):
                constant = 0.0
            if constant is None:
                deviation = weight.std().item() if weight.numel() > 1 else 0.02
                self.assertAlmostEqual(deviation, 0.02, delta=0.008, msg=name)
            else:
                self.assertTrue(torch.equal(weight, torch.full_like(weight, constant)), name)

    def test_fresh_weights_know_nothing(self):
        self.prepare("dinov2")
        self.tune("plan")
        losses = self.train("fresh", "--fresh", plan="plan")
        self.assertAlmostEqual(losses[1], numpy.log(3), delta=0.2)
        again = self.train("again", "--fresh", "--seed", 1, plan="plan")
        self.assertNotEqual(losses[1], again[1])


class Refusals(Case):
    def refuse(self, *parts, data="images", model="model", more=()):
        message = self.athanor("train", "--plan", "plan.json", "--backend", "cpu", "--model", model, "--data", data,
                               "--steps", 1, "-o", "run", *more, code=2)
        for part in parts:
            self.assertIn(part, message)

    def edit_index(self, folder, **changes):
        copy = self.folder / folder
        shutil.copytree(self.folder / "images", copy)
        index = json.loads((copy / "index.json").read_text()) | changes
        (copy / "index.json").write_text(json.dumps(index))
        return copy, index

    def write_shard(self, folder, tensors):
        """Replaces the only shard, with an index that agrees."""
        copy, index = self.edit_index(folder)
        path = copy / index["shards"][0]["file"]
        save_file(tensors, path)
        sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "cli" / folder) for folder in ("tokenize", "common")]
        from athanor_tokenize.token_folder import crc32_of
        index["shards"][0] |= {"bytes": path.stat().st_size, "crc32": crc32_of(path)}
        (copy / "index.json").write_text(json.dumps(index))

    def test_bad_input_of_each_kind_is_named(self):
        self.prepare("vit")
        self.tune("plan")
        self.edit_index("large", height=32, width=32)
        self.refuse("large/index.json:height", "32 x 32", "16 x 16", "--image-size 16", data="large")
        self.edit_index("more", labels=["a", "b", "c", "d"])
        self.refuse("more/index.json:labels", "names 4", "3", "num_labels=4", data="more")
        self.edit_index("grey", mean=[0.5])
        self.refuse("grey/index.json:mean", "1 numbers for 3 channels", "athanor tokenize", data="grey")
        self.edit_index("extra", colour="red")
        self.refuse("extra/index.json:colour", data="extra")
        copy, _ = self.edit_index("bare")
        (copy / "index.json").unlink()
        self.refuse("bare", "holds no index.json", "athanor tokenize", data="bare")
        (self.folder / "text.bin").write_bytes(bytes(1000))
        self.refuse("text.bin", "is not one folder of prepared images", "athanor tokenize", data="text.bin")
        self.refuse("pictures", "holds no index.json", "athanor tokenize", data="pictures")
        pixels, labels = numpy.zeros((25, 3, 16, 16), numpy.uint8), numpy.zeros(25, numpy.int64)
        labels[7] = 3
        shard = {"pixels": torch.from_numpy(pixels), "labels": torch.from_numpy(labels)}
        self.write_shard("beyond", shard)
        self.refuse(".safetensors:labels: image 7", "label 3 is none of the 3", data="beyond")
        self.write_shard("short", shard | {"labels": shard["labels"][:20]})
        self.refuse(".safetensors:labels", "is no I64 [25]", data="short")
        copy, index = self.edit_index("damaged")
        path = copy / index["shards"][0]["file"]
        path.write_bytes(path.read_bytes()[:-1] + b"\xff")
        self.refuse(path.name, "checksum", data="damaged")

    def test_data_of_the_other_kind_of_model_is_named(self):
        self.prepare("vit")
        self.tune("plan")
        tokens = self.folder / "tokens"
        tokens.mkdir()
        (tokens / "index.json").write_text('{"schema": "athanor.tokens/1"}')
        self.refuse("tokens/index.json:schema", "holds tokens", "classifies images", "--data IMAGES", data="tokens")
        config = transformers.GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=1, n_head=2)
        transformers.GPT2LMHeadModel(config).save_pretrained(self.folder / "words")
        self.athanor("profile", "--backend", "cpu", "--model", "words", "--seq", 16, "--micro-batches", 1, "-o",
                     "profile.json")
        self.tune("plan")
        self.refuse("images/index.json:schema", "holds images", "predicts tokens", model="words")

    def test_models_that_are_not_trained_are_named(self):
        config = small.CONFIGS["vit"]
        profile = ["profile", "--backend", "cpu", "-o", "other.json", "--model"]

        def refuse(changes, *parts, more=()):
            model = self.folder / "odd"
            model.mkdir(exist_ok=True)
            keys = config.to_dict() | {"architectures": ["ViTForImageClassification"]} | changes
            (model / "config.json").write_text(json.dumps(keys))
            message = self.athanor(*profile, "odd", *more, code=2)
            for part in parts:
                self.assertIn(part, message)

        refuse({"architectures": ["ViTModel"]}, "has no units", "num_labels=N", "AutoModelForImageClassification")
        refuse({"hidden_act": "tanh"}, "config.json:hidden_act", "'tanh'", "gelu")
        refuse({"problem_type": "regression"}, "config.json:problem_type", "single_label_classification")
        refuse({"id2label": {"0": "one"}}, "config.json:id2label", "num_labels=2")
        refuse({"num_attention_heads": 3}, "config.json:num_attention_heads")
        refuse({"quantization_config": {"bits": 4}}, "config.json:quantization_config")
        refuse({"layer_norm_eps": "small"}, "config.json:layer_norm_eps", "is no number")
        refuse({"image_size": 2}, "config.json:image_size", "smaller than a patch")
        refuse({}, "100 tokens, and an image of 16 x 16 pixels has 17", "--seq", more=("--seq", 100))

    def test_weights_of_another_classifier_are_named(self):
        model = self.prepare("vit")
        self.tune("plan")
        other = self.folder / "other"
        model.save_pretrained(other)
        config = json.loads((other / "config.json").read_text())
        config["id2label"] = {str(i): str(i) for i in range(5)}
        (other / "config.json").write_text(json.dumps(config))
        self.refuse("classifier.weight", "has shape [3, 32]", "[5, 32]", model="other")
        model.vit.save_pretrained(self.folder / "bare")
        shutil.copy(self.folder / "model" / "config.json", self.folder / "bare" / "config.json")
        self.refuse("classifier.weight", "is missing", model="bare")
        shutil.copytree(self.folder / "model", self.folder / "pickled")
        (self.folder / "pickled" / "model.safetensors").unlink()
        torch.save(model.state_dict(), self.folder / "pickled" / "pytorch_model.bin")
        self.refuse("pytorch_model.bin", "AutoModelForImageClassification", model="pickled")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
