# SPDX-License-Identifier: Apache-2.0
"""Compares athanor's sizes of model types that it does not train with those of `transformers`.

Each class is made on the meta device, which takes no memory, from a configuration of published
sizes. athanor reads that configuration with all its keys, and with those alone that differ from the
defaults, as files on the hub have it. Names and shapes of all parameters must be equal.
Usage: check_sizes.py PRINT_PARAMETERS. Exits with 4 (skipped) without transformers.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import torch
    import transformers
    from transformers import AutoConfig
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(4)

CAUSAL = "AutoModelForCausalLM"
ROPE = dict(rope_type="default", mrope_section=[24, 20, 20])
# Model type, class (the causal language model where there is none), what differs from the defaults.
CASES = [
    ("bloom", None, dict(hidden_size=1024, n_layer=24, n_head=16)),
    ("cohere", None, dict(num_hidden_layers=4)),
    ("cohere", None, dict(num_hidden_layers=2, use_qk_norm=True, num_key_value_heads=8)),
    ("falcon", None, {}),
    ("falcon", "FalconForCausalLM",
     dict(new_decoder_architecture=True, num_kv_heads=8, num_hidden_layers=4, hidden_size=8192, num_attention_heads=128)),
    ("falcon", None, dict(multi_query=False, parallel_attn=False, bias=True, num_hidden_layers=2)),
    ("gemma", None, dict(hidden_size=2048, intermediate_size=16384, num_hidden_layers=18,
                         num_attention_heads=8, num_key_value_heads=1)),
    ("gemma2", None, dict(hidden_size=3584, intermediate_size=14336, num_hidden_layers=42,
                          num_attention_heads=16, num_key_value_heads=8)),
    ("gemma2", "Gemma2Model", dict(num_hidden_layers=2)),
    ("gemma3_text", None, dict(vocab_size=262144, hidden_size=1152, intermediate_size=6912,
                               num_hidden_layers=26, num_attention_heads=4, num_key_value_heads=1)),
    ("glm4", None, {}),
    ("gpt_bigcode", None, dict(vocab_size=49152, n_positions=8192, n_embd=6144, n_head=48, n_layer=40)),
    ("gpt_bigcode", None, dict(multi_query=False, n_inner=100)),
    ("gpt_neo", None, {}),
    ("gpt_neox", None, dict(hidden_size=4096, intermediate_size=16384, num_hidden_layers=32,
                            num_attention_heads=32)),
    ("gpt_neox", None, dict(attention_bias=False, num_hidden_layers=2, tie_word_embeddings=True)),
    ("gptj", None, {}),
    ("granite", None, dict(num_key_value_heads=8, attention_bias=True, mlp_bias=True, tie_word_embeddings=True)),
    ("mamba", None, {}),
    ("mamba", None, dict(hidden_size=100, time_step_rank="auto", use_bias=True, use_conv_bias=False)),
    ("ministral", None, dict(head_dim=128)),
    ("olmo", None, {}),
    ("olmo2", None, dict(num_key_value_heads=8)),
    ("opt", "OPTForCausalLM",
     dict(hidden_size=1024, num_hidden_layers=24, ffn_dim=4096, num_attention_heads=16,
          word_embed_proj_dim=512, do_layer_norm_before=False)),
    ("phi", None, dict(hidden_size=2560, intermediate_size=10240, num_hidden_layers=32)),
    ("phi", None, dict(qk_layernorm=True, num_hidden_layers=2, num_key_value_heads=8)),
    ("phi3", None, {}),
    ("smollm3", None, {}),
    ("stablelm", None, {}),
    ("stablelm", None, dict(qk_layernorm=True, use_qkv_bias=True, use_parallel_residual=True,
                            num_key_value_heads=8, num_hidden_layers=2)),
    ("starcoder2", None, {}),
    ("starcoder2", None, dict(use_bias=False, tie_word_embeddings=False, num_hidden_layers=2)),
    ("dbrx", None, dict(d_model=6144, n_heads=48, n_layers=4, vocab_size=100352,
                        attn_config=dict(kv_n_heads=8),
                        ffn_config=dict(ffn_hidden_size=10752, moe_num_experts=16, moe_top_k=4))),
    ("dbrx", None, {}),
    ("deepseek_v2", None, dict(hidden_size=2048, intermediate_size=10944, moe_intermediate_size=1408,
                               num_attention_heads=16, num_hidden_layers=3, num_key_value_heads=16,
                               q_lora_rank=None, first_k_dense_replace=1, vocab_size=102400,
                               num_experts_per_tok=6)),
    ("deepseek_v2", None, dict(num_hidden_layers=2, attention_bias=True)),
    ("deepseek_v3", None, dict(num_hidden_layers=5)),
    ("deepseek_v3", None, dict(num_hidden_layers=2, n_routed_experts=8, first_k_dense_replace=1,
                               n_shared_experts=2, q_lora_rank=None, attention_bias=True)),
    ("llama4_text", "Llama4ForCausalLM", dict(moe_layers=[1, 3], num_hidden_layers=4)),
    ("llama4_text", "Llama4ForCausalLM", dict(interleave_moe_layer_step=2, num_hidden_layers=3)),
    ("phimoe", None, dict(attention_bias=True, lm_head_bias=True)),
    ("qwen3_next", None, dict(num_hidden_layers=8)),
    ("qwen3_next", None, dict(num_hidden_layers=3, num_experts=4, full_attention_interval=2,
                              num_experts_per_tok=2)),
    ("bert", None, {}),
    ("bert", "BertForPreTraining", dict(hidden_size=1024, intermediate_size=4096,
                                        num_hidden_layers=24, num_attention_heads=16)),
    ("bert", "BertForMaskedLM", dict(num_hidden_layers=2, tie_word_embeddings=False)),
    ("bert", "BertModel", dict(num_hidden_layers=2)),
    ("roberta", None, dict(max_position_embeddings=514, type_vocab_size=1)),
    ("roberta", "RobertaForMaskedLM", dict(num_hidden_layers=2, tie_word_embeddings=False)),
    ("roberta", "RobertaModel", dict(num_hidden_layers=2)),
    ("t5", "T5ForConditionalGeneration", {}),
    ("t5", "T5EncoderModel",
     dict(d_model=4096, d_ff=10240, num_heads=64, num_layers=24, num_decoder_layers=24,
          feed_forward_proj="gated-gelu", tie_word_embeddings=False)),
    ("t5", "T5ForConditionalGeneration",
     dict(num_layers=2, num_decoder_layers=3, feed_forward_proj="gated-gelu", tie_word_embeddings=False)),
    ("t5", "T5Model", dict(num_layers=2)),
    ("whisper", "WhisperForConditionalGeneration", {}),
    ("whisper", "WhisperModel", dict(num_mel_bins=128, encoder_layers=2, decoder_layers=3)),
    ("vit", "ViTForImageClassification", dict(num_labels=1000)),
    ("vit", "ViTModel", dict(qkv_bias=False, image_size=384, pooler_output_size=100)),
    ("dinov2", "Dinov2Model", dict(image_size=518)),
    ("dinov2", "Dinov2ForImageClassification",
     dict(use_swiglu_ffn=True, hidden_size=1536, num_attention_heads=24, num_hidden_layers=3)),
    ("clip", "CLIPModel", {}),
    ("clip", "CLIPModel", dict(projection_dim=768, text_config=dict(hidden_size=768, intermediate_size=3072),
                               vision_config=dict(hidden_size=1024, intermediate_size=4096,
                                                  num_hidden_layers=24, num_attention_heads=16, patch_size=14))),
    ("siglip", "SiglipModel", {}),
    ("siglip", "SiglipModel", dict(text_config=dict(projection_size=100),
                                   vision_config=dict(vision_use_head=False, patch_size=14))),
    ("llava", "LlavaForConditionalGeneration", {}),
    ("llava", "LlavaForConditionalGeneration",
     dict(vision_feature_layer=[-1, -2], multimodal_projector_bias=False,
          text_config=dict(model_type="qwen2", num_hidden_layers=2, tie_word_embeddings=True))),
    ("llama4", "Llama4ForConditionalGeneration", dict(text_config=dict(num_hidden_layers=4))),
    ("qwen2_vl", "Qwen2VLForConditionalGeneration", {}),
    ("qwen2_vl", "Qwen2VLForConditionalGeneration",
     dict(text_config=dict(hidden_size=1536, num_attention_heads=12, num_key_value_heads=2,
                           intermediate_size=8960, num_hidden_layers=28, vocab_size=151936,
                           tie_word_embeddings=True), vision_config=dict(hidden_size=1536))),
    ("qwen3_vl", "Qwen3VLForConditionalGeneration",
     dict(text_config=dict(num_hidden_layers=36, num_key_value_heads=8, intermediate_size=12288,
                           rope_scaling=ROPE), vision_config=dict(out_hidden_size=4096))),
    ("qwen3_vl", "Qwen3VLForConditionalGeneration",
     dict(text_config=dict(num_hidden_layers=2, rope_scaling=ROPE), tie_word_embeddings=True)),
    ("qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration",
     dict(text_config=dict(num_hidden_layers=4, num_experts=128, rope_scaling=ROPE))),
]


# Types of transformers 5 alone, with its parameter counts: it holds experts in other tensors than the
# checkpoints do.
NEWER = [
    (dict(model_type="deepseek_v32", num_hidden_layers=4), 15166939136),
    (dict(model_type="glm_moe_dsa", num_hidden_layers=4), 12983272448),
    (dict(model_type="minimax_m2", num_hidden_layers=3), 12235352064),
    (dict(model_type="nemotron_h"), 1968355712),
    (dict(model_type="qwen3_5_text", num_hidden_layers=4), 2899186752),
    (dict(model_type="qwen3_5_text", num_hidden_layers=8, hidden_size=5120, intermediate_size=17408,
          num_attention_heads=24, linear_num_value_heads=48, tie_word_embeddings=True), 4315553088),
    (dict(model_type="qwen3_5", vision_config=dict(out_hidden_size=5120),
          text_config=dict(num_hidden_layers=4, hidden_size=5120, intermediate_size=17408, num_attention_heads=24,
                           linear_num_value_heads=48)), 4525606800),
    (dict(model_type="nemotron_h", hybrid_override_pattern="MEME*-M", hidden_size=2688, n_routed_experts=128,
          num_experts_per_tok=6, moe_intermediate_size=1856, moe_shared_expert_intermediate_size=3712,
          num_key_value_heads=2, mamba_num_heads=64), 3554823744),
    (dict(model_type="nemotron_h", hybrid_override_pattern="M-M*-", hidden_size=8192, intermediate_size=32768,
          num_attention_heads=64, mamba_num_heads=256, ssm_state_size=256, use_conv_bias=False, use_bias=True,
          mlp_bias=True), 4249249792),
    (dict(model_type="nemotron_h", hybrid_override_pattern="ME", moe_latent_size=1024), 1380751744),
]


def make(config, class_name):
    with torch.device("meta"), transformers.modeling_utils.no_init_weights():
        if class_name:
            return getattr(transformers, class_name)._from_config(config)
        return transformers.AutoModelForCausalLM.from_config(config)


def shapes_of(model):
    """Shapes of all parameters by name, a tied tensor once."""
    model.tie_weights()
    return {name: list(parameter.shape) for name, parameter in model.named_parameters()}


def texts_of(config, class_name):
    """The configuration with all its keys, and with those that differ from the defaults."""
    for use_diff in (False, True):
        keys = json.loads(config.to_json_string(use_diff=use_diff))
        if class_name:
            keys["architectures"] = [class_name]
        yield json.dumps(keys)


def difference(ours, expected):
    for name in sorted(ours.keys() | expected.keys()):
        if ours.get(name) != expected.get(name):
            return f"{name}: {ours.get(name)} instead of {expected.get(name)}"
    return None


def check(program, folder, model_type, class_name, settings):
    config = AutoConfig.for_model(model_type, **settings)
    model = make(config, class_name)
    expected = shapes_of(model)
    for text in texts_of(config, class_name):
        wrong = difference(shapes_from(program, folder, text), expected)
        if wrong:
            return wrong
    print(f"{model_type}, {type(model).__name__}: {count(expected)}")
    return None


def count(shapes):
    return sum(torch.Size(shape).numel() for shape in shapes.values())


def shapes_from(program, folder, text):
    """The shapes that athanor derives from the text of a config.json."""
    path = Path(folder, "config.json")
    path.write_text(text)
    result = subprocess.run([program, str(path)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr.strip()
    return json.loads(result.stdout)["shapes"]


def main():
    program, *wanted = sys.argv[1:]
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for model_type, class_name, settings in CASES:
            if wanted and model_type not in wanted:
                continue
            wrong = check(program, folder, model_type, class_name, settings)
            if wrong:
                failures += 1
                print(f"{model_type}, {class_name} {settings}: {wrong}")
        for keys, expected in NEWER:
            counted = count(shapes_from(program, folder, json.dumps(keys)))
            if counted != expected:
                failures += 1
                print(f"{keys}: {counted} instead of {expected}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
