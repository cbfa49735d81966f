#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what products in FP8 would give a block of Llama-3-8B, and what they do to the loss.

usage: lab/fp8.py -o FP8.json [--tokens 16384] [--seconds 0.4] [--steps 200]

Products are cuBLASLt's with one scale for each tensor (torch._scaled_mm): e4m3 for weights and activations, e5m2 for
gradients, bf16 out, fast accumulation in forward alone. A cast reads bf16 once, with the scale of the step before, and
writes the tensor in FP8 both as it is and transposed, because FP8 products of Hopper take one layout alone; it finds the
largest value on the way. Times are by CUDA events over --seconds of repetitions on random data. The loss is of a small
Llama (--steps steps, the same weights and tokens) with bf16, with FP8, and with bf16 from other weights, for scale.
Needs PyTorch, Triton, transformers and a GPU of compute capability 9.0 that nobody else uses. Format: traces/README.md.
"""

import argparse
import datetime
import json
import pathlib
import statistics
import time

import torch
import triton
import triton.language as tl

HIDDEN, HEADS, KEY_HEADS, HEAD, INNER = 4096, 32, 8, 128, 14336
# name: (inputs, outputs) of a product of the block; q, k, v are one product, gate and up another
PRODUCTS = {
    "qkv": (HIDDEN, (HEADS + 2 * KEY_HEADS) * HEAD),
    "attention output": (HEADS * HEAD, HIDDEN),
    "gate and up": (HIDDEN, 2 * INNER),
    "down": (INNER, HIDDEN),
}
FORWARD, BACKWARD = torch.float8_e4m3fn, torch.float8_e5m2
LARGEST = {FORWARD: 448.0, BACKWARD: 57344.0}
TILE = 64
VOCABULARY = 512  # small enough to be learnt step by step: with 8192 the loss waits for step 150, and then jumps


@triton.jit
def cast_tile(source, plain, transposed, scale, largest, rows, columns, limit: tl.constexpr, TILE: tl.constexpr):
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    place = row[:, None].to(tl.int64) * columns + column[None, :]
    value = tl.load(source + place, mask=inside, other=0.0).to(tl.float32)
    tl.atomic_max(largest, tl.max(tl.max(tl.abs(value), axis=1), axis=0))
    value = value * tl.load(scale)
    value = tl.minimum(tl.maximum(value, -limit), limit).to(plain.dtype.element_ty)
    tl.store(plain + place, value, mask=inside)
    turned = column[:, None].to(tl.int64) * rows + row[None, :]
    turned_inside = (column[:, None] < columns) & (row[None, :] < rows)
    tl.store(transposed + turned, tl.trans(value), mask=turned_inside)


class Cast:
    """Casts of one tensor, step after step: the scale is from the largest value of the step before."""

    def __init__(self, kind):
        self.kind = kind
        self.scale = None
        self.largest = torch.zeros(1, device="cuda")

    def __call__(self, tensor):
        """Returns (plain, transposed, 1 / scale) of a matrix in bf16."""
        if self.scale is None:  # the first step: the scale of the tensor itself
            self.scale = LARGEST[self.kind] / tensor.abs().amax().float().clamp(min=1e-12).reshape(1)
        rows, columns = tensor.shape
        plain = torch.empty(rows, columns, device="cuda", dtype=self.kind)
        transposed = torch.empty(columns, rows, device="cuda", dtype=self.kind)
        self.largest.zero_()
        grid = (triton.cdiv(rows, TILE), triton.cdiv(columns, TILE))
        cast_tile[grid](tensor, plain, transposed, self.scale, self.largest, rows, columns, LARGEST[self.kind], TILE)
        inverse = 1 / self.scale
        self.scale = LARGEST[self.kind] / self.largest.clamp(min=1e-12)
        return plain, transposed, inverse


def product(left, right_transposed, left_scale, right_scale, fast):
    """left [m, k] times the transpose of right_transposed [n, k]."""
    return torch._scaled_mm(left, right_transposed.t(), left_scale, right_scale, out_dtype=torch.bfloat16,
                            use_fast_accum=fast)


def seconds_of(work, seconds):
    """Median seconds of `work` in sustained repetition."""
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    work()
    torch.cuda.synchronize()
    times = max(10, int(seconds / (time.perf_counter() - begin)))
    events = [torch.cuda.Event(enable_timing=True) for _ in range(times + 1)]
    for event in events[:-1]:
        event.record()
        work()
    events[-1].record()
    torch.cuda.synchronize()
    return 1e-3 * statistics.median(a.elapsed_time(b) for a, b in zip(events[times // 3:], events[times // 3 + 1:]))


def measure_product(tokens, inputs, outputs, seconds):
    """Seconds of a product's three phases in bf16 and in FP8, and of the casts that FP8 needs."""
    x = torch.randn(tokens, inputs, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(outputs, inputs, device="cuda", dtype=torch.bfloat16) * 0.02
    g = torch.randn(tokens, outputs, device="cuda", dtype=torch.bfloat16) * 1e-3
    found = {"bf16": {"forward": seconds_of(lambda: x @ w.t(), seconds),
                      "input gradient": seconds_of(lambda: g @ w, seconds),
                      "weight gradient": seconds_of(lambda: g.t() @ x, seconds)}}
    casts = {"x": Cast(FORWARD), "w": Cast(FORWARD), "g": Cast(BACKWARD)}
    x8, xt, sx = casts["x"](x)
    w8, wt, sw = casts["w"](w)
    g8, gt, sg = casts["g"](g)
    found["fp8"] = {"forward": seconds_of(lambda: product(x8, w8, sx, sw, True), seconds),
                    "input gradient": seconds_of(lambda: product(g8, wt, sg, sw, False), seconds),
                    "weight gradient": seconds_of(lambda: product(gt, xt, sg, sx, False), seconds)}
    found["casts"] = {name: seconds_of(lambda t=t, c=casts[k]: c(t), seconds)
                      for name, k, t in (("input", "x", x), ("weight", "w", w), ("gradient", "g", g))}
    exact = x[:256].double() @ w.double().t()
    off = product(x8, w8, sx, sw, True)[:256].double() - exact
    found["relative error of forward"] = (off.norm() / exact.norm()).item()
    found["flops of a phase"] = 2 * tokens * inputs * outputs
    return found


class Fp8Product(torch.autograd.Function):
    @staticmethod
    def forward(context, x, w, casts):
        x8, xt, sx = casts[0](x)
        w8, wt, sw = casts[1](w)
        context.save_for_backward(xt, sx, wt, sw)
        context.cast = casts[2]
        return product(x8, w8, sx, sw, True)

    @staticmethod
    def backward(context, g):
        xt, sx, wt, sw = context.saved_tensors
        g8, gt, sg = context.cast(g.contiguous())
        return product(g8, wt, sg, sw, False), product(gt, xt, sg, sx, False), None


class Fp8Linear(torch.nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.weight = linear.weight
        self.casts = (Cast(FORWARD), Cast(FORWARD), Cast(BACKWARD))

    def forward(self, x):
        y = Fp8Product.apply(x.reshape(-1, x.shape[-1]).bfloat16(), self.weight.bfloat16(), self.casts)
        return y.reshape(*x.shape[:-1], -1)


def tokens_of(steps, batch, length):
    """Sequences with something to learn: each token has eight likely successors."""
    generator = torch.Generator(device="cuda").manual_seed(11)
    successors = torch.randint(0, VOCABULARY, (VOCABULARY, 8), generator=generator, device="cuda")
    for _ in range(steps):
        choice = torch.randint(0, 8, (length, batch), generator=generator, device="cuda")
        row = torch.randint(0, VOCABULARY, (batch,), generator=generator, device="cuda")
        rows = [row]
        for at in range(length - 1):
            rows.append(successors[rows[-1], choice[at]])
        yield torch.stack(rows, dim=1)


def losses_of(fp8, seed, steps, batch=16, length=512):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(vocab_size=VOCABULARY, hidden_size=1024, intermediate_size=3584, num_hidden_layers=8,
                         num_attention_heads=16, num_key_value_heads=4, max_position_embeddings=length, use_cache=False)
    model = LlamaForCausalLM(config).cuda()
    if fp8:
        for layer in model.model.layers:
            for part in (layer.self_attn, layer.mlp):
                for name, child in list(part.named_children()):
                    if isinstance(child, torch.nn.Linear):
                        setattr(part, name, Fp8Linear(child))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), fused=True)
    losses = []
    for step, tokens in enumerate(tokens_of(steps, batch, length)):
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * min(1.0, (step + 1) / 20)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return [round(loss.item(), 5) for loss in losses]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    parser.add_argument("--tokens", type=int, default=16384, help="tokens of a micro-batch")
    parser.add_argument("--seconds", type=float, default=0.4, help="time for each measurement")
    parser.add_argument("--steps", type=int, default=200, help="steps of the small model")
    arguments = parser.parse_args()
    answer = {"schema": "athanor.fp8/1", "hardware": torch.cuda.get_device_name(),
              "date": datetime.date.today().isoformat(),
              "versions": {"PyTorch": torch.__version__, "Triton": triton.__version__, "CUDA": torch.version.cuda},
              "tokens": arguments.tokens, "vocabulary": VOCABULARY, "products": {}, "losses": {}}
    for name, (inputs, outputs) in PRODUCTS.items():
        answer["products"][name] = measure_product(arguments.tokens, inputs, outputs, arguments.seconds)
        arguments.output.write_text(json.dumps(answer, indent=1) + "\n")
    for name, fp8, seed in (("bf16", False, 1), ("fp8", True, 1), ("bf16, other weights", False, 2)):
        answer["losses"][name] = losses_of(fp8, seed, arguments.steps)
        arguments.output.write_text(json.dumps(answer, indent=1) + "\n")
    for kind in ("bf16", "fp8", "casts"):
        whole = sum(sum(each[kind].values()) for each in answer["products"].values())
        print(f"{kind}: {1e3 * whole:.2f} ms a block", flush=True)
    print("last losses:", {name: statistics.mean(each[-20:]) for name, each in answer["losses"].items()})


if __name__ == "__main__":
    main()
