# SPDX-License-Identifier: Apache-2.0
"""Small classifiers of images with random weights, and pictures of a few classes."""

import json
import pathlib

import numpy
import torch
import transformers

SIDE, LABELS = 16, ("cross", "disc", "square")
SHAPE = dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=2, image_size=SIDE, patch_size=4,
             num_labels=len(LABELS))
CONFIGS = {
    "vit": transformers.ViTConfig(**SHAPE, intermediate_size=48),
    "vit without biases, gelu_new": transformers.ViTConfig(**SHAPE, intermediate_size=48, qkv_bias=False,
                                                           hidden_act="gelu_new", layer_norm_eps=1e-3),
    "vit, one channel, patches that leave a rest": transformers.ViTConfig(
        **SHAPE | dict(patch_size=5, num_channels=1), intermediate_size=48),
    "dinov2": transformers.Dinov2Config(**SHAPE, mlp_ratio=2),
    "dinov2, gated": transformers.Dinov2Config(**SHAPE, mlp_ratio=2, use_swiglu_ffn=True, use_mask_token=False),
}


def make_model(config, seed=5):
    """Returns weights far from their initial values, so that no norm, bias or scale is trivial.

    Tokens differ much: gradients of queries are differences between tokens, and would drown in rounding."""
    torch.manual_seed(seed)
    model = transformers.AutoModelForImageClassification.from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(0.0, 1.0 if "embeddings" in name else 0.1).add_(1.0 if parameter.dim() == 1 else 0.0)
    return model.float().eval()


def picture(label, number, rng):
    """Draws a shape at a place that changes, on noise: uint8 [24, 20, 3]."""
    y, x = numpy.mgrid[:24, :20]
    y, x = abs(y - 8 - number % 7), abs(x - 7 - number % 5)
    inside = {"disc": x * x + y * y < 20, "square": numpy.maximum(x, y) < 5, "cross": numpy.minimum(x, y) < 2}[label]
    noise = rng.integers(0, 80, (24, 20, 3))
    return (noise + 170 * inside[..., None]).astype(numpy.uint8)


def write_pictures(folder, of_class, seed=0, labels=LABELS):
    """Writes a folder of class folders."""
    from PIL import Image
    rng = numpy.random.default_rng(seed)
    for label in labels:
        pathlib.Path(folder, label).mkdir(parents=True)
        for number in range(of_class):
            Image.fromarray(picture(label, number, rng)).save(pathlib.Path(folder, label, f"{number}.png"))


def write_processor(folder, side=SIDE, **more):
    settings = dict(image_processor_type="ViTImageProcessor", do_resize=True, size={"height": side, "width": side},
                    do_rescale=True, rescale_factor=1 / 255, do_normalize=True, image_mean=[0.5, 0.4, 0.3],
                    image_std=[0.5, 0.6, 0.7], resample=2) | more
    pathlib.Path(folder, "preprocessor_config.json").write_text(json.dumps(settings))
