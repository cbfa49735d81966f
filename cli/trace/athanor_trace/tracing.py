# SPDX-License-Identifier: Apache-2.0
"""Functions of tensors as graphs that LibTorch runs."""

import contextlib
import dataclasses
import hashlib
import re

import torch


@contextlib.contextmanager
def tensors_in_place_of(holders):
    """Puts tensors in the place of parameters and buffers. `holders` lists (dictionary, key, tensor)."""
    former = [(holder, key, holder[key]) for holder, key, _ in holders]
    for holder, key, tensor in holders:
        holder[key] = tensor
    try:
        yield
    finally:
        for holder, key, tensor in former:
            holder[key] = tensor


def _attention_with_plain_switch(attention):
    """While a graph is traced, sizes are tensors, and so is a comparison that says that attention is causal."""
    def run(*arguments, is_causal=False, **keywords):
        return attention(*arguments, is_causal=bool(is_causal), **keywords)
    return run


def _numbers_with_values(make):
    """A number on a device without memory would lose its value."""
    def run(data, *arguments, device=None, **keywords):
        lost = device is not None and torch.device(device).type == "meta"
        return make(data, *arguments, device=None if lost else device, **keywords)
    return run


@contextlib.contextmanager
def traceable_functions():
    """Replaces functions of PyTorch that a graph cannot hold as models call them."""
    attention, make = torch.nn.functional.scaled_dot_product_attention, torch.tensor
    torch.nn.functional.scaled_dot_product_attention = _attention_with_plain_switch(attention)
    torch.tensor = _numbers_with_values(make)
    try:
        yield
    finally:
        torch.nn.functional.scaled_dot_product_attention, torch.tensor = attention, make


class _Function(torch.nn.Module):
    """A function of inputs, constants and parameters, as a module whose constants are buffers."""

    def __init__(self, function, num_inputs, constants):
        super().__init__()
        self.function, self.num_inputs = function, num_inputs
        self.names = [f"constant_{i}" for i in range(len(constants))]
        for name, constant in zip(self.names, constants):
            self.register_buffer(name, constant)

    def forward(self, *tensors):
        inputs, parameters = tensors[:self.num_inputs], tensors[self.num_inputs:]
        return self.function(inputs, [getattr(self, name) for name in self.names], parameters)


@dataclasses.dataclass
class Graph:
    """A traced function of inputs and parameters. Its constants are in it."""
    module: torch.jit.ScriptModule
    key: str  # equal for equal functions
    reads: list  # for each constant, whether the graph reads it


def depends_on(function, inputs, constants, parameters):
    """Returns, for each parameter, whether `function(inputs, constants, parameters)` depends on it."""
    leaves = [parameter.detach().requires_grad_() for parameter in parameters]
    with traceable_functions(), torch.enable_grad():
        result = function(inputs, constants, leaves)
        gradients = torch.autograd.grad(result.sum(), leaves, allow_unused=True)
    return [gradient is not None for gradient in gradients]


def _constants_read(graph):
    return {node.s("name") for node in graph.nodes() if node.kind() == "prim::GetAttr"}


def _require_values(graph):
    for node in graph.findAllNodes("prim::Constant"):
        if node.hasAttribute("value") and node.kindOf("value") == "t" and node.t("value").is_meta:
            raise ValueError("it makes tensors from numbers while it runs")


def _digest(text, constants):
    digest = hashlib.sha256(text.encode())
    for name, constant in sorted(constants.items()):
        digest.update(f"{name}{constant.dtype}{tuple(constant.shape)}".encode())
        digest.update(constant.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def trace(function, inputs, constants, parameters):
    """Traces `function(inputs, constants, parameters)`. Only shapes and types of `inputs` and `parameters` matter.
    While it is traced, constants have the inputs' device and may have no memory."""
    stand_ins = [torch.empty_like(constant, device=inputs[0].device) for constant in constants]
    with torch.no_grad(), traceable_functions():
        module = torch.jit.trace(_Function(function, len(inputs), stand_ins), (*inputs, *parameters),
                                 check_trace=False)
    graph = module.graph
    torch._C._jit_pass_inline(graph)
    torch._C._jit_pass_dce(graph)
    _require_values(graph)
    read = _constants_read(graph)
    values = {}
    for i, constant in enumerate(constants):
        name = f"constant_{i}"
        values[name] = constant if name in read else torch.empty(0)
        setattr(module, name, values[name])
    text = re.sub(r"#[^\n]*|__torch__[.\w]*", "", str(graph))
    return Graph(module, _digest(text, values), [f"constant_{i}" in read for i in range(len(constants))])
