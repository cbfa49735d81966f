# SPDX-License-Identifier: Apache-2.0
"""Loads exported folders with transformers. Exits with 1 where a weight is missing or left over.

usage: load_export.py FOLDER...
"""

import sys

import torch
import transformers



def is_whole(folder):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    tokens = torch.arange(16)[None] % model.config.vocab_size
    with torch.no_grad():
        finite = bool(model(input_ids=tokens, labels=tokens).loss.isfinite())
    problems = {key: value for key, value in info.items() if value}
    print(folder, problems, finite)
    return finite and not problems


sys.exit(0 if all([is_whole(folder) for folder in sys.argv[1:]]) else 1)
