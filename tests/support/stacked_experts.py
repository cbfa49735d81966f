# SPDX-License-Identifier: Apache-2.0
"""Parameters that transformers keeps as one tensor, and athanor as one matrix or bias of each expert."""


def pieces(name, stack):
    """The parameters, under athanor's names, of a tensor that has those of all experts; else the tensor itself."""
    if ".mlp.experts." in name and name.rpartition(".")[2] in GPT_OSS:
        return gpt_oss_pieces(name, stack)
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


GPT_OSS = {
    "gate_up_proj": ("gate_proj", "up_proj"),
    "gate_up_proj_bias": ("gate_proj", "up_proj"),
    "down_proj": ("down_proj",),
    "down_proj_bias": ("down_proj",),
}


def gpt_oss_pieces(name, stack):
    """Layers take turns in the last dimension; matrices have their inputs first."""
    experts, _, kind = name.rpartition(".")
    layers, what = GPT_OSS[kind], "bias" if kind.endswith("_bias") else "weight"
    return [
        (f"{experts}.{expert}.{layer}.{what}", of_expert[..., i :: len(layers)].t().contiguous())
        for expert, of_expert in enumerate(stack)
        for i, layer in enumerate(layers)
    ]
