# SPDX-License-Identifier: Apache-2.0
"""The units of a model: its embedding, its layers and its head, each as a traced function of the hidden state."""

import contextlib
import dataclasses

import torch
from torch.utils.flop_counter import FlopCounterMode

from athanor_common.errors import InputError

from . import skeleton
from .tracing import Graph, depends_on, tensors_in_place_of, trace, traceable_functions

SAMPLES = 2  # sequences of a batch while tracing; a graph takes any number


@dataclasses.dataclass
class Unit:
    name: str
    graph: Graph
    parameters: list  # (name, parameter) that the graph takes, in this order
    flops_per_token: float = 0.0  # matrix products
    flops_per_token_per_context: float = 0.0  # attention, halved by the causal mask


def _without_memory(tensor):
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")


def _flatten(value, tensors):
    """Returns `value` with the tensors in it replaced by their places in `tensors`, which grows."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return _Place(len(tensors) - 1)
    if isinstance(value, (tuple, list)):
        return tuple(_flatten(item, tensors) for item in value)
    if isinstance(value, dict):
        return {key: _flatten(item, tensors) for key, item in value.items()}
    return value


def _unflatten(value, tensors):
    if isinstance(value, _Place):
        return tensors[value.index]
    if isinstance(value, tuple):
        return tuple(_unflatten(item, tensors) for item in value)
    if isinstance(value, dict):
        return {key: _unflatten(item, tensors) for key, item in value.items()}
    return value


@dataclasses.dataclass
class _Place:
    index: int


def first_of(output):
    return output[0] if isinstance(output, (tuple, list)) else output


class Names:
    """Parameters of a model by identity: each has the name that comes first, as in its files."""

    def __init__(self, model):
        self.of = {}
        for name, parameter in model.named_parameters(remove_duplicate=False):
            self.of.setdefault(id(parameter), name)

    def holders(self, module):
        """Returns (dictionary, key, parameter) for every parameter of `module`, tied ones at each place."""
        return [(part._parameters, key, parameter) for part in module.modules()
                for key, parameter in part._parameters.items() if parameter is not None]

    def distinct(self, holders):
        seen = {}
        for _, _, parameter in holders:
            seen.setdefault(id(parameter), (self.of[id(parameter)], parameter))
        return seen


def _trace_with_used(function, inputs, constants, holders, distinct, stand_in, used_names):
    """Traces `function(inputs, constants)` as one of the parameters that its result depends on. `holders` and
    `distinct` list where the parameters stand, and each of them once. `used_names` has those parameters where they are
    known."""
    def with_parameters(taken):
        def run(inputs, constants, parameters):
            given = dict(zip(taken, parameters))
            places = [(holder, key, given[id(p)] if id(p) in given else stand_in(p)) for holder, key, p in holders]
            with tensors_in_place_of(places):
                return function(inputs, constants)
        return run

    everything = list(distinct)
    if used_names is None:
        stand_ins = [torch.empty_like(constant, device=inputs[0].device) for constant in constants]
        used = depends_on(with_parameters(everything), inputs, stand_ins, [stand_in(p) for _, p in distinct.values()])
    else:
        used = [name in used_names for name, _ in distinct.values()]
    taken = [identity for identity, is_used in zip(everything, used) if is_used]
    graph = trace(with_parameters(taken), inputs, constants, [stand_in(distinct[i][1]) for i in taken])
    return graph, [distinct[identity] for identity in taken]


def _is_mask(constant, sequence):
    return constant.dim() == 4 and constant.shape[-2:] == (sequence, sequence)


def _causal_mask(sequence):
    return torch.ones(1, 1, sequence, sequence, dtype=torch.bool).tril()


def _is_causal(mask, sequence):
    """Whether a mask is what attention does by itself when it is given none."""
    if not _is_mask(mask, sequence) or mask.shape[:2].numel() != 1:
        return False
    return torch.equal(mask if mask.dtype == torch.bool else mask == 0, _causal_mask(sequence))


def without_causal_masks(call, sequence):
    """Returns the call without masks that only say that attention is causal: its kernels are faster without."""
    def strip(value):
        return None if isinstance(value, torch.Tensor) and _is_causal(value, sequence) else value

    return skeleton.Call(call.hidden, tuple(strip(v) for v in call.arguments),
                         {k: strip(v) for k, v in call.keywords.items()})


def with_masks(call, sequence):
    """Returns the call with a causal mask where it has none: documents are told apart by masks."""
    if "attention_mask" not in call.keywords:
        raise ValueError("it takes no attention_mask, by which documents are told apart")
    mask = call.keywords["attention_mask"]
    return skeleton.Call(call.hidden, call.arguments,
                         call.keywords | {"attention_mask": _causal_mask(sequence) if mask is None else mask})


def _is_table(constant, sequence):
    """Whether a constant has a row for each position."""
    return constant.dim() >= 2 and constant.shape[:2] == (1, sequence)


def by_document(constant, sequence, positions, documents):
    """Returns a constant of the call for sequences of several documents. `positions` and `documents` are int64
    [batch, sequence]: each token's place in its document, and its document's number."""
    if _is_mask(constant, sequence):
        same = documents[:, None, :, None] == documents[:, None, None, :]
        if constant.dtype == torch.bool:
            return constant & same
        return constant.masked_fill(~same, torch.finfo(constant.dtype).min)
    return constant[0][positions] if _is_table(constant, sequence) else constant


def require_known_places(constants, graph, sequence):
    """Refuses a layer that reads positions in another form than those that by_document knows."""
    for constant, is_read in zip(constants, graph.reads):
        known = _is_mask(constant, sequence) or _is_table(constant, sequence)
        if is_read and not known and sequence in constant.shape:
            raise ValueError(f"it reads positions of shape {list(constant.shape)}, which do not restart in documents")


def trace_layer(name, layer, call, names, documents, used_names):
    """Traces one layer: of the hidden state and, with `documents`, of each token's place in its document and its
    document's number."""
    sequence = call.hidden.shape[1]
    call = with_masks(call, sequence) if documents else without_causal_masks(call, sequence)
    constants = []
    arguments, keywords = _flatten(call.arguments, constants), _flatten(call.keywords, constants)
    taken = len(constants)
    buffers = [(part._buffers, key, buffer) for part in layer.modules() for key, buffer in part._buffers.items()
               if buffer is not None]
    constants += [buffer for _, _, buffer in buffers]

    def function(inputs, constants):
        hidden, *places = inputs
        given = [by_document(constant, sequence, *places) for constant in constants[:taken]] if places else constants
        own = [(holder, key, constants[taken + i]) for i, (holder, key, _) in enumerate(buffers)]
        with tensors_in_place_of(own):
            return first_of(layer(hidden, *_unflatten(arguments, given), **_unflatten(keywords, given)))

    holders = names.holders(layer)
    hidden = torch.empty((SAMPLES, *call.hidden.shape[1:]), dtype=call.hidden.dtype, device="meta")
    places = [torch.empty((SAMPLES, sequence), dtype=torch.int64, device="meta")] * (2 if documents else 0)
    graph, parameters = _trace_with_used(function, [hidden, *places], constants, holders, names.distinct(holders),
                                         _without_memory, used_names)
    if documents:
        require_known_places(constants[:taken], graph, sequence)
    unit = Unit(name, graph, parameters, matrix_flops(parameters))
    with torch.no_grad(), traceable_functions(), FlopCounterMode(display=False) as counter:
        with tensors_in_place_of([(h, k, _without_memory(p)) for h, k, p in holders]):
            function([hidden, *places], [_without_memory(constant) for constant in constants])
    attention = counter.get_total_flops() - unit.flops_per_token * SAMPLES * sequence
    unit.flops_per_token_per_context = max(0.0, attention / (2 * SAMPLES * sequence**2))
    return unit


def matrix_flops(parameters):
    """FLOPs of one token: a multiplication and an addition for each element of every matrix."""
    return sum(2.0 * parameter.numel() for _, parameter in parameters if parameter.dim() == 2)


def _outside(model, layers, names):
    inside = {id(parameter) for layer in layers for parameter in layer.parameters()}
    return [item for item in names.holders(model) if id(item[2]) not in inside]


@contextlib.contextmanager
def _layers_replaced(layers, stand_ins):
    with contextlib.ExitStack() as stack:
        for layer, stand_in in zip(layers, stand_ins):
            stack.enter_context(skeleton.replaced_forward(layer, stand_in))
        yield


def _pass_on(returns_tuple):
    """Returns the forward of a layer that does nothing."""
    def forward(hidden, *_arguments, **_keywords):
        return (hidden,) if returns_tuple else hidden
    return forward


def trace_embedding(model, layers, names, sequence, returns_tuple, documents, used_names):
    def function(inputs, _constants):
        seen = []

        other = _pass_on(returns_tuple)

        def first(hidden, *_arguments, **_keywords):
            seen.append(hidden)
            return other(hidden)

        head = model.get_output_embeddings()
        with skeleton.without_masks(), _layers_replaced(layers, [first] + [other] * (len(layers) - 1)), \
                skeleton.replaced_forward(head, lambda hidden: hidden):
            model(input_ids=inputs[0], use_cache=False)
        return seen[0]

    holders = _outside(model, layers, names)
    tokens = torch.zeros((SAMPLES, sequence), dtype=torch.int64)
    graph, parameters = _trace_with_used(function, [tokens], [], holders, names.distinct(holders), skeleton.one_value,
                                         used_names)
    if documents and _depends_on_positions(graph, parameters, tokens):
        raise InputError("--documents", f"the embedding of '{model.config.model_type}' adds positions, which would not "
                         "restart in documents", "Leave it out; data may then have one document a sequence")
    return Unit("embedding", graph, parameters)


def _depends_on_positions(graph, parameters, tokens):
    """Whether equal tokens have different embeddings."""
    vocabulary = max(parameter.shape[0] for _, parameter in parameters)

    def values(shape):  # one row of the tokens' table is enough, and takes little memory
        return torch.rand((1, *shape[1:]) if shape[0] == vocabulary else shape).expand(shape)

    with torch.no_grad():
        embedded = graph.module(tokens, *(values(parameter.shape).to(parameter.dtype) for _, parameter in parameters))
    return not torch.equal(embedded, embedded[:, :1].expand_as(embedded))


def trace_head(model, layers, names, like, returns_tuple, plain, used_names):
    """Traces what follows the last layer: to the logits, or, if `plain`, to what the projection is given."""
    sequence = 4  # every token is projected alone

    def function(inputs, _constants):
        seen = []

        other = _pass_on(returns_tuple)

        def last(_hidden, *_arguments, **_keywords):
            return other(inputs[0])

        def project(value):
            seen.append(value)
            return value

        with skeleton.without_masks(), contextlib.ExitStack() as stack:
            stack.enter_context(_layers_replaced(layers, [other] * (len(layers) - 1) + [last]))
            if plain:
                stack.enter_context(skeleton.replaced_forward(model.get_output_embeddings(), project))
            logits = model(input_ids=torch.zeros((SAMPLES, sequence), dtype=torch.int64), use_cache=False).logits
        return seen[0] if plain else logits

    projection = model.get_output_embeddings().weight

    def stand_in(parameter):
        # Products of matrices that take no memory are slow.
        value = skeleton.one_value(parameter)
        return value.contiguous() if parameter is projection and not plain else value

    holders = _outside(model, layers, names)
    hidden = torch.zeros((SAMPLES, sequence, like.shape[-1]), dtype=like.dtype)
    graph, parameters = _trace_with_used(function, [hidden], [], holders, names.distinct(holders), stand_in, used_names)
    return Unit("head", graph, parameters)


def is_plain_projection(model, layers, returns_tuple):
    """Whether logits are the last hidden state times a matrix, and nothing else."""
    head = model.get_output_embeddings()
    if type(head) is not torch.nn.Linear or head.bias is not None:
        return False
    seen = []

    def project(hidden):
        seen.append(hidden.clone())
        return seen[0]

    with _layers_replaced(layers, [_pass_on(returns_tuple)] * len(layers)), skeleton.replaced_forward(head, project), torch.no_grad():
        logits = model(input_ids=torch.zeros((1, 4), dtype=torch.int64), use_cache=False).logits
    return logits is seen[0]


@dataclasses.dataclass
class Traced:
    units: list
    projection: str | None  # the weight that follows the last unit's graph; None: the graph ends in logits
    base_prefix: str  # of names that a file of the model without its head leaves out
    ignored_tensors: list  # what a file may hold and the units do not take: buffers, tied names


def _parameters_of_graphs(traced):
    """Returns the names of the parameters that each unit's graph takes; the projection follows the last graph."""
    used = [{name for name, _ in unit.parameters} for unit in traced.units]
    used[-1].discard(traced.projection)
    return used


def make_units(config, dtype, sequence, documents, alike=None, told=lambda done, total: None):
    """Traces every unit. `alike` is the same model traced in another type of element: its units take the same
    parameters, which takes time to find out. `told(done, total)` hears how many units are traced."""
    used = _parameters_of_graphs(alike) if alike else None
    model = skeleton.make_model(config, dtype)
    list_name, layers = skeleton.find_layers(model)
    skeleton.give_values(model, layers)
    names = Names(model)
    returns_tuple = _returns_tuple(layers[0], skeleton.first_call(model, layers, sequence))
    calls = skeleton.layer_calls(model, layers, sequence, returns_tuple)
    total = len(layers) + 2
    told(0, total)
    units = [trace_embedding(model, layers, names, sequence, returns_tuple, documents, used and used[0])]
    for i, (layer, call) in enumerate(zip(layers, calls)):
        told(i + 1, total)
        units.append(_try(f"{list_name}.{i}", lambda: trace_layer(
            f"block.{i}", layer, call, names, documents, used and used[i + 1])))
    told(total - 1, total)
    plain = is_plain_projection(model, layers, returns_tuple)
    head = trace_head(model, layers, names, calls[0].hidden, returns_tuple, plain, used and used[-1])
    projection = None
    if plain:
        weight = model.get_output_embeddings().weight
        projection = names.of[id(weight)]
        head.parameters.append((projection, weight))
    head.flops_per_token = matrix_flops(head.parameters)
    units.append(head)
    _require_all(model, units)
    others = [name for name, parameter in model.named_parameters(remove_duplicate=False)
              if name != names.of[id(parameter)]]
    buffers = [name for name, _ in model.named_buffers()]
    prefix = f"{model.base_model_prefix}." if model.base_model_prefix else ""
    return Traced(units, projection, prefix, sorted(others + buffers))


def _require_all(model, units):
    used = {id(parameter) for unit in units for _, parameter in unit.parameters}
    unused = [name for name, parameter in model.named_parameters() if id(parameter) not in used]
    if unused:
        raise InputError("--model", f"the loss does not depend on '{unused[0]}'", "Such models cannot be traced; of "
                         "one that also reads images, give the folder of its language model alone")


def _try(where, run):
    try:
        return run()
    except InputError:
        raise
    except Exception as error:  # a layer may do anything
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(where, f"cannot be traced: {reason}",
                         "Layers can be traced whose operations do not depend on values: no routing to experts, no "
                         "state that goes from token to token") from None


def _returns_tuple(layer, call):
    """Whether the layer returns a tuple, whose first item is the hidden state."""
    tensors = []
    arguments, keywords = _flatten(call.arguments, tensors), _flatten(call.keywords, tensors)
    holders = [(part._buffers, key, _without_memory(buffer)) for part in layer.modules()
               for key, buffer in part._buffers.items() if buffer is not None]
    stand_ins = [_without_memory(tensor) for tensor in tensors]

    def run():
        with torch.no_grad(), tensors_in_place_of(holders):
            return layer(_without_memory(call.hidden), *_unflatten(arguments, stand_ins),
                         **_unflatten(keywords, stand_ins))
    return isinstance(_try(type(layer).__name__, run), tuple)
