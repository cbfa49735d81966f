# SPDX-License-Identifier: Apache-2.0
"""The loss that keeps a mixture's experts equally busy, as transformers defines it."""

import torch


def run_with_balance(model, tokens):
    """Returns the model's output for `tokens` and the balance loss with its factor; 0 where the model adds none.

    transformers 4 records for gpt_oss the weights of a token's experts in place of the router's scores, and takes the
    softmax once more. transformers 5 records the scores, as both do for all other models; so does this.
    """
    if not getattr(model.config, "output_router_logits", False):
        return model(input_ids=tokens, use_cache=False), 0.0
    if model.config.model_type != "gpt_oss":
        out = model(input_ids=tokens, use_cache=False)
        return out, model.config.router_aux_loss_coef * out.aux_loss
    from transformers.models.gpt_oss import modeling_gpt_oss

    scores = []

    def record(router, inputs, _output):
        rows = inputs[0].reshape(-1, router.weight.shape[1])
        scores.append(torch.nn.functional.linear(rows, router.weight, router.bias))

    hooks = [layer.mlp.router.register_forward_hook(record) for layer in model.model.layers]
    out = model(input_ids=tokens, use_cache=False)
    for hook in hooks:
        hook.remove()
    loss = modeling_gpt_oss.load_balancing_loss_func(
        tuple(scores), model.config.num_local_experts, model.config.num_experts_per_tok)
    return out, model.config.router_aux_loss_coef * loss
