# SPDX-License-Identifier: Apache-2.0
"""Loads an exported folder with transformers. Exits with 1 where a weight is missing or left over.

usage: load_export.py FOLDER
"""

import sys

import torch
import transformers

model, info = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], output_loading_info=True)
tokens = torch.arange(16)[None] % model.config.vocab_size
with torch.no_grad():
    finite = bool(model(input_ids=tokens, labels=tokens).loss.isfinite())
problems = {key: value for key, value in info.items() if value}
print(problems, finite)
sys.exit(1 if problems or not finite else 0)
