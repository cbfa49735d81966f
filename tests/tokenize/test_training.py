# SPDX-License-Identifier: Apache-2.0
"""The whole way from a chat file to a trained model that transformers loads.

usage: test_training.py ATHANOR PLATFORM

A small Qwen2 with a real tokenizer learns to answer from JSONL, in two processes. Its last evaluation on held-out
records has the masked loss that transformers finds for the exported model, one conversation after the other.
Exits with 77 (skipped) where transformers is absent."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

if not all(map(importlib.util.find_spec, ("transformers", "tokenizers", "safetensors", "jinja2", "torch"))):
    print("skipped: transformers is absent")
    sys.exit(77)

import model_folder as made
import torch
import transformers
from safetensors.torch import load_file

ATHANOR, PLATFORM = sys.argv[1:3]
SEQUENCE, BATCH, STEPS = 128, 4, 30


def athanor(folder, *words):
    done = subprocess.run([ATHANOR, *map(str, words)], cwd=folder, capture_output=True, text=True,
                          env=os.environ | {"ATHANOR_PYTHON": sys.executable})
    assert done.returncode == 0, f"{words}: {done.stderr}"


def write_inputs(folder):
    config = transformers.Qwen2Config(
        vocab_size=320, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=SEQUENCE, tie_word_embeddings=True)
    torch.manual_seed(0)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder / "model")
    made.make_tokenizer().save_pretrained(folder / "model")
    made.write_lines(folder / "chat.jsonl", [{"messages": made.chat(f"What is {i % 50} plus {i % 7}?",
                                                                     f"It is {i % 50 + i % 7}.")} for i in range(2000)])


def metrics_of(folder, run, key):
    lines = map(json.loads, (folder / run / "metrics.jsonl").read_text().splitlines())
    return {line["step"]: line[key] for line in lines if key in line}


def documents_of(tokens):
    """Yields ids and mask of every document of the folder."""
    for entry in json.loads((tokens / "index.json").read_text())["shards"]:
        shard = load_file(tokens / entry["file"])
        for ids, mask, starts in zip(*(shard[name] for name in ("ids", "loss_mask", "document_starts"))):
            begins = [*starts.nonzero().flatten().tolist(), len(ids)]
            for begin, end in zip(begins, begins[1:]):
                yield ids[begin:end].long(), mask[begin:end]


def loss_in_transformers(model_folder, tokens):
    model = transformers.AutoModelForCausalLM.from_pretrained(model_folder, torch_dtype=torch.float32).eval()
    total, count = 0.0, 0
    with torch.no_grad():
        for ids, mask in documents_of(tokens):
            logits = model(ids[None]).logits[0, :-1]
            losses = torch.nn.functional.cross_entropy(logits, ids[1:], reduction="none")
            total, count = total + (losses * mask[1:]).sum().item(), count + mask[1:].sum().item()
    return total / count, count


def check(folder):
    write_inputs(folder)
    athanor(folder, "tokenize", "--model", "model", "--data", "chat.jsonl", "-o", "tokens", "--seq", SEQUENCE,
            "--val-share", 0.25)
    athanor(folder, "profile", "--backend", "cpu", "--model", "model", "--seq", SEQUENCE, "--micro-batches", 1,
            "-o", "profile.json")
    athanor(folder, "tune", "--profile", "profile.json", "--platform", PLATFORM, "--gpus", 2, "--global-batch", BATCH,
            "--gpu-memory", "64MiB", "-o", "plan.json")
    train = ["train", "--plan", "plan.json", "--backend", "cpu", "--gpus", 2]
    held_out = folder / "tokens" / "validation"
    athanor(folder, *train, "--model", "model", "--data", "tokens", "--eval-data", held_out, "--eval-every", 10,
            "--steps", STEPS, "--lr", 3e-3, "-o", "run", "--export", "trained")
    losses = metrics_of(folder, "run", "loss_metrics/global_avg_loss")
    assert len(losses) == STEPS and losses[STEPS] < 0.8 * losses[1], losses
    evaluations = metrics_of(folder, "run", "validation_metrics/global_avg_loss")
    assert list(evaluations) == [10, 20, 30] and evaluations[30] < evaluations[10], evaluations
    theirs, count = loss_in_transformers(folder / "trained", held_out)
    print(f"held-out loss {evaluations[STEPS]:.6f}, in transformers {theirs:.6f}, of {count} tokens")
    assert metrics_of(folder, "run", "validation_metrics/num_targets")[STEPS] == count
    assert abs(evaluations[STEPS] - theirs) <= 1e-4 * theirs


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        check(pathlib.Path(scratch))
