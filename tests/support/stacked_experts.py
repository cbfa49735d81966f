# SPDX-License-Identifier: Apache-2.0
"""Parameters that transformers keeps as one tensor, and athanor as one matrix of each expert."""


def pieces(name, stack):
    """The matrices of a tensor that has those of all of granitemoe's experts, under athanor's names."""
    start, linear, _ = name.partition("_linear.weight")
    if not linear:
        return [(name, stack)]
    mixture, _, kind = start.rpartition(".")
    layers = ("gate", "up") if kind == "input" else ("down",)
    return [
        (f"{mixture}.experts.{expert}.{layer}.weight", matrix.contiguous())
        for expert, matrices in enumerate(stack)
        for layer, matrix in zip(layers, matrices.chunk(len(layers)))
    ]
