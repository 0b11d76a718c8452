"""Carries weights from the worker to the ranks of one server: over a process group of their own, or through GPU memory
that both see. Rank 0 of the group is the worker's. A server joins as SGLang does, by the address of a store.

A bucket travels as the bytes of its tensors, one after another.
"""

from __future__ import annotations

import base64
import contextlib
import math
import socket
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Store, TCPStore
from torch.distributed import rendezvous  # type: ignore[attr-defined]
from torch.distributed.distributed_c10d import PrefixStore, _new_process_group_helper, _world
from torch.multiprocessing.reductions import rebuild_cuda_tensor, reduce_tensor

GLOO, NCCL, IPC = "gloo", "nccl", "ipc"
TRANSPORTS = (GLOO, NCCL, IPC)

Entry = tuple[str, str, list[int]]
"""Name, type and shape of a tensor."""


class Unreachable(RuntimeError):
    """The other side of a channel has not come, or has gone. The models are as they were."""


@dataclass
class Channel:
    """How the ranks of a server are reached. A server gets it with the phase init; without a transport it only compares
    the tensors with its model."""

    transport: str = ""
    group: str = ""
    address: str = ""
    port: int = 0
    offset: int = 1
    world: int = 1
    seconds: float = 60.0
    tensors: list[Entry] = field(default_factory=list)


def local_address(peer: str) -> str:
    """Return the address of this machine from which it reaches a host."""
    # localhost may be an address of IPv6 first, at which a server of IPv4 is not asked.
    found = socket.getaddrinfo(peer, 9, type=socket.SOCK_DGRAM)
    family = min(found, key=lambda f: f[0] != socket.AF_INET)
    with socket.socket(family[0], socket.SOCK_DGRAM) as s:
        s.connect(family[4])  # sends nothing
        return s.getsockname()[0]


def open_store(peer: str, seconds: float) -> tuple[str, TCPStore]:
    """Return a store on a free port, and the address at which a host reaches it."""
    address = local_address(peer)
    store = TCPStore(address, 0, None, True, timedelta(seconds=seconds), wait_for_workers=False)
    return f"[{address}]" if ":" in address else address, store  # as a URL has it


def arrive(store: Store, group: str, rank: int) -> None:
    """Tell the worker that a rank is about to join."""
    store.set(f"{group}/here/{rank}", "")


def await_ranks(store: Store, group: str, world: int, seconds: float) -> None:
    """Wait until all ranks of a server are about to join."""
    deadline = time.monotonic() + seconds
    while missing := [r for r in range(1, world) if not store.check([f"{group}/here/{r}"])]:
        if time.monotonic() > deadline:
            names = ", ".join(str(r - 1) for r in missing)
            raise Unreachable(f"rank {names} of the server has not come within {seconds:g} s")
        time.sleep(0.01)


def connect(c: Channel, rank: int) -> Store:
    """Return the worker's store as a rank of a server sees it."""
    limit = timedelta(seconds=c.seconds)
    store, _, _ = next(rendezvous(f"tcp://{c.address}:{c.port}", rank, c.world, timeout=limit))
    store.set_timeout(limit)
    return store


def join(store: Store, group: str, rank: int, world: int, backend: str, seconds: float) -> dist.ProcessGroup:
    """Return the process group of a channel, beside the groups that the process has."""
    # NCCL's own limit ends the process, so a wait must end before it.
    limit = timedelta(seconds=seconds * (4 if backend == NCCL else 1))
    new: Any = _new_process_group_helper
    joined, _ = new(world, rank, [], backend, PrefixStore(group, store), group_name=group, timeout=limit)
    _world.pg_group_ranks[joined] = {i: i for i in range(world)}
    return joined


def broadcast(buffer: torch.Tensor, group: dist.ProcessGroup, seconds: float) -> None:
    """Send bytes from rank 0 to the others. A broadcast that does not end is given up."""
    work: Any = dist.broadcast(buffer, 0, group=group, async_op=True)
    deadline = time.monotonic() + seconds
    while buffer.is_cuda and not work.is_completed():
        if time.monotonic() > deadline:
            group._get_backend(buffer.device).abort()
            raise Unreachable(f"a broadcast has not ended within {seconds:g} s")
        time.sleep(0.001)
    work.wait()
    if buffer.is_cuda:
        torch.cuda.synchronize()


def leave(group: dist.ProcessGroup | None) -> None:
    """Destroy a group, also one whose other ranks are gone."""
    if group is not None:
        with contextlib.suppress(RuntimeError, ValueError):
            dist.destroy_process_group(group)


def size_of(entry: Entry) -> int:
    return math.prod(entry[2]) * getattr(torch, entry[1]).itemsize


def unpack(buffer: torch.Tensor, entries: list[Entry]) -> list[tuple[str, torch.Tensor]]:
    """Return the tensors of a bucket, as views of its bytes."""
    parts = buffer.split([size_of(e) for e in entries])
    return [(e[0], part.view(getattr(torch, e[1])).view(e[2])) for e, part in zip(entries, parts)]


# ---- memory of a GPU

PLACES = (7, 8, 9, 11, 12, 13, 14)
"""The arguments of rebuild_cuda_tensor that differ from buffer to buffer."""


def export(buffer: torch.Tensor) -> dict[str, Any]:
    """Return the handle of a buffer by the GPU that holds it. A receiver opens each handle once."""
    torch.cuda.current_stream().synchronize()
    _, arguments = reduce_tensor(buffer)
    values = [arguments[i] for i in PLACES]
    return {_uuid(buffer.device): [base64.b64encode(v).decode() if isinstance(v, bytes) else v for v in values]}


def from_handle(handles: dict[str, Any], count: int, device: torch.device) -> torch.Tensor:
    """Return a copy of a buffer that a process on the same GPU has exported."""
    gpu = _uuid(device)
    if gpu not in handles:
        raise Unreachable(f"no rank of the trainer is on GPU {gpu}; there are ranks on {', '.join(handles)}")
    values = [base64.b64decode(v) if isinstance(v, str) else v for v in handles[gpu]]
    arguments: list[Any] = [torch.Tensor, (count,), (1,), 0, torch.storage.TypedStorage, torch.uint8, device.index]
    arguments += [*values[:3], False, *values[3:]]
    shared = rebuild_cuda_tensor(*arguments)
    copy = shared.clone()  # the worker fills its buffer again
    torch.cuda.synchronize(device)
    return copy


def _uuid(device: torch.device) -> str:
    return str(torch.cuda.get_device_properties(device).uuid)


class Receiver:
    """A rank of a server. rank counts from 0."""

    def __init__(self, c: Channel, rank: int, device: torch.device) -> None:
        self.channel, self.device = c, device
        self.group: dist.ProcessGroup | None = None
        if c.transport != IPC:
            at = c.offset + rank
            store = connect(c, at)
            arrive(store, c.group, at)
            self.group = join(store, c.group, at, c.world, c.transport, c.seconds)

    def receive(self, entries: list[Entry], handles: dict[str, Any]) -> list[tuple[str, torch.Tensor]]:
        """Return the tensors of a bucket."""
        count = sum(size_of(e) for e in entries)
        if self.group is None:
            return unpack(from_handle(handles, count, self.device), entries)
        device = self.device if self.channel.transport == NCCL else torch.device("cpu")
        buffer = torch.empty(count, dtype=torch.uint8, device=device)
        broadcast(buffer, self.group, self.channel.seconds)
        return unpack(buffer, entries)

    def close(self) -> None:
        leave(self.group)
        self.group = None
