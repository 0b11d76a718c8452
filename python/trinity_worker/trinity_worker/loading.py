"""Loads a model without more memory than its ranks keep: it is built without values, sharded, and then each rank reads
its part of each tensor from the safetensors files."""

import contextlib
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch.distributed.tensor import DTensor, Replicate
from transformers import AutoConfig, GenerationConfig, PreTrainedModel
from transformers.core_model_loading import revert_weight_conversion

from .host import local

TYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
BLOCK = 16 << 20  # bytes that a rank reads at once

MODEL_FILE, ADAPTER_FILE = "model.safetensors", "adapter_model.safetensors"
ADAPTER, PEFT = "default", "base_model.model."  # PEFT's name of the only adapter, and what its files put before others

# Models of text and images whose text part is trained without the rest.
TEXT_ALONE = ("gemma3", "mistral3", "qwen3_5")

# How names of the text part begin in files of a model of text and images, in place of the model's own prefix.
COMPOSITE = ("model.language_model.", "language_model.model.")

Region = list[tuple[int, int]]
"""A part of a tensor: from where to where in each dimension."""


@contextmanager
def without_values() -> Iterator[None]:
    """Has modules made whose weights have shapes alone. Their buffers have values, which files lack."""
    register = nn.Module.register_parameter

    def blank(module: nn.Module, name: str, p: nn.Parameter | None) -> None:
        if p is not None and not p.is_meta:
            p = nn.Parameter(p.to("meta"), requires_grad=p.requires_grad)
        register(module, name, p)

    with mock.patch.object(nn.Module, "register_parameter", blank):
        yield


def config_of(path: str) -> Any:
    """Returns the configuration of a model, or of its text part if that is trained alone."""
    config = AutoConfig.from_pretrained(path)
    text = config.get_text_config(decoder=True)
    if config.model_type in TEXT_ALONE:
        with open(os.path.join(path, "config.json")) as f:
            tied = json.load(f).get("tie_word_embeddings")
        if tied is not None:
            text.tie_word_embeddings = tied
        return text
    return config


def build(of: Any, config: Any, path: str, **kwargs: Any) -> Any:
    """Returns a model of a class for a configuration, whose weights have no values yet."""
    with without_values():
        model = of.from_config(config, **kwargs)
    if model.can_generate():
        with contextlib.suppress(OSError):  # a directory without it
            model.generation_config = GenerationConfig.from_pretrained(path)
    return model


@dataclass
class Stored:
    """A tensor in a file."""

    file: str
    name: str
    kind: str  # of its numbers, as the file says it
    shape: list[int]
    offset: int

    def known(self) -> bool:
        """Says whether read knows its numbers."""
        return self.kind in TYPES

    def read(self, region: Region, out: torch.Tensor) -> None:
        """Fills out with a region, block by block."""
        if not self.known():
            raise ValueError(f"{self.file}: tensor {self.name} is {self.kind}; save it as one of {', '.join(TYPES)}")
        dtype = TYPES[self.kind]
        row = math.prod(self.shape[1:]) * dtype.itemsize
        low, high = region[0] if region else (0, 1)
        step = max(1, BLOCK // max(1, row))
        inner = tuple(slice(*r) for r in region[1:])
        with open(self.file, "rb", buffering=0) as file:
            for a in range(low, high, step):
                raw = bytearray((min(a + step, high) - a) * row)
                file.seek(self.offset + a * row)
                if file.readinto(raw) != len(raw):
                    raise ValueError(f"{self.file} ends before its tensors")
                block = torch.frombuffer(raw, dtype=dtype).view(-1, *self.shape[1:])
                out[a - low : a - low + len(block)].copy_(block[(slice(None), *inner)])


def stored(path: str, adapter: bool = False) -> dict[str, Stored]:
    """Returns the tensors of a model, or of an adapter, in a directory by their names."""
    found: dict[str, Stored] = {}
    for name in [ADAPTER_FILE] if adapter else _files(path):
        file = os.path.join(path, name)
        with open(file, "rb") as f:
            length = int.from_bytes(f.read(8), "little")
            header = json.loads(f.read(length))
        header.pop("__metadata__", None)
        for key, t in header.items():
            found[key] = Stored(file, key, t["dtype"], t["shape"], 8 + length + t["data_offsets"][0])
    return found


def _files(path: str) -> list[str]:
    """Returns the files of a model. Others may lie beside them, such as the original weights of a Mistral."""
    try:
        with open(os.path.join(path, MODEL_FILE + ".index.json")) as f:
            names = sorted(set(json.load(f)["weight_map"].values()))
    except FileNotFoundError:
        return [MODEL_FILE]
    for name in names:
        if os.path.basename(name) != name:
            raise ValueError(f"model {path}: {MODEL_FILE}.index.json names {name}, which is no file of the directory")
    return names


def fill(root: nn.Module, inner: PreTrainedModel, path: str, lora: str, device: torch.device) -> None:
    """Gives the weights of a model inside of root, whether they are sharded or not, the values of its files, and those of
    an adapter the values of a PEFT directory. What has values already only moves to the device."""
    names = dict(inner.named_parameters(remove_duplicate=False))
    blank = [name for name, p in inner.named_parameters() if p.is_meta]
    first: dict[int, str] = {}
    tied = {name: other for name, p in names.items() if (other := first.setdefault(id(p), name)) != name}
    root._apply(lambda t: torch.empty_like(t, device=device) if t.is_meta else t.to(device))
    for name, other in tied.items():
        module, _, last = name.rpartition(".")
        setattr(inner.get_submodule(module), last, inner.get_parameter(other))
    files, adapter = stored(path), stored(lora, adapter=True) if lora else {}
    weights = dict(inner.named_parameters())
    with torch.no_grad():
        for name in blank:
            p = weights[name]
            mine = local(p).detach()
            if found := adapter.get(PEFT + name.replace(f".{ADAPTER}.", ".")):
                found.read(region(p), mine)
                continue
            plain = ".".join(part for part in name.split(".") if part != "base_layer")  # wrappers may be nested
            _read(inner, plain, list(p.shape), region(p), mine, files, path)
        for name in inner.state_dict().keys() - names.keys():  # buffers that files have, such as the scale of a layer
            if (found := _find(files, name, inner)) and found.known():
                found.read([(0, n) for n in found.shape], inner.get_buffer(name))


def region(p: torch.Tensor) -> Region:
    """Returns which part of a tensor this rank has."""
    all = [(0, n) for n in p.shape]
    if isinstance(p, DTensor):
        for dim in reversed(range(p.device_mesh.ndim)):  # FSDP, which is first, cuts what others have left
            placement: Any = p.placements[dim]
            if placement != Replicate():
                low, high = all[placement.dim]
                size = -(-(high - low) // p.device_mesh.size(dim))
                begin = low + p.device_mesh.get_local_rank(dim) * size
                all[placement.dim] = min(begin, high), min(begin + size, high)
    return all


def _read(
    inner: PreTrainedModel,
    name: str,
    shape: list[int],
    mine: Region,
    out: torch.Tensor,
    files: dict[str, Stored],
    path: str,
) -> None:
    if out.numel() == 0:
        return
    if (found := _find(files, name, inner)) and found.shape == shape:
        return found.read(mine, out)
    # Files have some tensors by other names or in parts, such as those of single experts. Their rows tell where a part lies.
    rows = torch.arange(math.prod(shape[:-1])).view(*shape[:-1], 1)
    parts = revert_weight_conversion(inner, {name: rows})
    for part, at in parts.items():
        source = _find(files, part, inner)
        if source is None or source.shape != [*at.shape[:-1], shape[-1]]:
            raise ValueError(f"model {path} has no tensor {part} of the shape {[*at.shape[:-1], shape[-1]]}")
        if source.shape == shape and len(parts) == 1:  # it has another name there
            return source.read(mine, out)
        flat, first = out.view(-1, shape[-1]), int(at.flatten()[0]) - mine[0][0] * math.prod(shape[1:-1])
        low, high = max(0, -first), min(at.numel(), len(flat) - first)
        if low < high:
            matrix = replace(source, shape=[at.numel(), shape[-1]])
            matrix.read([(low, high), (0, shape[-1])], flat[first + low : first + high])


def _find(files: dict[str, Stored], name: str, inner: PreTrainedModel) -> Stored | None:
    """Returns a tensor, also one of a file that holds the model without its head, or as the text part of another."""
    bare = name.removeprefix(inner.base_model_prefix + ".")
    places = (name, bare, *(prefix + bare for prefix in COMPOSITE), "language_model." + name)
    return next((files[place] for place in places if place in files), None)
