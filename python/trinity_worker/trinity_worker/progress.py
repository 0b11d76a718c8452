"""What each rank is doing, for whoever asks while a request hangs."""

import json
import socket
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore

BEAT = 1.0  # seconds
# Where a rank waits for others. DTensors compute in a folder below.
WAITING, COMPUTING = str(Path(dist.__file__).parent), str(Path(dist.__file__).parent / "tensor")
LIBRARY = str(Path(torch.__file__).parent)


class Progress:
    """Tells rank 0 every second what this rank does. It uses the store in which the ranks have found one another, so it
    needs no collective, in which a rank may hang."""

    def __init__(self, rank: int, world: int) -> None:
        self.rank, self.world, self.host = rank, world, socket.gethostname()
        self.busy: dict[str, Any] = {}  # the request in progress
        self.thread = 0  # the one that carries it out
        self.done = threading.Event()
        begun = time.monotonic()  # a rank that tells nothing is silent since then
        # By rank: its last message, and when rank 0 read it.
        self.seen: dict[int, tuple[bytes, float]] = {other: (b"{}", begun) for other in range(1, world)}
        if world > 1:
            store = PrefixStore("trinity_progress", dist.distributed_c10d._get_default_store().clone())
            self.beats = threading.Thread(target=self._beat, args=(store,), daemon=True)
            self.beats.start()

    def begin(self, verb: str, model: str, micro_batch: int) -> None:
        self.thread = threading.get_ident()
        self.busy = {"verb": verb, "model": model, "since": time.time()}
        if micro_batch:
            self.busy["micro_batch"] = micro_batch

    def end(self) -> None:
        self.busy = {}

    def ranks(self) -> list[dict[str, Any]]:
        """Returns what each rank does. silent is how long ago a rank told it, by the clock of rank 0."""
        now, all = time.monotonic(), [{"rank": 0, "silent": 0.0, **self._now()}]
        for rank in range(1, self.world):
            message, at = self.seen[rank]
            all.append({"rank": rank, "silent": now - at, **json.loads(message)})
        return all

    def _now(self) -> dict[str, Any]:
        busy, frame = self.busy, sys._current_frames().get(self.thread)
        if not busy or frame is None:
            return {"host": self.host, "waits": True}
        return {"host": self.host, "verb": busy["verb"], **place(frame)}

    def _beat(self, store: Any) -> None:
        others = [str(rank) for rank in range(1, self.world)]
        for count in range(sys.maxsize):
            try:
                if self.rank:
                    store.set(str(self.rank), json.dumps({**self._now(), "count": count}))
                elif store.check(others):
                    for other, message in zip(others, store.multi_get(others), strict=True):
                        if message != self.seen[int(other)][0]:
                            self.seen[int(other)] = message, time.monotonic()
            except RuntimeError:  # the process that holds the store has gone, and this one will follow
                return
            if self.done.wait(BEAT):
                return


def place(frame: FrameType | None) -> dict[str, Any]:
    """Returns where the innermost frame outside PyTorch is, and whether the rank waits there for others."""
    inner = frame.f_code.co_filename if frame else ""
    waits = inner.startswith(WAITING) and not inner.startswith(COMPUTING)
    while frame and frame.f_back and frame.f_code.co_filename.startswith(LIBRARY):
        frame = frame.f_back
    if frame is None:
        return {"waits": waits}
    return {"waits": waits, "place": f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"}
