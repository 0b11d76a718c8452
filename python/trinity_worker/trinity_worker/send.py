"""The verb send: it gives the offered weights of a model to the ranks of a server, bucket by bucket.

All ranks gather each tensor. Rank 0 alone meets the server, so a server that fails ends no rank of the worker: the reply
then says why, as failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore
from transformers.core_model_loading import revert_weight_conversion

from . import channel
from .channel import Channel, Entry
from .network import whole
from .wire import BadRequest

if TYPE_CHECKING:
    from .model import Model

STAGES = ("plan", "open", "join", "bucket", "close")
DTYPES = ("float32", "bfloat16", "float16")


def check_send(model: Model, meta: dict[str, Any]) -> None:
    """Refuse what a worker can know to be wrong before any rank acts."""
    stage, sender = meta.get("stage"), model.sender
    if stage not in STAGES:
        raise BadRequest(f"stage is {stage!r}; expected one of {', '.join(STAGES)}")
    if model.spec.lora or model.spec.head:
        raise BadRequest("only whole language models are sent, no adapters, critics and reward models")
    if stage == "plan":
        if meta.get("dtype") not in DTYPES or not isinstance(meta.get("limit"), int) or meta["limit"] < 1:
            raise BadRequest(f"dtype must be one of {', '.join(DTYPES)} and limit a number of bytes")
        return
    if sender is None:
        raise BadRequest("the stage plan, which lists the tensors, is missing")
    if stage == "open":
        if meta.get("transport") not in channel.TRANSPORTS:
            raise BadRequest(f"transport is {meta.get('transport')!r}; expected one of {', '.join(channel.TRANSPORTS)}")
        if meta["transport"] != channel.GLOO and model.device.type != "cuda":
            raise BadRequest(f"{meta['transport']} needs GPUs, and this worker has none")
    elif stage != "close" and sender.channel is None:
        raise BadRequest("the stage open is missing")
    if stage == "bucket" and not 0 <= meta.get("index", -1) < len(sender.buckets):
        raise BadRequest(f"index is {meta.get('index')!r}; there are {len(sender.buckets)} buckets")


class Sender:
    """The tensors of a model as its checkpoints name them, cut into buckets, and the channel to one server."""

    def __init__(self, model: Model, dtype: str, limit: int) -> None:
        self.model, self.dtype = model, getattr(torch, dtype)
        self.buckets: list[list[str]] = []  # names of the model's tensors
        self.entries: list[list[Entry]] = []  # what a bucket holds
        self.channel: Channel | None = None
        self.store: TCPStore | None = None
        self.group: dist.ProcessGroup | None = None
        self.buffer: torch.Tensor | None = None  # that a server sees
        size = 0
        for name, tensor in self._tensors().items():
            blank = torch.empty(tensor.shape, dtype=self._type(tensor), device="meta")
            found = [(n, str(t.dtype).removeprefix("torch."), list(t.shape)) for n, t in self._named(name, blank)]
            bytes_of = sum(channel.size_of(e) for e in found)
            # Tensors of one type alone, because a view of bytes must begin at a multiple of its type's size.
            if not self.buckets or size + bytes_of > limit or self.entries[-1][-1][1] != found[-1][1]:
                self.buckets.append([])
                self.entries.append([])
                size = 0
            self.buckets[-1].append(name)
            self.entries[-1] += found
            size += bytes_of

    def _tensors(self) -> dict[str, torch.Tensor]:
        """Return the model's tensors, a head that is the embedding once."""
        seen: set[int] = set()
        out = {}
        for name, tensor in self.model.network.lm.state_dict(keep_vars=True).items():
            if id(tensor) not in seen:
                seen.add(id(tensor))
                out[name] = tensor.detach()
        return out

    def _type(self, tensor: torch.Tensor) -> torch.dtype:
        return self.dtype if tensor.is_floating_point() else tensor.dtype

    def _named(self, name: str, tensor: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
        """Return a tensor as checkpoints hold it. That of all experts of a layer is many there."""
        return list(revert_weight_conversion(self.model.network.inner, {name: tensor}).items())

    def open(self, meta: dict[str, Any]) -> dict[str, Any]:
        """Prepare a channel to the server on a host. A channel that is open ends."""
        self.close()
        c = Channel(meta["transport"], meta["group"], seconds=float(meta["seconds"]))
        self.channel = c
        if c.transport != channel.IPC and self.model.rank == 0:
            try:
                c.address, self.store = channel.open_store(meta["peer"], c.seconds)
                c.port = self.store.port
            except (OSError, RuntimeError) as e:
                return {"failed": f"listening for {meta['peer']}: {e}"}
        return {"address": c.address, "port": c.port}

    def join(self, meta: dict[str, Any]) -> dict[str, Any]:
        """Wait for the ranks of the server. announced says that they tell when they are about to join."""
        c = self.channel
        assert c is not None
        if self.store is None:
            return {}
        try:
            if meta.get("announced"):
                channel.await_ranks(self.store, c.group, meta["world"], c.seconds)
            self.group = channel.join(self.store, c.group, 0, meta["world"], c.transport, c.seconds)
        except (RuntimeError, ValueError) as e:
            return {"failed": _first_line(e)}
        return {}

    @torch.no_grad()
    def bucket(self, index: int) -> dict[str, Any]:
        """Send a bucket, or show it to a server on the same GPUs."""
        c = self.channel
        assert c is not None
        shown = c.transport == channel.IPC
        buffer = self._gather(index, c, keep=shown or self.model.rank == 0)
        if shown:
            assert buffer is not None
            everywhere: list[dict[str, Any] | None] = [None] * self.model.world
            dist.all_gather_object(everywhere, channel.export(buffer), group=self.model.control)
            self.buffer = buffer
            return {"handles": {gpu: handle for at in everywhere for gpu, handle in (at or {}).items()}}
        if self.group is None or buffer is None:
            return {} if self.model.rank else {"failed": "the server has not joined"}
        try:
            channel.broadcast(buffer, self.group, c.seconds)
        except (RuntimeError, ValueError) as e:
            return {"failed": _first_line(e)}
        return {}

    def _gather(self, index: int, c: Channel, keep: bool) -> torch.Tensor | None:
        """Return the bytes of a bucket. All ranks must call it; those that do not keep them return None."""
        device = torch.device("cpu") if c.transport == channel.GLOO else self.model.device
        count = sum(channel.size_of(e) for e in self.entries[index])
        buffer = torch.empty(count, dtype=torch.uint8, device=device) if keep else None
        tensors, at = self._tensors(), 0
        for name in self.buckets[index]:
            tensor = whole((self.model.copies or {}).get("lm." + name, tensors[name]))
            if buffer is None:
                continue
            for _, part in self._named(name, tensor.to(self._type(tensor))):
                raw = part.contiguous().view(-1).view(torch.uint8)
                buffer[at : at + raw.numel()].copy_(raw)
                at += raw.numel()
        return buffer

    def close(self) -> None:
        channel.leave(self.group)
        self.channel, self.store, self.group, self.buffer = None, None, None, None
        if self.model.device.type == "cuda":
            torch.cuda.ipc_collect()


def send(model: Model, meta: dict[str, Any]) -> dict[str, Any]:
    """Carry out a stage on this rank."""
    stage = meta["stage"]
    if stage == "plan":
        if model.sender is not None:
            model.sender.close()
        model.sender = Sender(model, meta["dtype"], meta["limit"])
        return {"buckets": model.sender.entries}
    sender = model.sender
    assert sender is not None
    if stage == "open":
        return sender.open(meta)
    if stage == "join":
        return sender.join(meta)
    if stage == "bucket":
        return sender.bucket(meta["index"])
    sender.close()
    return {}


def _first_line(e: BaseException) -> str:
    return f"{e}".strip().split("\n", 1)[0]
