#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the losses of a run with PyTorch FSDP2's, from the same weights, on the same tokens in the same order.

usage: torchrun --nproc-per-node N lab/check_fsdp2.py RUN [--tolerance T] [--noise] [--gradients] [--losses FILE]

RUN is the folder of an `athanor train` run of a gpt2 model that started from a Hugging Face folder (--model FOLDER;
`athanor train --steps 1 --lr 0 --export FOLDER` writes fresh weights as one). Options, model and data are those that
the run recorded; N may differ from the run's number of processes and must divide its micro-batches per step. Needs
torch alone. Runs on GPUs where torch finds them, else on the CPU (gloo).

Prints {"step", "loss", "fsdp2_loss", "relative_difference", "tolerance"} per step and a summary, one JSON object per
line; exits 4 where a step differs by more than the tolerance.

What differs between the two in bf16: both keep fp32 masters and moments, compute with parameters rounded to bf16, and
take the loss in fp32 from bf16 logits. FSDP2 (MixedPrecisionPolicy: param_dtype bf16, reduce_dtype fp32) sums gradients
over ranks and micro-batches in fp32; athanor sums over ranks in bf16 and over
micro-batches in fp32. Operators round intermediate results at other places: residuals, biases, norms.

The tolerance: bf16 has 8 significant bits, so one rounding changes a number by up to 2^-9 of it. A loss is a mean over
tokens, in which roundings cancel for the most part, so the first step agrees to far better than 2^-9. Updates then
differ as the gradients' roundings do, and add up over the steps: 2^-9 * (1 + step / 50). In fp32: 1e-5 likewise.

That holds where training is stable. Adam's first updates go by the signs of gradients, also of those that are nothing
but rounding, and where the loss jumps it multiplies what differs. --noise measures how much: FSDP2 trains once more
with its blocks compiled (torch.compile), which computes the same and rounds at other places, as athanor does. The
tolerance of a step is then three times the largest difference of FSDP2 from itself up to that step, if that is more.

--gradients compares what the first step's gradients left: Adam's first moments in the checkpoint of a run of one step
(`athanor train --steps 1 --checkpoint-every 1`), parameter by parameter. What they should be comes from FSDP2 in fp32,
one sequence at a time, from the same weights: {"parameter", "norm", "error", "fsdp2_error", "difference"} and
with --noise "fsdp2_compiled_error", each over the fp32 norm, the largest errors first.
"""

import argparse
import json
import math
import os
import pathlib
import struct
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import distribute_tensor

OUTSIDE_TOLERANCE, BAD_INPUT = 4, 2
NOISE_FACTOR = 3
PARAMETER_ALIGNMENT = 32  # elements (sim/model/chunk_layout.hpp)
TORCH_TYPES_OF_PLAN = {"float32": torch.float32, "bfloat16": torch.bfloat16}
TORCH_TYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
ACTIVATIONS = {"gelu_new": lambda x: F.gelu(x, approximate="tanh"), "gelu": F.gelu, "relu": F.relu}


class BadInput(Exception):
    """What the user gave cannot be compared; says why and the way out."""


class Conv1D(nn.Module):
    """A linear layer whose weight is stored [in, out], as in GPT-2."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(inputs, outputs)), nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        return torch.addmm(self.bias, x.flatten(0, 1), self.weight).view(*x.shape[:2], -1)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = c["n_head"]
        self.c_attn, self.c_proj = Conv1D(c["n_embd"], 3 * c["n_embd"]), Conv1D(c["n_embd"], c["n_embd"])

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.c_attn(x).chunk(3, -1))
        return self.c_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        inner = c.get("n_inner") or 4 * c["n_embd"]
        self.c_fc, self.c_proj = Conv1D(c["n_embd"], inner), Conv1D(inner, c["n_embd"])
        self.activation = ACTIVATIONS[c.get("activation_function", "gelu_new")]

    def forward(self, x):
        return self.c_proj(self.activation(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.ln_1, self.ln_2 = (nn.LayerNorm(c["n_embd"], eps=c.get("layer_norm_epsilon", 1e-5)) for _ in range(2))
        self.attn, self.mlp = Attention(c), Mlp(c)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    """Parameters are named as in a Hugging Face folder."""

    def __init__(self, c):
        super().__init__()
        self.transformer = nn.Module()
        self.transformer.wte = nn.Embedding(c["vocab_size"], c["n_embd"])
        self.transformer.wpe = nn.Embedding(c["n_positions"], c["n_embd"])
        self.transformer.h = nn.ModuleList(Block(c) for _ in range(c["n_layer"]))
        self.transformer.ln_f = nn.LayerNorm(c["n_embd"], eps=c.get("layer_norm_epsilon", 1e-5))
        tied = c.get("tie_word_embeddings", True)
        self.lm_head = None if tied else nn.Linear(c["n_embd"], c["vocab_size"], bias=False)

    def forward(self, ids, targets):
        t = self.transformer
        x = t.wte(ids) + t.wpe(torch.arange(ids.shape[1], device=ids.device))
        for block in t.h:
            x = block(x)
        x = t.ln_f(x)
        logits = F.linear(x, t.wte.weight) if self.lm_head is None else self.lm_head(x)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def read_json(path):
    try:
        return json.loads(pathlib.Path(path).read_text())
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: {error}. Give the folder of an `athanor train` run.") from error


def read_safetensors(path):
    """{name: tensor} of one file, mapped into memory."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    data = torch.from_file(str(path), shared=False, size=path.stat().st_size, dtype=torch.uint8)[8 + length :]
    header.pop("__metadata__", None)
    return {
        name: data[slice(*entry["data_offsets"])].view(TORCH_TYPES[entry["dtype"]]).view(entry["shape"])
        for name, entry in header.items()
    }


def read_weights(folder):
    files = sorted(pathlib.Path(folder).glob("*.safetensors"))
    if not files:
        raise BadInput(f"{folder}: no *.safetensors. Start the run from a Hugging Face folder (--model FOLDER).")
    return {name: tensor for file in files for name, tensor in read_safetensors(file).items()}


def read_tokens(path, kind):
    """Token ids as `athanor train` reads them (executor/io/README.md); of its formats all but Megatron's."""
    path = pathlib.Path(path)
    if path.suffix == ".idx" or not path.is_file():
        raise BadInput(f"{path}: is no llm.c, nanoGPT or text file. Megatron's format is not read here.")
    stored, skip = {"bytes": torch.uint8, "uint16": torch.uint16, "uint32": torch.uint32}.get(kind), 0
    with open(path, "rb") as file:
        magic = int.from_bytes(file.read(4), "little")
    if stored is None and magic in (20240520, 20240801):
        stored, skip = torch.uint16 if magic == 20240520 else torch.uint32, 1024
    elif stored is None:
        stored = torch.uint16 if path.suffix == ".bin" else torch.uint8
    data = torch.from_file(str(path), shared=False, size=path.stat().st_size, dtype=torch.uint8)
    return data[skip:].view(stored)


def read_run(folder):
    """(options, plan, {step: loss}) of a run."""
    folder = pathlib.Path(folder)
    options, plan = read_json(folder / "run.json")["config"], read_json(folder / "plan.json")
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    losses = {line["step"]: line["loss_metrics/global_avg_loss"] for line in lines}
    if sorted(losses) != list(range(1, options["steps"] + 1)):
        raise BadInput(f"{folder}/metrics.jsonl: has {len(losses)} of {options['steps']} steps. Finish the run first.")
    return options, plan, losses


def learning_rate(options, step):
    """As executor/train/lr_schedule.cpp; `step` counts from 0."""
    peak, least, warmup = options["lr"], options["min_lr"], options["warmup_steps"]
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    if options["schedule"] == "constant":
        return peak
    done = min(1.0, (step - warmup) / max(1, options["steps"] - warmup))
    left = 1.0 - done if options["schedule"] == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
    return least + left * (peak - least)


def build_model(folder, dtype, mesh, compiled):
    """The model sharded by FSDP2 with the folder's weights as its fp32 masters."""
    config = read_json(pathlib.Path(folder) / "config.json")
    if config.get("model_type") != "gpt2":
        raise BadInput(f"{folder}/config.json: model_type is {config.get('model_type')!r}. Only gpt2 is built here.")
    with torch.device("meta"):
        model = Gpt2(config)
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
    for block in model.transformer.h:
        if compiled:
            block.compile()
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    model.to_empty(device=mesh.device_type)
    weights = read_weights(folder)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name not in weights:
                raise BadInput(f"{folder}: has no tensor {name!r}. Is it the folder of another model?")
            full = weights[name].to(mesh.device_type, torch.float32)
            parameter.copy_(distribute_tensor(full, parameter.device_mesh, parameter.placements, src_data_rank=None))
    return model


def make_optimizer(model, options):
    groups = [
        {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": options["weight_decay"]},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    betas = (options["beta1"], options["beta2"])
    return torch.optim.AdamW(groups, lr=options["lr"], betas=betas, eps=options["epsilon"], fused=True)


def micro_batches_per_step(plan):
    return plan["accumulation"] * plan["world_size"]


def micro_batches(tokens, plan, step, rank, world):
    """This rank's (inputs, targets) of a step: micro-batches of consecutive windows, dealt out in turn."""
    sequence, size, per_step = plan["sequence_length"], plan["micro_batch"], micro_batches_per_step(plan)
    windows = (len(tokens) - 1) // sequence
    for index in range(step * per_step + rank, (step + 1) * per_step, world):
        starts = [(index * size + i) % windows * sequence for i in range(size)]
        rows = torch.stack([tokens[start : start + sequence + 1] for start in starts]).to(torch.int64)
        yield rows[:, :-1], rows[:, 1:]


def train(model, optimizer, options, plan, tokens, device):
    """Yields the loss of every step, the mean over all ranks' micro-batches."""
    rank, world = dist.get_rank(), dist.get_world_size()
    per_rank = micro_batches_per_step(plan) // world
    for step in range(options["steps"]):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(options, step)
        total = torch.zeros((), device=device)
        for i, (inputs, targets) in enumerate(micro_batches(tokens, plan, step, rank, world)):
            model.set_requires_gradient_sync(i + 1 == per_rank)
            loss = model(inputs.to(device), targets.to(device)) / per_rank
            loss.backward()
            total += loss.detach()
        if plan["clipping"] != "none":
            nn.utils.clip_grad_norm_(model.parameters(), plan["max_gradient_norm"])
        optimizer.step()
        optimizer.zero_grad()
        dist.all_reduce(total)
        yield total.item() / world


def in_fp32(plan):
    """The plan's step in fp32, one sequence at a time: the same sums, and memory for wider activations."""
    split = {"micro_batch": 1, "accumulation": plan["accumulation"] * plan["micro_batch"], "dtype": "float32"}
    return plan | split


def train_fsdp2(options, plan, device, compiled, with_moments):
    """From the start: (the losses of every step, {name: first moment at the end} if wanted)."""
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    model = build_model(options["model"], TORCH_TYPES_OF_PLAN[plan["dtype"]], mesh, compiled)
    optimizer = make_optimizer(model, options)
    data = options["data"]  # a list; a path in runs before there could be several
    tokens = read_tokens(data if isinstance(data, str) else data[0], options["tokens_dtype"])
    losses = list(train(model, optimizer, options, plan, tokens, device))
    named = model.named_parameters() if with_moments else ()
    return losses, {name: optimizer.state[p]["exp_avg"].full_tensor().cpu() for name, p in named}


def read_first_moments(folder):
    """{name: tensor} of the run's newest checkpoint."""
    checkpoints = sorted(pathlib.Path(folder).glob("checkpoints/step-" + 8 * "[0-9]"))
    if not checkpoints:
        raise BadInput(f"{folder}: has no checkpoint. Train with --checkpoint-every 1.")
    parts = {}
    for name, tensor in read_weights(checkpoints[-1]).items():
        unit, _, rest = name.rpartition("/")
        part, _, first = rest.partition("@")
        if part == "first_moment":
            parts.setdefault(unit, {})[int(first)] = tensor
    moments = {}
    for unit in read_json(pathlib.Path(folder) / "profile.json")["architecture"]["units"]:
        flat = torch.cat([part for _, part in sorted(parts[unit["name"]].items())])
        offset = 0
        for parameter in unit["parameters"]:
            elements = math.prod(parameter["shape"])
            moments[parameter["name"]] = flat[offset : offset + elements].view(parameter["shape"])
            offset += -(-elements // PARAMETER_ALIGNMENT) * PARAMETER_ALIGNMENT
    return moments


def report_gradients(exact, others, out):
    """`others`: {key: (moments, those that they are compared with)}."""
    lines = []
    for name, moment in exact.items():
        squares = {"norm": moment.to(torch.float64).square().sum().item()}
        for key, (moments, reference) in others.items():
            difference = moments[name].to(torch.float64) - reference[name].to(torch.float64)
            squares[key] = difference.square().sum().item()
        lines.append((name, squares))
    lines.sort(key=lambda line: -line[1]["error"])
    lines.append(("all", {key: sum(squares[key] for _, squares in lines) for key in lines[0][1]}))
    for name, squares in lines:
        norm = math.sqrt(squares.pop("norm"))
        relative = {key: math.sqrt(square) / norm if norm else 0.0 for key, square in squares.items()}
        report(out, {"parameter": name, "norm": norm, **relative})


def compare(arguments):
    folder, out = arguments.run, arguments.losses
    options, plan, losses = read_run(folder)
    use_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if use_gpu else torch.device("cpu")
    if use_gpu:
        torch.cuda.set_device(device)
    if micro_batches_per_step(plan) % dist.get_world_size():
        raise BadInput(f"{folder}/plan.json: its micro-batches per step cannot be dealt out to "
                       f"{dist.get_world_size()} processes.")
    base = arguments.tolerance or (2.0**-9 if plan["dtype"] == "bfloat16" else 1e-5)
    fsdp2, moments = train_fsdp2(options, plan, device, False, arguments.gradients)
    again, moments_again = [], {}
    if arguments.noise:
        again, moments_again = train_fsdp2(options, plan, device, True, arguments.gradients)
    if arguments.gradients:
        own, (_, exact) = read_first_moments(folder), train_fsdp2(options, in_fp32(plan), device, False, True)
        others = {"error": (own, exact), "fsdp2_error": (moments, exact), "difference": (own, moments)}
        if again:
            others["fsdp2_compiled_error"] = (moments_again, exact)
        report_gradients(exact, others, out)
    worst = beyond = noise = 0
    for step, loss in enumerate(fsdp2, start=1):
        compiled = {"fsdp2_compiled_loss": again[step - 1]} if again else {}
        noise = max([noise, *(abs(other - loss) / abs(loss) for other in compiled.values())])
        difference = abs(loss - losses[step]) / abs(losses[step])
        allowed = max(base * (1 + step / 50), NOISE_FACTOR * noise)
        # A loss that is not a number differs.
        beyond += not difference <= allowed
        worst = max(worst, difference)
        report(out, {"step": step, "loss": losses[step], "fsdp2_loss": loss, **compiled,
                     "relative_difference": difference, "tolerance": allowed})
    report(out, {"steps": options["steps"], "processes": dist.get_world_size(), "dtype": plan["dtype"],
                 "torch": torch.__version__, "largest_relative_difference": worst,
                 **({"largest_noise": noise} if again else {}), "steps_outside_tolerance": beyond})
    return OUTSIDE_TOLERANCE if beyond else 0


def report(out, record):
    if dist.get_rank() == 0:
        print(json.dumps(record), file=out, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="folder of the run")
    parser.add_argument("--tolerance", type=float, help="relative, at the start (default: 2^-9 in bf16, 1e-5 in fp32)")
    parser.add_argument("--noise", action="store_true", help="measure how far FSDP2 is from itself, compiled")
    parser.add_argument("--gradients", action="store_true", help="compare first moments with the newest checkpoint's")
    parser.add_argument("--losses", type=argparse.FileType("w"), default=sys.stdout, help="file for the lines")
    arguments = parser.parse_args()
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}.items():
        os.environ.setdefault(name, value)
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    try:
        return compare(arguments)
    except BadInput as error:
        print(f"check_fsdp2: {error}", file=sys.stderr)
        return BAD_INPUT
    finally:
        arguments.losses.flush()
        dist.destroy_process_group()


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # threads of torch that outlive the interpreter abort the process now and then
