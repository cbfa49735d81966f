# SPDX-License-Identifier: Apache-2.0
"""Compares the units and the folder reader and writer with PyTorch and transformers.

usage: reference.py UNITS_REFERENCE

For tiny random models of every family: loss and every gradient (1e-5 relative, fp32), those of packed documents with a
loss mask against the documents one by one, folders as
transformers writes them (whole, sharded, half precision, without the head), and exported folders
as transformers loads them. Exits 77, which ctest shows as skipped, where transformers is absent.
"""

import os
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import safetensors.torch
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from router_balance import run_with_balance  # noqa: E402
from served_program import ServedProgram  # noqa: E402
from stacked_experts import pieces  # noqa: E402

TOLERANCE = 1e-5
SEQUENCE = 12
SHAPE = dict(vocab_size=67, max_position_embeddings=16, bos_token_id=None, eos_token_id=None, pad_token_id=None)
# Heads of 16 elements are the smallest that fused operators take.
LLAMA = dict(SHAPE, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=2,
             num_key_value_heads=1)


def rounded(values, dtype):
    """`values` as exports round them. In bf16 ties go away from zero, as in training; PyTorch takes them to even."""
    if dtype != torch.bfloat16:
        return values.to(dtype).float()
    bits = values.contiguous().view(torch.int32)
    return (bits + 0x8000 >> 16 << 16).view(torch.float32)


def gpt2(**changes):
    return transformers.GPT2Config(vocab_size=67, n_positions=16, n_embd=32, n_layer=3, n_head=4, resid_pdrop=0,
                                   embd_pdrop=0, attn_pdrop=0, bos_token_id=None, eos_token_id=None, **changes)


def opt(**changes):
    return transformers.OPTConfig(**dict(SHAPE, hidden_size=32, word_embed_proj_dim=32, ffn_dim=48,
                                         num_hidden_layers=3, num_attention_heads=4, dropout=0.0) | changes)


CONFIGS = {
    "gpt2": gpt2(),
    "gpt2 with its own head": gpt2(tie_word_embeddings=False, n_inner=40),
    "opt": opt(),
    "opt with its own head": opt(tie_word_embeddings=False, activation_function="gelu"),
    "llama": transformers.LlamaConfig(**LLAMA, rope_theta=5000.0),
    "llama with biases": transformers.LlamaConfig(**LLAMA, attention_bias=True, mlp_bias=True,
                                                  tie_word_embeddings=True, rms_norm_eps=1e-3),
    "mistral": transformers.MistralConfig(**LLAMA, sliding_window=None),
    "mistral, window": transformers.MistralConfig(**LLAMA, sliding_window=5),
    "qwen2": transformers.Qwen2Config(**LLAMA),
    "qwen2, window": transformers.Qwen2Config(**LLAMA, use_sliding_window=True, sliding_window=4,
                                              max_window_layers=0),
    "qwen3": transformers.Qwen3Config(**LLAMA, head_dim=16, tie_word_embeddings=True),
}

# Experts of few tokens, so that some get none; QWEN's block 1 has an ordinary perceptron.
MIXTURE = dict(LLAMA, num_experts_per_tok=2)
QWEN = dict(MIXTURE, num_experts=32, moe_intermediate_size=24, mlp_only_layers=[1])
BALANCED = dict(output_router_logits=True, router_aux_loss_coef=0.5)
CONFIGS |= {
    "mixtral": transformers.MixtralConfig(**MIXTURE, num_local_experts=6, head_dim=16),
    "mixtral, window and balance": transformers.MixtralConfig(**MIXTURE, num_local_experts=6, sliding_window=5, **BALANCED),
    "qwen2_moe": transformers.Qwen2MoeConfig(**QWEN, shared_expert_intermediate_size=40),
    "qwen2_moe, balance": transformers.Qwen2MoeConfig(**QWEN, shared_expert_intermediate_size=40, qkv_bias=False,
                                                      norm_topk_prob=True, **BALANCED),
    "qwen3_moe": transformers.Qwen3MoeConfig(**QWEN, head_dim=16, norm_topk_prob=True),
    "qwen3_moe, balance": transformers.Qwen3MoeConfig(**QWEN, head_dim=16, attention_bias=True, decoder_sparse_step=3,
                                                      tie_word_embeddings=True, **BALANCED),
    "granitemoe": transformers.GraniteMoeConfig(**MIXTURE, num_local_experts=6, attention_multiplier=0.4,
                                                embedding_multiplier=3.0, residual_multiplier=0.3, logits_scaling=6.0),
    "granitemoe, balance": transformers.GraniteMoeConfig(**MIXTURE, num_local_experts=6, attention_bias=True,
                                                         tie_word_embeddings=True, logits_scaling=0.7, **BALANCED),
    "olmoe": transformers.OlmoeConfig(**MIXTURE, num_experts=7),
    "olmoe, balance": transformers.OlmoeConfig(**MIXTURE, num_experts=7, norm_topk_prob=True, **BALANCED),
}


# Heads that are no share of hidden_size; blocks 0 and 2 have the window.
GPT_OSS = dict(MIXTURE, num_local_experts=6, num_attention_heads=4, num_key_value_heads=2, head_dim=16, sliding_window=5)
CONFIGS |= {
    "gpt_oss": transformers.GptOssConfig(**GPT_OSS, rope_scaling=None),
    "gpt_oss, full attention": transformers.GptOssConfig(
        **GPT_OSS, rope_scaling=None, layer_types=["full_attention"] * 3, tie_word_embeddings=True),
    "gpt_oss, MXFP4": transformers.GptOssConfig(**GPT_OSS | {"intermediate_size": 64}, rope_scaling=None),
    "gpt_oss, yarn and balance": transformers.GptOssConfig(
        **GPT_OSS, **BALANCED, rope_theta=500.0, layer_types=["full_attention", "sliding_attention", "full_attention"],
        rope_scaling=dict(rope_type="yarn", factor=4.0, beta_fast=4.0, beta_slow=0.5, truncate=False,
                          original_max_position_embeddings=8)),
}


def scaled(positions=16, **scaling):
    return transformers.LlamaConfig(**LLAMA | {"max_position_embeddings": positions}, rope_theta=500.0,
                                    rope_scaling=scaling)


# Positions that the scaling changes lie within the sequence: it has 12 tokens.
CONFIGS |= {
    "llama, linear positions": scaled(rope_type="linear", factor=4.0),
    "llama 3.1": scaled(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                        original_max_position_embeddings=8),
    "llama, dynamic positions": scaled(positions=6, rope_type="dynamic", factor=2.0),
    "llama, dynamic positions, short": scaled(rope_type="dynamic", factor=2.0),
    "qwen2, yarn": transformers.Qwen2Config(**LLAMA, rope_scaling=dict(
        rope_type="yarn", factor=4.0, original_max_position_embeddings=64)),
    "llama, yarn": scaled(rope_type="yarn", factor=2.0, beta_fast=4.0, beta_slow=0.5, mscale=0.7,
                          mscale_all_dim=1.1, truncate=False, original_max_position_embeddings=32),
    "llama, longrope": scaled(positions=8, rope_type="longrope", factor=2.0, short_factor=[1.0] * 8,
                              long_factor=[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]),
    "llama, longrope, short": scaled(rope_type="longrope", factor=2.0, short_factor=[1.0, 1.1, 1.2, 1.3] * 2,
                                     long_factor=[9.0] * 8),
}


def make_model(config):
    """Returns weights far from their initial values, so that no norm or bias is trivial."""
    torch.manual_seed(5)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.3).add_(1.0 if parameter.dim() == 1 else 0.0)
        for name, parameter in model.named_parameters():
            if name.endswith(".experts.gate_up_proj"):
                parameter.mul_(4.0)  # some gates and ups reach their limits
    return model


def make_tokens():
    generator = torch.Generator().manual_seed(9)
    tokens = torch.randint(0, 67, (3, SEQUENCE + 1), generator=generator)
    return {"inputs": tokens[:, :-1].contiguous(), "targets": tokens[:, 1:].contiguous()}


def make_packed():
    """Three sequences of six documents; a target is learnt with a chance of one half, and never across documents."""
    tokens = make_tokens()
    generator = torch.Generator().manual_seed(4)
    starts = torch.zeros(3, SEQUENCE, dtype=torch.int64)
    for row, of_row in enumerate(((0, 5), (0,), (0, 1, 4))):
        starts[row, list(of_row)] = 1
    learnt = torch.randint(0, 2, starts.shape, generator=generator)
    learnt[:, :-1] *= 1 - starts[:, 1:]
    learnt[:, -1] = 0
    return tokens | {"starts": starts, "learnt": learnt}


def loss_of_documents(model, packed):
    """The mean over learnt targets, from a forward of each document alone."""
    total = 0.0
    for row, starts in enumerate(packed["starts"]):
        begins = [*starts.nonzero().flatten().tolist(), SEQUENCE]
        for begin, end in zip(begins, begins[1:]):
            logits = model(input_ids=packed["inputs"][row : row + 1, begin:end], use_cache=False).logits[0]
            losses = torch.nn.functional.cross_entropy(logits, packed["targets"][row, begin:end], reduction="none")
            total = total + (losses * packed["learnt"][row, begin:end]).sum()
    return total / packed["learnt"].sum()


def packed_loss_and_gradients(model, packed):
    model.zero_grad()
    loss = loss_of_documents(model, packed)
    loss.backward()
    return {"loss": loss.detach()} | gradients_of(model)


def loss_and_gradients(model, tokens):
    model.zero_grad()
    out, balance = run_with_balance(model, tokens["inputs"])
    loss = torch.nn.functional.cross_entropy(out.logits.flatten(0, 1), tokens["targets"].flatten()) + balance
    loss.backward()
    return {"loss": loss.detach()} | gradients_of(model)


def adds_balance(model):
    return getattr(model.config, "output_router_logits", False)


def gradients_of(model):
    """Experts that no token uses have none, which is zero."""
    gradients = {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in model.named_parameters()}
    return {piece: value for name, gradient in gradients.items() for piece, value in pieces(name, gradient)}


def has_idle_experts(model):
    return any(p.grad is None for name, p in model.named_parameters() if ".experts." in name)


class Check:
    def __init__(self, program, folder):
        self.program, self.folder, self.failures = program, folder, 0

    def expect(self, what, holds):
        if not holds:
            self.failures += 1
            print(f"  FAILED: {what}")

    def close(self, name, actual, expected, scale, tolerance=TOLERANCE):
        error = ((actual - expected).abs().max() / scale).item()
        self.expect(f"{name}: relative error {error:.2e}", actual.shape == expected.shape and error <= tolerance)

    def gradients(self, what, model_folder, expected, tokens):
        """Returns errors relative to each gradient's norm; those that are zero in exact arithmetic, to the loss."""
        token_file, out = self.folder / "tokens.safetensors", self.folder / "out.safetensors"
        safetensors.torch.save_file(tokens, token_file)
        self.program.run("gradients", model_folder, token_file, out)
        actual = safetensors.torch.load_file(out)
        self.expect(f"{what}: the same parameters", actual.keys() == expected.keys())
        for name, value in expected.items():
            scale = value.norm()
            self.close(f"{what}: {name}", actual[name], value, scale if scale > 1e-5 else expected["loss"])

    def read_folders(self, name, model, tokens):
        expected = loss_and_gradients(model, tokens)
        for variant, changes in {"whole": {}, "sharded": {"max_shard_size": "20KB"}}.items():
            folder = self.folder / variant
            model.save_pretrained(folder, safe_serialization=True, **changes)
            self.gradients(f"{name}, {variant}", folder, expected, tokens)
        self.expect("sharded: several files", len(list((self.folder / "sharded").glob("*.safetensors"))) > 1)

    def read_scaled(self, name, model, tokens):
        """Scalings differ from their family in positions alone: the folder, its gradients and an export tell all."""
        folder = self.folder / "scaled"
        model.save_pretrained(folder, safe_serialization=True)
        self.gradients(name, folder, loss_and_gradients(model, tokens), tokens)
        self.export(name, model, tokens, torch.float32, 1 << 30)

    def read_packed(self, name, model):
        folder, packed = self.folder / "whole", make_packed()
        model.save_pretrained(folder, safe_serialization=True)
        self.gradients(f"{name}, packed", folder, packed_loss_and_gradients(model, packed), packed)

    def read_mxfp4(self, name, model, tokens):
        """Experts as gpt_oss is published, of random bits; transformers says what they mean."""
        from transformers.integrations.mxfp4 import convert_moe_packed_tensors

        folder = self.folder / "mxfp4"
        model.config.quantization_config = {"quant_method": "mxfp4"}
        model.config.save_pretrained(folder)
        del model.config.quantization_config
        tensors, generator = {}, torch.Generator().manual_seed(3)
        for key, value in model.state_dict().items():
            if not key.endswith((".experts.gate_up_proj", ".experts.down_proj")):
                tensors[key] = value
                continue
            experts, inputs, outputs = value.shape
            shape = (experts, outputs, inputs // 32)
            blocks = torch.randint(0, 256, (*shape, 16), generator=generator, dtype=torch.uint8)
            scales = torch.randint(122, 126, shape, generator=generator, dtype=torch.uint8)
            tensors |= {f"{key}_blocks": blocks, f"{key}_scales": scales}
            value.copy_(convert_moe_packed_tensors(blocks, scales, dtype=torch.float32))
        safetensors.torch.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        self.gradients(name, folder, loss_and_gradients(model, tokens), tokens)

    def read_half(self, name, config, tokens):
        for dtype in (torch.float16, torch.bfloat16):
            folder = self.folder / str(dtype)
            make_model(config).to(dtype).save_pretrained(folder, safe_serialization=True)
            # Not .to(dtype).float(): that would round the rotary frequencies too.
            rounded = make_model(config)
            for parameter in rounded.parameters():
                parameter.data = parameter.data.to(dtype).float()
            self.gradients(f"{name}, {dtype}", folder, loss_and_gradients(rounded, tokens), tokens)

    def read_without_head(self, name, model, tokens):
        folder = self.folder / "base"
        model.base_model.save_pretrained(folder, safe_serialization=True)
        self.gradients(f"{name}, base model", folder, loss_and_gradients(model, tokens), tokens)

    def export(self, name, model, tokens, dtype, max_shard_bytes):
        source, out = self.folder / "source", self.folder / f"export-{dtype}-{max_shard_bytes}"
        model.save_pretrained(source, safe_serialization=True)
        self.program.run("export", source, out, str(dtype).removeprefix("torch."), max_shard_bytes)
        loaded, info = transformers.AutoModelForCausalLM.from_pretrained(
            out, torch_dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
        what = f"{name}, exported as {dtype}, shards of {max_shard_bytes}"
        self.expect(f"{what}: nothing missing or left over {info}", not any(map(len, info.values())))
        for key, value in model.state_dict().items():
            same = torch.equal(loaded.state_dict()[key], rounded(value, dtype))
            self.expect(f"{what}: {key} is the same", same)
        if dtype == torch.float32:
            with torch.no_grad():
                logits = [m.eval()(input_ids=tokens["inputs"]).logits for m in (loaded, model)]
            self.close(f"{what}: logits", *logits, logits[1].abs().max(), 1e-4)


def count_failures(program):
    failures, tokens = 0, make_tokens()
    for name, config in CONFIGS.items():
        print(name, flush=True)
        model = make_model(config)
        with tempfile.TemporaryDirectory() as folder:
            check = Check(program, Path(folder))
            if "MXFP4" in name:
                check.read_mxfp4(name, model, tokens)
                failures += check.failures
                continue
            if getattr(config, "rope_scaling", None):
                check.read_scaled(name, model, tokens)
                failures += check.failures
                continue
            check.read_folders(name, model, tokens)
            if name in ("qwen2_moe", "qwen3_moe"):
                check.expect("some experts get no token", has_idle_experts(model))
            if not adds_balance(model):  # the balance of documents one by one is another loss
                check.read_packed(name, model)
            if name in ("gpt2", "qwen3"):
                check.read_half(name, config, tokens)
                check.read_without_head(name, model, tokens)
            check.export(name, model, tokens, torch.float32, 1 << 30)
            check.export(name, model, tokens, torch.float32, 20_000)
            check.export(name, model, tokens, torch.bfloat16, 20_000)
            failures += check.failures
    return failures


def main():
    with ServedProgram(sys.argv[1]) as program:
        failures = count_failures(program)
    print(f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
