# SPDX-License-Identifier: Apache-2.0
"""Trains small transformers models with PyTorch alone, for comparison: every loss, gradient norm, weight and moment.

usage: reference.py FOLDER STEPS KIND FAMILY...     KIND: plain, packed, bf16-moments or int8-moments

Writes for each family FOLDER/FAMILY/model (the untrained model as a Hugging Face folder), tokens.bin (16-bit ids; with
"packed" the folder tokens of packed documents, which are trained on one by one here) and reference.safetensors:
"losses", "norms", and for every step k and parameter p "k/master/p", "k/first_moment/p" and "k/second_moment/p". With "bf16-moments" both moments are rounded to bf16 after every step,
stochastically, with PyTorch's own random numbers. With "int8-moments" they are rounded to what 8 bits and the scale of
a block can be, as bitsandbytes' 8-bit Adam does.
"""

import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from router_balance import run_with_balance  # noqa: E402
from stacked_experts import pieces  # noqa: E402

SEQUENCE, ACCUMULATION, MAX_NORM, VOCABULARY = 16, 2, 0.5, 64
COMMON = dict(vocab_size=VOCABULARY, max_position_embeddings=32, torch_dtype="float32")
LLAMA = dict(COMMON, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2)
CONFIGS = {
    "gpt2": lambda: transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=32, n_embd=32, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0,
        attn_pdrop=0),
    # transformers gives the padding token's input no gradient: one that does not occur here.
    "opt": lambda: transformers.OPTConfig(
        **COMMON, pad_token_id=VOCABULARY - 1, hidden_size=32, ffn_dim=64, num_hidden_layers=2, num_attention_heads=2,
        word_embed_proj_dim=32, dropout=0, attention_dropout=0),
    "llama": lambda: transformers.LlamaConfig(**LLAMA),
    "mistral": lambda: transformers.MistralConfig(**LLAMA, sliding_window=None),
    "qwen2": lambda: transformers.Qwen2Config(**LLAMA),
    "qwen3": lambda: transformers.Qwen3Config(**LLAMA, head_dim=8, tie_word_embeddings=True),
    "mixtral": lambda: transformers.MixtralConfig(**LLAMA, num_local_experts=4),
    "qwen2_moe": lambda: transformers.Qwen2MoeConfig(
        **LLAMA, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=24),
    "qwen3_moe": lambda: transformers.Qwen3MoeConfig(
        **LLAMA, head_dim=8, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=16, norm_topk_prob=True,
        output_router_logits=True, router_aux_loss_coef=0.1),
    "granitemoe": lambda: transformers.GraniteMoeConfig(
        **LLAMA, num_local_experts=4, embedding_multiplier=4.0, attention_multiplier=0.2, residual_multiplier=0.5,
        logits_scaling=2.0),
    "gpt_oss": lambda: transformers.GptOssConfig(
        **LLAMA, head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=5, output_router_logits=True,
        initializer_range=0.1, router_aux_loss_coef=0.1, rope_scaling=dict(rope_type="yarn", factor=2.0, truncate=False, beta_fast=4.0,
                                                    beta_slow=0.5, original_max_position_embeddings=16)),
    "olmoe": lambda: transformers.OlmoeConfig(
        **LLAMA, pad_token_id=VOCABULARY - 1, num_experts=6, num_experts_per_tok=2),
}


def make_tokens(count):
    generator = torch.Generator().manual_seed(5)
    noise = torch.randint(0, 4, (count,), generator=generator)
    return (torch.arange(count) * 7 + noise) % 61


def make_documents(steps):
    """Documents of two to SEQUENCE tokens, each with one token or more to learn; they differ a lot in how many."""
    generator = torch.Generator().manual_seed(8)
    tokens, begin, documents = make_tokens(40 * steps * SEQUENCE), 0, []
    for _ in range(4 * steps * ACCUMULATION):
        length = int(torch.randint(2, SEQUENCE + 1, (), generator=generator))
        chance = float(torch.rand((), generator=generator))
        learnt = [0, *(torch.rand(length - 1, generator=generator) < chance).int().tolist()]
        learnt[-1] = 1
        documents.append((tokens[begin : begin + length].tolist(), bytearray(learnt)))
        begin += length
    return documents


def write_packed(folder, steps):
    """Writes the folder with the program's own modules, and returns the documents of every sequence."""
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "cli" / folder) for folder in ("tokenize", "common")]
    from athanor_tokenize import packing, token_folder

    documents = make_documents(steps)
    packed = packing.best_fit_decreasing([len(ids) for ids, _ in documents], SEQUENCE)
    torch.manual_seed(1)
    packed = [packed[i] for i in torch.randperm(len(packed)).tolist()]
    # Small shards, so that steps take sequences of two.
    token_folder.write_folder(folder, documents, packed, SEQUENCE, VOCABULARY, "model", 0, shard_tokens=7 * SEQUENCE)
    return [[documents[i] for i in members] for members in packed]


def backward_of_documents(model, sequences):
    """Returns the mean loss of what is learnt in all `sequences`, whose gradient it adds."""
    count = sum(sum(learnt) for documents in sequences for _, learnt in documents)
    total = 0.0
    for ids, learnt in (document for documents in sequences for document in documents):
        window, mask = torch.tensor(ids), torch.tensor(list(learnt))
        logits = model(window[None, :-1]).logits[0].float()
        losses = torch.nn.functional.cross_entropy(logits, window[1:], reduction="none")
        loss = (losses * mask[1:]).sum() / count
        loss.backward()
        total += loss.item()
    return total


def give_idle_experts_zeros(model):
    """PyTorch would not decay experts that no token uses; athanor's optimizer knows no idle parameters."""
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)


def packed_step(model, optimizer, sequences, step):
    optimizer.zero_grad()
    of_step = [sequences[(step * ACCUMULATION + i) % len(sequences)] for i in range(ACCUMULATION)]
    loss = backward_of_documents(model, of_step)
    give_idle_experts_zeros(model)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
    optimizer.step()
    return loss, norm.item()


def decays(name, parameter):
    """Matrices do. The biases of all of gpt_oss's experts are one tensor, and no matrix."""
    return parameter.dim() >= 2 and not name.endswith("_bias")


def make_optimizer(model):
    matrices = [p for name, p in model.named_parameters() if decays(name, p)]
    others = [p for name, p in model.named_parameters() if not decays(name, p)]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8)


def round_moments(optimizer):
    """Rounds to one of the two nearest bf16, up with the probability of what the lower one lacks."""
    for state in optimizer.state.values():
        for moment in (state["exp_avg"], state["exp_avg_sq"]):
            towards_zero = (moment.view(torch.int32) & -0x10000).view(torch.float32)
            away = (towards_zero.view(torch.int32) + 0x10000).view(torch.float32)
            share = (moment - towards_zero) / (away - towards_zero)
            moment.copy_(torch.where(torch.rand_like(share) < share, away, towards_zero))


def dynamic_map(has_sign):
    """The numbers of an 8-bit moment, as bitsandbytes has them: 256, ascending."""
    positive = []
    for decade in range(7):
        edges = torch.linspace(0.1, 1, 2 ** (decade if has_sign else decade + 1) + 1, dtype=torch.float64)
        positive += ((edges[:-1] + edges[1:]) / 2 * 10.0 ** (decade - 6)).tolist()
    negative = [-number for number in positive] if has_sign else []
    return torch.tensor(sorted([*negative, 0.0, *positive, 1.0]))


MAPS = {"exp_avg": dynamic_map(True), "exp_avg_sq": dynamic_map(False)}
BLOCK = 256


def quantize_moments(optimizer):
    """Rounds to the nearest number of the map, times the largest magnitude of a block of the parameter."""
    for state in optimizer.state.values():
        for name, numbers in MAPS.items():
            moment = state[name]
            padded = torch.nn.functional.pad(moment.flatten(), (0, -moment.numel() % BLOCK)).view(-1, BLOCK)
            largest = padded.abs().amax(1, keepdim=True)
            parts = torch.where(largest > 0, padded / largest, torch.zeros(()))
            nearest = numbers[torch.bucketize(parts, (numbers[:-1] + numbers[1:]) / 2)]
            moment.copy_((nearest * largest).flatten()[: moment.numel()].view_as(moment))


def train_step(model, optimizer, tokens, step):
    """Returns the mean loss of the step's micro-batches and the gradient norm before clipping."""
    optimizer.zero_grad()
    total = 0.0
    for micro_batch in range(ACCUMULATION):
        first = (step * ACCUMULATION + micro_batch) * SEQUENCE
        window = tokens[first : first + SEQUENCE + 1]
        out, balance = run_with_balance(model, window[None, :-1])
        loss = torch.nn.functional.cross_entropy(out.logits[0].float(), window[1:]) + balance
        (loss / ACCUMULATION).backward()
        total += loss.item()
    give_idle_experts_zeros(model)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
    optimizer.step()
    return total / ACCUMULATION, norm.item()


def record(tensors, model, optimizer, step):
    for name, parameter in model.named_parameters():
        state = optimizer.state[parameter]
        parts = {"master": parameter.detach(), "first_moment": state["exp_avg"], "second_moment": state["exp_avg_sq"]}
        for part, values in parts.items():
            for piece, matrix in pieces(name, values):
                tensors[f"{step}/{part}/{piece}"] = matrix.clone()


def make_data(folder, steps, packed):
    """Writes the data. Returns them and the function that trains a step on them."""
    if packed:
        return write_packed(folder / "tokens", steps), packed_step
    tokens = make_tokens(max(4000, steps * ACCUMULATION * SEQUENCE + 1))
    tokens.numpy().astype("<u2").tofile(folder / "tokens.bin")
    return tokens, train_step


def train(folder, family, steps, kind):
    torch.manual_seed(3)
    folder.mkdir(exist_ok=True)
    config = CONFIGS[family]()
    if kind == "packed":
        config.output_router_logits = False  # the balance of experts is one of micro-batches, not of documents
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    model.save_pretrained(folder / "model")
    data, run_step = make_data(folder, steps, kind == "packed")
    optimizer = make_optimizer(model)
    tensors, losses, norms = {}, [], []
    for step in range(steps):
        loss, norm = run_step(model, optimizer, data, step)
        losses.append(loss)
        norms.append(norm)
        if kind == "bf16-moments":
            round_moments(optimizer)
        if kind == "int8-moments":
            quantize_moments(optimizer)
        record(tensors, model, optimizer, step + 1)
    tensors["losses"] = torch.tensor(losses, dtype=torch.float32)
    tensors["norms"] = torch.tensor(norms, dtype=torch.float32)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "reference.safetensors")


def main(folder, steps, kind, *families):
    # In one process: it takes longer to start than a family takes to train.
    torch.set_num_threads(1)
    for family in families:
        train(Path(folder) / family, family, int(steps), kind)


if __name__ == "__main__":
    main(*sys.argv[1:])
