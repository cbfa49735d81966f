# SPDX-License-Identifier: Apache-2.0
"""Resizes and crops images as the model's own processor does, and knows what it makes of their pixels after that."""

import numpy

from athanor_common.errors import InputError


def load_processor(folder):
    import transformers
    try:
        return transformers.AutoImageProcessor.from_pretrained(folder, use_fast=False, trust_remote_code=False)
    except Exception as error:  # transformers raises whatever its parts raise
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError("--model", f"no image processor in '{folder}' can be read: {first_line}",
                         "Copy preprocessor_config.json of the model into it") from None


def set_side(processor, side):
    """Makes the processor give images of `side` pixels. What it crops keeps its share of the image."""
    size = dict(processor.size)
    if getattr(processor, "do_center_crop", False):
        before = dict(processor.crop_size)["height"]
        processor.size = {key: round(value * side / before) for key, value in size.items()}
        processor.crop_size = {"height": side, "width": side}
    else:
        processor.size = {"height": side, "width": side}


class Pixels:
    """Makes uint8 pixels. Training scales and normalises them: (pixel * scale - mean) / std."""

    def __init__(self, processor, config, side=None):
        self.processor = processor
        self.channels = config.get("num_channels", 3)
        self.side = config.get("image_size", 224)
        if self.channels not in (1, 3):
            raise InputError("--model", f"takes images of {self.channels} channels", "Use a model with 1 or 3")
        if side is not None:
            set_side(processor, side)
        self.scale = float(processor.rescale_factor) if processor.do_rescale else 1.0
        self.mean = self.of_channels("image_mean", 0.0)
        self.std = self.of_channels("image_std", 1.0)
        self.is_checked = False

    def of_channels(self, name, otherwise):
        value = getattr(self.processor, name) if self.processor.do_normalize else otherwise
        values = [float(item) for item in value] if isinstance(value, (list, tuple)) else [float(value)] * self.channels
        if len(values) != self.channels:
            raise InputError(f"preprocessor_config.json:{name}", f"has {len(values)} numbers for {self.channels} "
                             "channels", "Give one for each channel")
        return values

    def run(self, pixels, **more):
        return self.processor(pixels, return_tensors="np", input_data_format="channels_last", **more)["pixel_values"][0]

    def of(self, image):
        """Returns uint8 [channels, side, side]."""
        decoded = image.decoded(self.channels)
        made = self.run(decoded, do_rescale=False, do_normalize=False)
        if made.shape != (self.channels, self.side, self.side):
            raise InputError(
                "preprocessor_config.json:size", f"makes {made.shape[-2]} x {made.shape[-1]} pixels of {image.where}, "
                f"and the model's image_size is {self.side}", f"Give --image-size {self.side}: positions are not "
                "interpolated")
        if not self.is_checked:
            self.check(decoded, made, image.where)
        return made

    def check(self, decoded, made, where):
        """Refuses a processor that does more than the format can say."""
        shape = (self.channels, 1, 1)
        ours = (made * self.scale - numpy.reshape(self.mean, shape)) / numpy.reshape(self.std, shape)
        theirs = self.run(decoded)
        if made.dtype != numpy.uint8 or not numpy.allclose(ours, theirs, rtol=1e-5, atol=1e-5):
            raise InputError("preprocessor_config.json", f"makes other values of {where} than scale, mean and std do",
                             "Use a processor that resizes, crops, rescales and normalises alone")
        self.is_checked = True
