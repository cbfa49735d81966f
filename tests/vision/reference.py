# SPDX-License-Identifier: Apache-2.0
"""Compares classifiers of images with transformers.

usage: reference.py UNITS_REFERENCE

For tiny random models of both families: loss and every gradient (1e-5 relative, fp32), whole and sharded folders, and
exported folders as transformers loads them. Exits 77, which ctest shows as skipped, where transformers is absent."""

import copy
import importlib.util
import pathlib
import sys
import tempfile

if not all(map(importlib.util.find_spec, ("transformers", "safetensors", "torch", "numpy"))):
    print("skipped: transformers is absent")
    sys.exit(77)

import safetensors.torch
import small_classifiers as small
import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from served_program import ServedProgram  # noqa: E402

TOLERANCE = 1e-5
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


def make_batch(config):
    generator = torch.Generator().manual_seed(3)
    shape = (5, config.num_channels, config.image_size, config.image_size)
    return {"inputs": torch.randn(shape, generator=generator),
            "targets": torch.randint(0, config.num_labels, (5,), generator=generator)}


def loss_and_gradients(model, batch):
    """Computes in fp64, so that all of an error is athanor's."""
    model = copy.deepcopy(model).double()
    loss = model(pixel_values=batch["inputs"].double(), labels=batch["targets"]).loss
    loss.backward()
    # The mask token takes no part, and has no gradient.
    return {"loss": loss.detach()} | {name: torch.zeros_like(p) if p.grad is None else p.grad
                                      for name, p in model.named_parameters()}


def compare(what, program, folder, expected, batch, scratch):
    batch_file, out = scratch / "batch.safetensors", scratch / "out.safetensors"
    safetensors.torch.save_file(batch, batch_file)
    program.run("gradients", folder, batch_file, out)
    actual = safetensors.torch.load_file(out)
    assert actual.keys() == expected.keys(), f"{what}: {actual.keys() ^ expected.keys()}"
    for name, value in expected.items():
        scale = value.norm() if value.norm() > 1e-5 else expected["loss"]
        error = ((actual[name] - value).abs().max() / scale).item()
        assert actual[name].shape == value.shape and error <= TOLERANCE, f"{what}: {name}: relative error {error:.2e}"


def check_export(what, program, model, source, scratch, batch):
    out = scratch / "exported"
    program.run("export", source, out, "float32", 20000)
    loaded, info = transformers.AutoModelForImageClassification.from_pretrained(
        out, attn_implementation="eager", output_loading_info=True)
    assert not any(map(len, info.values())), f"{what}: {info}"
    assert loaded.config.id2label == model.config.id2label
    for key, value in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[key], value), f"{what}: {key}"


def check(program, name, config, scratch):
    model, batch = small.make_model(config), make_batch(config)
    expected = loss_and_gradients(model, batch)
    for variant, changes in {"whole": {}, "sharded": {"max_shard_size": "20KB"}}.items():
        model.save_pretrained(scratch / variant, **changes)
        compare(f"{name}, {variant}", program, scratch / variant, expected, batch, scratch)
    assert len(list((scratch / "sharded").glob("*.safetensors"))) > 1
    check_export(name, program, model, scratch / "whole", scratch, batch)


if __name__ == "__main__":
    with ServedProgram(sys.argv[1]) as served:
        for case, settings in small.CONFIGS.items():
            print(case, flush=True)
            with tempfile.TemporaryDirectory() as folder:
                check(served, case, settings, pathlib.Path(folder))
