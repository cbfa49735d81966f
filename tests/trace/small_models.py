# SPDX-License-Identifier: Apache-2.0
"""Small models of many architectures, with random weights."""

import torch
import transformers

VOCABULARY, SEQUENCE = 256, 16
_LLAMA = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
          "num_key_value_heads": 2, "vocab_size": VOCABULARY, "max_position_embeddings": 64, "pad_token_id": 0}
_OPT = {"hidden_size": 64, "ffn_dim": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": VOCABULARY,
        "max_position_embeddings": 64, "word_embed_proj_dim": 32}
# model_type -> what its configuration says; sliding windows are shorter than a sequence, so that they matter.
ROTARY = {
    "cohere2": {**_LLAMA, "head_dim": 16, "sliding_window": 8, "logit_scale": 0.5},
    "gemma2": {**_LLAMA, "head_dim": 16, "sliding_window": 8, "final_logit_softcapping": 0.5},
    "gemma3_text": {**_LLAMA, "head_dim": 16, "sliding_window": 8,
                    "layer_types": ["sliding_attention", "full_attention"] * 2},
    "glm4": {**_LLAMA, "head_dim": 16},
    "gpt_neox": _LLAMA,
    "granite": {**_LLAMA, "logits_scaling": 4.0, "residual_multiplier": 0.5},
    "olmo3": {**_LLAMA, "sliding_window": 8},
    "phi3": _LLAMA,
    "smollm3": _LLAMA,
    "starcoder2": _LLAMA,
}
LEARNED_POSITIONS = {"bert": {**_LLAMA, "is_decoder": True}, "opt": _OPT}
EVERY = ROTARY | LEARNED_POSITIONS


def config_of(kind):
    return transformers.AutoConfig.for_model(kind, **EVERY[kind])


def make_model(kind, seed=0):
    """Returns the model in fp32. Biases and norms are random too, so that a swap of two would be seen."""
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config_of(kind)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model
