# SPDX-License-Identifier: Apache-2.0
"""Compares athanor's parameter names and shapes with those of `transformers`.

For tiny models of every family: the parameters that athanor derives from config.json are those of
the state dict, and so are they when the model is rebuilt from the config.json that athanor writes.
Usage: check_parameter_names.py PRINT_PARAMETERS. Exits with 4 (skipped) without transformers.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
try:
    from transformers import AutoConfig, AutoModelForCausalLM
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(4)

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from stacked_experts import pieces  # noqa: E402

SMALL = dict(vocab_size=96, num_hidden_layers=2, num_attention_heads=4, hidden_size=32)
LLAMA = dict(SMALL, intermediate_size=56, max_position_embeddings=64, num_key_value_heads=2)
GPT2 = dict(vocab_size=96, n_layer=2, n_head=4, n_embd=32, n_positions=64)
OPT = dict(SMALL, ffn_dim=72, word_embed_proj_dim=32, max_position_embeddings=64)
CASES = [
    ("gpt2", GPT2),
    ("gpt2", dict(GPT2, n_inner=80, tie_word_embeddings=False)),
    ("opt", OPT),
    ("opt", dict(OPT, tie_word_embeddings=False, activation_function="gelu")),
    ("llama", LLAMA),
    ("llama", dict(LLAMA, attention_bias=True, mlp_bias=True, tie_word_embeddings=True)),
    ("llama", dict(LLAMA, head_dim=6, rope_theta=5e5)),
    ("mistral", LLAMA),
    ("mistral", dict(LLAMA, sliding_window=None, head_dim=16)),
    ("qwen2", LLAMA),
    ("qwen2", dict(LLAMA, use_sliding_window=True, sliding_window=8, max_window_layers=0)),
    ("qwen3", LLAMA),
    ("qwen3", dict(LLAMA, tie_word_embeddings=True, head_dim=10, attention_bias=True)),
    ("granitemoe", dict(LLAMA, num_local_experts=3)),
    ("gpt_oss", dict(LLAMA, num_local_experts=3, num_experts_per_tok=2, head_dim=6)),
    ("gpt_oss", dict(LLAMA, num_local_experts=3, num_experts_per_tok=2, rope_scaling=None, tie_word_embeddings=True,
                     layer_types=["full_attention"] * 2)),
]


def shapes_of(config):
    """Parameter shapes by athanor's names: those of a checkpoint of the model, but for stacks of experts."""
    model = AutoModelForCausalLM.from_config(config)
    shapes = {name: list(part.shape) for stack in model.state_dict().items() for name, part in pieces(*stack)}
    if config.tie_word_embeddings:
        del shapes["lm_head.weight"]  # the same tensor as the input embedding
    assert sum(p.numel() for p in model.parameters()) == sum(map(product, shapes.values()))
    return shapes


def product(shape):
    result = 1
    for dim in shape:
        result *= dim
    return result


def check(program, model_type, settings):
    config = AutoConfig.for_model(model_type, **settings)
    expected = shapes_of(config)
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        ours = json.loads(subprocess.check_output([program, folder]))
        Path(folder, "config.json").write_text(json.dumps(ours["config"]))
        exported = shapes_of(AutoConfig.from_pretrained(folder))
        again = json.loads(subprocess.check_output([program, folder]))
    assert ours["shapes"] == expected, f"{model_type} {settings}: {ours['shapes']} != {expected}"
    assert exported == expected, f"{model_type} {settings}: exported {exported} != {expected}"
    assert again == ours, f"{model_type} {settings}: {again} != {ours}"


def main():
    for model_type, settings in CASES:
        check(sys.argv[1], model_type, settings)
        print(f"{model_type}: equal")


if __name__ == "__main__":
    main()
