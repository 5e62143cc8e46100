"""ResNet-50 and ResNet-101 for images of 224 × 224 (He et al., CVPR 2016, table 1).

Where a block halves the image, its 3 × 3 convolution does, as in the common implementations.
"""

from __future__ import annotations

from planner.layers import Model
from planner.models.builder import Builder

BLOCKS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}
_EXPANSION = 4


def resnet(depth: int, classes: int = 1000, batch: int = 32) -> Model:
    """The model with `depth` 50 or 101."""
    net = Builder()
    net.convolution("conv1", 7, (3, 64), 112, after=())
    net.normalisation("bn1", 64, 64 * 112 * 112)
    last = net.join("pool1", 64 * 56 * 56)
    channels, side = 64, 56
    for stage, blocks in enumerate(BLOCKS[depth]):
        width = 64 << stage
        for index in range(blocks):
            halves = stage > 0 and index == 0
            last = _bottleneck(
                net, f"layer{stage + 1}.{index}", last, channels, width, side, halves
            )
            channels = width * _EXPANSION
            side = side // 2 if halves else side
    net.join("pool2", channels, after=(last,))
    net.dense("fc", channels, classes)
    return net.model(f"resnet{depth}", batch)


def _bottleneck(
    net: Builder, name: str, taken: str, channels: int, width: int, side: int, halves: bool
) -> str:
    """Three convolutions beside a short cut, which has one of its own where shapes differ."""
    given, inner = width * _EXPANSION, side // 2 if halves else side
    net.convolution(f"{name}.conv1", 1, (channels, width), side, after=(taken,))
    net.normalisation(f"{name}.bn1", width, width * side * side)
    net.convolution(f"{name}.conv2", 3, (width, width), inner)
    net.normalisation(f"{name}.bn2", width, width * inner * inner)
    net.convolution(f"{name}.conv3", 1, (width, given), inner)
    long = net.normalisation(f"{name}.bn3", given, given * inner * inner)
    short = taken
    if channels != given or halves:
        net.convolution(f"{name}.downsample", 1, (channels, given), inner, after=(taken,))
        short = net.normalisation(f"{name}.downsample_bn", given, given * inner * inner)
    return net.join(f"{name}.add", given * inner * inner, after=(long, short))
