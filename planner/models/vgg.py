"""VGG-16 for images of 224 × 224 (Simonyan and Zisserman, ICLR 2015, configuration D)."""

from __future__ import annotations

from planner.layers import Model
from planner.models.builder import Builder

STAGES = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


def vgg16(batch_norm: int = 1, classes: int = 1000, batch: int = 32) -> Model:
    """The model, with or without (`batch_norm` 0) a normalisation behind each convolution."""
    net = Builder()
    channels, side = 3, 224
    for stage, widths in enumerate(STAGES):
        for index, width in enumerate(widths):
            name = f"conv{stage + 1}_{index + 1}"
            first = () if channels == 3 else None
            net.convolution(name, 3, (channels, width), side, bias=True, after=first)
            if batch_norm:
                net.normalisation(f"{name}_bn", width, width * side * side)
            channels = width
        side //= 2
        net.join(f"pool{stage + 1}", channels * side * side)
    net.dense("fc6", channels * side * side, 4096)
    net.dense("fc7", 4096, 4096)
    net.dense("fc8", 4096, classes)
    return net.model("vgg16" if batch_norm else "vgg16:batch_norm=0", batch)
