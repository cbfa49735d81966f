# SPDX-License-Identifier: Apache-2.0
"""A model whose layers have no weights: what is needed to see how the layers are called."""

import contextlib
import json
import pathlib

import torch
import transformers

from athanor_common.errors import InputError


class Stop(Exception):
    """Ends a forward pass early."""


@contextlib.contextmanager
def _parameters_without_memory():
    """Makes new parameters on the meta device. Buffers keep their values, since layers compute with them."""
    register = torch.nn.Module.register_parameter

    def register_on_meta(module, name, parameter):
        register(module, name, parameter)
        if parameter is not None:
            module._parameters[name] = torch.nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad)

    torch.nn.Module.register_parameter = register_on_meta
    try:
        yield
    finally:
        torch.nn.Module.register_parameter = register


def require_model_type(folder):
    """Refuses a folder that does not say its type: transformers would guess one from the folder's own name."""
    path = pathlib.Path(folder, "config.json")
    try:
        config = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError("--model", f"'{folder}' has no configuration: {error}",
                         "Give a folder with the config.json of a causal language model") from None
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise InputError(f"{path}:model_type", "is missing", "Name the type of the model there, as \"llama\"")


def read_config(folder):
    """Reads the configuration. A folder's own code is not run; without being told so, transformers asks on the terminal."""
    require_model_type(folder)
    try:
        return transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # transformers raises whatever its parts raise
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError("--model", f"'{folder}' has no configuration that transformers {transformers.__version__} "
                         f"reads: {first_line}", "Give a folder with the config.json of a causal language model") from None


def make_model(config, dtype):
    """Returns the model in evaluation mode, with the fastest attention that its class has."""
    problems = []
    for attention in ("sdpa", "eager"):
        try:
            with _parameters_without_memory():
                model = transformers.AutoModelForCausalLM.from_config(
                    config, dtype=dtype, attn_implementation=attention, trust_remote_code=False)
            model.tie_weights()
            return model.eval().requires_grad_(False)
        except Exception as error:  # as above
            problems.append(f"{(str(error).strip() or type(error).__name__).splitlines()[0]}")
    raise InputError("--model", f"no causal language model can be made of '{config.model_type}': {problems[-1]}",
                     "Give the folder of a causal language model")


def find_layers(model):
    """Returns the name and the list of the layers that the hidden state passes through."""
    count = model.config.get_text_config().num_hidden_layers
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == count:
            return name, list(module)
    raise InputError("--model", f"'{model.config.model_type}' has no list of {count} layers",
                     "Only models that are a row of layers can be traced")


@contextlib.contextmanager
def replaced_forward(module, forward):
    module.forward = forward
    try:
        yield
    finally:
        del module.forward


def one_value(parameter):
    """Returns a tensor of the parameter's shape that takes no memory: every element is the same."""
    return torch.full((), 0.01, dtype=parameter.dtype).expand(parameter.shape)


def give_values(model, layers):
    """Gives the parameters outside the layers values, so that the model can run up to its layers."""
    inside = {id(parameter) for layer in layers for parameter in layer.parameters()}
    made = {}
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None and id(parameter) not in inside and parameter.is_meta:
                if id(parameter) not in made:
                    made[id(parameter)] = torch.nn.Parameter(one_value(parameter), requires_grad=False)
                module._parameters[name] = made[id(parameter)]


@contextlib.contextmanager
def without_masks():
    """Lets the model make no attention masks: what comes before and after the layers does not need them, and a graph
    cannot hold how they are made."""
    try:
        from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS as makers
    except ImportError:  # versions before 4.53 make masks in another way
        yield
        return
    former = {name: makers[name] for name in ("sdpa", "eager")}
    try:
        for name in former:
            makers[name] = lambda *_arguments, **_keywords: None
        yield
    finally:
        for name, maker in former.items():
            makers[name] = maker


class Call:
    """How the model calls one layer: the hidden state, then the arguments and keywords that stay the same."""

    def __init__(self, hidden, arguments, keywords):
        self.hidden, self.arguments, self.keywords = hidden, arguments, keywords


def layer_calls(model, layers, sequence, returns_tuple):
    """Returns how the model calls its layers for one sequence. Layers are not run: each returns what it is given."""
    calls = []

    def stand_in(last):
        def forward(hidden, *arguments, **keywords):
            calls.append(Call(hidden, arguments, keywords))
            if last:
                raise Stop
            return (hidden,) if returns_tuple else hidden
        return forward

    with contextlib.ExitStack() as stack:
        for i, layer in enumerate(layers):
            stack.enter_context(replaced_forward(layer, stand_in(i + 1 == len(layers))))
        with contextlib.suppress(Stop), torch.no_grad():
            model(input_ids=torch.zeros((1, sequence), dtype=torch.int64), use_cache=False)
    chained = all(call.hidden is calls[0].hidden for call in calls)
    if len(calls) != len(layers) or not chained:
        raise InputError("--model", f"'{model.config.model_type}' changes the hidden state between its layers",
                         "Only models that are a row of layers can be traced")
    return calls


def first_call(model, layers, sequence):
    """Returns how the model calls its first layer."""
    call = []

    def forward(hidden, *arguments, **keywords):
        call.append(Call(hidden, arguments, keywords))
        raise Stop

    with replaced_forward(layers[0], forward), contextlib.suppress(Stop), torch.no_grad():
        model(input_ids=torch.zeros((1, sequence), dtype=torch.int64), use_cache=False)
    return call[0]
