# SPDX-License-Identifier: Apache-2.0
"""Traced units against the modules of transformers that they were traced from.

Exits with 77 (skipped) where transformers is absent."""

import contextlib
import importlib.util
import io
import json
import pathlib
import sys
import tempfile
import unittest
import warnings
from unittest import mock

if not all(map(importlib.util.find_spec, ("transformers", "safetensors", "torch"))):
    print("skipped: transformers is absent")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "cli" / folder) for folder in ("trace", "common")]

import small_models as small  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from athanor_trace import program, skeleton, units  # noqa: E402
from athanor_common.errors import InputError  # noqa: E402

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()


def logits_of_units(traced, model, tokens, places=()):
    """Runs the units one after the other on the model's own weights."""
    weights = dict(model.named_parameters())
    hidden = tokens
    for i, unit in enumerate(traced.units):
        is_layer = 0 < i < len(traced.units) - 1
        names = [name for name, _ in unit.parameters]
        if traced.projection and not is_layer and i > 0:
            names = names[:-1]
        hidden = unit.graph.module(hidden, *(places if is_layer else ()), *(weights[name] for name in names))
    return hidden @ weights[traced.projection].T if traced.projection else hidden


def gradients(loss, model):
    return torch.autograd.grad(loss, list(model.parameters()))


def traced_of(kind, documents=False):
    return units.make_units(small.config_of(kind), torch.float32, small.SEQUENCE, documents)


class Units(unittest.TestCase):
    def test_logits_and_gradients_are_those_of_transformers(self):
        for kind in small.EVERY:
            with self.subTest(kind):
                model, traced = small.make_model(kind), traced_of(kind)
                tokens = torch.randint(1, small.VOCABULARY, (3, small.SEQUENCE))
                theirs = model(input_ids=tokens).logits
                with torch.jit.optimized_execution(False):
                    ours = logits_of_units(traced, model, tokens)
                    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
                    ours = gradients(ours.square().sum(), model)
                for mine, other in zip(ours, gradients(theirs.square().sum(), model)):
                    torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4 * other.abs().max().item())

    def test_graphs_in_bf16_take_the_parameters_of_those_in_fp32(self):
        for kind in ("phi3", "smollm3", "gemma2"):  # a projection of its own, a tied one, one that is capped
            with self.subTest(kind):
                traced = traced_of(kind)
                rounded = units.make_units(small.config_of(kind), torch.bfloat16, small.SEQUENCE, False, traced)
                for wide, narrow in zip(traced.units, rounded.units):
                    inputs = [len(list(unit.graph.module.graph.inputs())) for unit in (wide, narrow)]
                    self.assertEqual(*inputs, wide.name)
                self.assertEqual([name for unit in traced.units for name, _ in unit.parameters],
                                 [name for unit in rounded.units for name, _ in unit.parameters])

    def test_documents_that_share_a_sequence_do_not_see_each_other(self):
        starts = [0, 5, 6]
        ends = [*starts[1:], small.SEQUENCE]
        positions = torch.cat([torch.arange(end - begin) for begin, end in zip(starts, ends)])[None]
        numbers = torch.cat([torch.full((end - begin,), i) for i, (begin, end) in enumerate(zip(starts, ends))])[None]
        for kind in small.ROTARY:
            with self.subTest(kind):
                model, traced = small.make_model(kind), traced_of(kind, documents=True)
                tokens = torch.randint(1, small.VOCABULARY, (1, small.SEQUENCE))
                with torch.no_grad():
                    ours = logits_of_units(traced, model, tokens, (positions, numbers))
                    for begin, end in zip(starts, ends):
                        alone = model(input_ids=tokens[:, begin:end]).logits
                        torch.testing.assert_close(ours[:, begin:end], alone, rtol=1e-4, atol=1e-5)

    def test_layers_that_differ_are_classes_of_their_own(self):
        keys = [unit.graph.key for unit in traced_of("gemma3_text").units]
        self.assertEqual(keys[1], keys[3])  # both slide
        self.assertEqual(keys[2], keys[4])
        self.assertNotEqual(keys[1], keys[2])

    def test_flops_are_those_of_matrices_and_attention(self):
        unit = traced_of("phi3").units[1]
        self.assertEqual(unit.flops_per_token, 2 * (64 * 128 + 64 * 64 + 3 * 64 * 96))
        self.assertEqual(unit.flops_per_token_per_context, 2 * 64)

    def test_the_projection_is_split_off_only_where_nothing_follows_it(self):
        self.assertEqual(traced_of("phi3").projection, "lm_head.weight")
        self.assertEqual(traced_of("smollm3").projection, "model.embed_tokens.weight")  # tied
        for kind in ("cohere2", "gemma2", "granite", "bert"):  # a scale, a cap, a scale, a bias
            self.assertIsNone(traced_of(kind).projection)


class Refusals(unittest.TestCase):
    def refuse(self, config, part, documents=False):
        with self.assertRaises(InputError) as raised:
            units.make_units(config, torch.float32, small.SEQUENCE, documents)
        self.assertIn(part, str(raised.exception))

    def test_routing_to_experts(self):
        config = transformers.AutoConfig.for_model("qwen3_moe", **small.EVERY["phi3"], num_experts=4,
                                                   moe_intermediate_size=32)
        self.refuse(config, "cannot be traced")

    def test_positions_that_do_not_restart(self):
        for kind in small.LEARNED_POSITIONS:
            self.refuse(small.config_of(kind), "would not restart", documents=True)

    def test_encoders_and_decoders(self):
        self.refuse(transformers.T5Config(d_model=64, num_layers=2, vocab_size=256), "no causal language model")


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Program(unittest.TestCase):
    def run_program(self, *words, err=None):
        out, err = io.StringIO(), err or io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = program.main(["trace", *map(str, words)])
        return code, out.getvalue(), err.getvalue()

    def test_a_folder_holds_graphs_links_and_what_else_there_was(self):
        with tempfile.TemporaryDirectory() as scratch:
            source, output = pathlib.Path(scratch, "source"), pathlib.Path(scratch, "traced")
            small.make_model("phi3").save_pretrained(source)
            code, out, err = self.run_program("--model", source, "-o", output, "--seq", small.SEQUENCE)
            self.assertEqual((code, err), (0, ""))
            self.assertIn("6 units of 3 kinds", out)
            self.assertTrue((output / "model.safetensors").is_symlink())
            self.assertEqual((output / "config.json").read_bytes(), (source / "config.json").read_bytes())
            self.assertEqual(sorted(path.name for path in (output / "units").iterdir()),
                             [f"{name}.{dtype}.pt" for name in ("block.0", "embedding", "head")
                              for dtype in ("bfloat16", "float32")])
            described = json.loads((output / "traced.json").read_text())
            self.assertEqual([unit["class"] for unit in described["architecture"]["units"]],
                             ["embedding", *["block.0"] * 4, "head"])
            code, _, err = self.run_program("--model", source, "-o", output)
            self.assertEqual(code, 2)
            self.assertIn("exists already", err)

    def test_progress_counts_the_units_of_each_type(self):
        with tempfile.TemporaryDirectory() as scratch:
            source = pathlib.Path(scratch, "source")
            small.make_model("phi3").save_pretrained(source)
            words = ["--model", source, "--seq", small.SEQUENCE, "-o"]
            _, _, err = self.run_program(*words, pathlib.Path(scratch, "loud"), err=Terminal())
            for part in ("tracing units in float32 0 %", "tracing units in bfloat16 0 %"):
                self.assertIn(part, err)
            self.assertTrue(err.endswith("\r\033[K"), err)
            code, _, err = self.run_program(*words, pathlib.Path(scratch, "quiet"), "--quiet", err=Terminal())
            self.assertEqual((code, err), (0, ""))

    def test_bad_input_is_named(self):
        with tempfile.TemporaryDirectory() as scratch:
            output = pathlib.Path(scratch, "traced")
            self.assertEqual(self.run_program("--model", scratch, "-o", output)[0], 2)
            for words, part in ((("--model", f"{scratch}/none", "-o", output), "is no folder"),
                                (("--model", scratch, "-o", output), "no configuration"),
                                (("--model", scratch), "--output"), (("--seq", "1"), "is not from 2")):
                code, _, err = self.run_program(*words)
                self.assertEqual(code, 2)
                self.assertIn(part, err)
            self.assertFalse(output.exists())

    def test_code_of_a_folder_is_neither_run_nor_asked_about(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            (folder / "config.json").write_text(json.dumps(
                {"model_type": "of_its_own", "auto_map": {"AutoConfig": "configuration_own.OwnConfig"}}))
            (folder / "configuration_own.py").write_text("raise SystemExit('was run')\n")
            with mock.patch("builtins.input", return_value="y") as asked:
                with self.assertRaisesRegex(InputError, "custom code"):
                    skeleton.read_config(folder)
        asked.assert_not_called()

    def test_no_type_is_guessed_from_the_name_of_a_folder(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder, output = pathlib.Path(scratch, "my-opt-model"), pathlib.Path(scratch, "traced")
            folder.mkdir()
            self.assertEqual(self.run_program("--model", folder, "-o", output)[0], 2)
            for text, part in (("{", "no configuration"), ("[]", "model_type"), ('{"hidden_size": 8}', "model_type")):
                (folder / "config.json").write_text(text)
                code, _, err = self.run_program("--model", folder, "-o", output)
                self.assertEqual(code, 2)
                self.assertIn(part, err)
            self.assertFalse(output.exists())


if __name__ == "__main__":
    unittest.main()
