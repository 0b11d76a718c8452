"""A copy of the first layers of a network, in float32."""

import copy
import ctypes
import gc
from contextlib import suppress
from typing import Any

import torch
from torch import nn

from . import images
from .apart import Apart

BLOCKS = 8  # of a tower, which a row and its single sequences compute alike


def in_float32(network: Any) -> Any:
    """Returns a copy in float32 with the first layers, up to those in which each kind of layer is there. Layers keep their
    numbers, by which models choose masks and positions."""
    layers, kinds, count = network.decoder.layers, set(), 0
    for i, layer in enumerate(layers):
        if (kind := _kind(layer)) not in kinds:
            kinds.add(kind)
            count = i + 1
    network.decoder.layers = layers[:count]
    tower = images.part_of(network.body, images.TOWER) if network.eye else None
    all = images.blocks(tower) if tower else nn.ModuleList()
    cut = list(all[BLOCKS:])
    del all[BLOCKS:]
    try:
        small = copy.deepcopy(network)
    finally:
        network.decoder.layers = layers
        all.extend(cut)
    for module in small.modules():
        module.__dict__.pop("forward", None)  # which would compute with the modules of the original
    small.apart = Apart(small.lm)
    return small.float()


def free(device: torch.device) -> None:
    """Gives back the memory of copies that nobody has any more: their modules refer to one another in cycles."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    with suppress(AttributeError, OSError, TypeError):  # where the C library has no such function
        ctypes.CDLL(None).malloc_trim(0)


def _kind(layer: nn.Module) -> tuple[Any, ...]:
    """Returns what tells a layer from those of other kinds: its modules, and their switches and names."""
    return tuple(
        (name, type(module), *sorted((k, v) for k, v in vars(module).items() if _is_switch(k, v)))
        for name, module in layer.named_modules()
    )


def _is_switch(name: str, value: Any) -> bool:
    return not name.startswith("_") and (
        value is None
        or isinstance(value, bool | str)
        or isinstance(value, int)
        and value in (0, 1)
        and "idx" not in name
    )
