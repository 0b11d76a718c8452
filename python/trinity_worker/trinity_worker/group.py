"""The ranks of a worker: rank 0 checks a request and passes it on, and all ranks carry it out together."""

import gc
import json
import resource
import socket
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch
import torch.distributed as dist
import transformers

from . import PROTOCOL, check, wire
from .layout import Layout
from .model import Model
from .network import Spec
from .progress import Progress
from .send import check_send, send
from .wire import Arrays, BadRequest

SENTENCE = 1000  # most bytes of what a rank says about the directories

Reply = tuple[Arrays, dict[str, Any]]


class Group:
    """The models on this rank, and the channel from rank 0 to the others."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.rank, self.world = layout.rank, layout.world
        self.models: dict[str, Model] = {}
        self.shapes: dict[str, dict[str, tuple[int, ...]]] = {}  # by model: of the streams whose graph is held
        self.held: dict[str, int] = {}  # by model: micro-batches since the last step
        self.progress = Progress(self.rank, self.world)

    def status(self) -> dict[str, Any]:
        return {
            "protocol": PROTOCOL,
            "ranks": self.world,
            "host": socket.gethostname(),
            "device": self.layout.device.type,
            "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
            "memory": self._peak(),
            "models": {name: m.describe() for name, m in list(self.models.items())},
            "busy": self.progress.busy,
            "progress": self.progress.ranks(),
        }

    def _peak(self) -> dict[str, int]:
        """Returns the most bytes that this rank has used so far, of the machine's memory and of its GPU's."""
        peak = {"machine": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10}
        if self.layout.device.type == "cuda":
            peak["gpu"] = torch.cuda.max_memory_reserved()
        return peak

    # ---- on rank 0

    def handle(self, verb: str, name: str, arrays: Arrays, meta: dict[str, Any]) -> Reply:
        """Checks a request and carries it out on all ranks. BadRequest means that nothing has happened."""
        try:
            meta = self._check(verb, name, arrays, meta)
        except BadRequest:
            raise
        except Exception as e:  # such as a value of another type
            raise BadRequest(f"{type(e).__name__}: {e}") from e
        self._begin(verb, name, meta)
        try:
            self._send(verb, name, wire.encode(arrays, meta))
            return self.run(verb, name, arrays, meta)
        finally:
            self.progress.end()

    def _begin(self, verb: str, name: str, meta: dict[str, Any]) -> None:
        if verb in ("step", "discard"):
            self.held[name] = 0
        if meta.get("hold"):
            self.held[name] = self.held.get(name, 0) + 1
        of_step = verb in ("forward", "backward") and (meta.get("hold") or verb == "backward")
        self.progress.begin(verb, name, self.held[name] if of_step else 0)

    def _check(self, verb: str, name: str, arrays: Arrays, meta: dict[str, Any]) -> dict[str, Any]:
        """Returns the metadata that the ranks need."""
        if verb == "open":
            if name in self.models:
                raise BadRequest(f"model {name!r} is open already")
            return {"spec": asdict(check.spec_of(meta, arrays, self.world, self.models)), "witness": meta["witness"]}
        model = self.models.get(name)
        if model is None:
            raise BadRequest(f"no model is called {name!r}; open are: {', '.join(self.models) or 'none'}")
        if verb == "forward":
            check.check_forward(model, arrays, meta, self.models)
            self.shapes[name] = check.shapes_of(arrays, meta["streams"])
        elif verb == "backward":
            check.check_backward(model, arrays, meta, self.shapes.get(name, {}))
        elif verb == "step":
            return check.check_step(model, meta)
        elif verb == "discard" and not model.spec.train:
            raise BadRequest("this model is not trained")
        elif verb in ("save", "load"):
            check.check_files(model, verb, meta)
        elif verb == "send":
            check_send(model, meta)
        elif verb not in ("offer", "drop", "discard"):
            raise BadRequest(f"unknown verb {verb!r}")
        return meta

    def _send(self, verb: str, name: str, body: bytes) -> None:
        if self.world == 1:
            return
        head = json.dumps([verb, name]).encode()
        dist.broadcast(torch.tensor([len(head), len(body)], dtype=torch.int64), 0, group=self.layout.control)
        dist.broadcast(torch.frombuffer(bytearray(head + body), dtype=torch.uint8), 0, group=self.layout.control)

    # ---- on the other ranks

    def follow(self) -> None:
        """Carries out what rank 0 sends, until the process ends."""
        while True:
            sizes = torch.empty(2, dtype=torch.int64)
            dist.broadcast(sizes, 0, group=self.layout.control)
            head, body = (int(x) for x in sizes)
            data = torch.empty(head + body, dtype=torch.uint8)
            dist.broadcast(data, 0, group=self.layout.control)
            raw = data.numpy().tobytes()
            verb, name = json.loads(raw[:head])
            arrays, meta = wire.decode(raw[head:])
            self._begin(verb, name, meta)
            self.run(verb, name, arrays, meta)
            self.progress.end()

    # ---- on all ranks

    def run(self, verb: str, name: str, arrays: Arrays, meta: dict[str, Any]) -> Reply:
        verbs: dict[str, Callable[[str, Arrays, dict[str, Any]], Reply]] = {
            "open": self._open, "drop": self._drop, "forward": self._forward, "backward": self._backward,
            "step": self._step, "discard": self._discard, "save": self._save, "load": self._load, "offer": self._offer,
            "send": self._send_weights,
        }  # fmt: skip
        teachers = meta["teachers"] if "divergence" in meta.get("streams", ()) else ()
        self._make_room({name, *teachers})
        reply = verbs[verb](name, arrays, meta)
        if verb in ("offer", "save") or verb == "send" and meta["stage"] == "close":  # the driver samples now
            self.models[name].rest()
        return reply

    def _make_room(self, used: set[str]) -> None:
        """Wakes the models that a request uses, after the others rest."""
        for name, model in self.models.items():
            if name not in used:
                model.rest()
        for name in used & self.models.keys():
            self.models[name].wake()

    def _open(self, name: str, arrays: Arrays, meta: dict[str, Any]) -> Reply:
        spec = Spec(**meta["spec"])
        if blind := self._blind(spec, meta):
            if self.rank == 0:
                raise BadRequest("; ".join(blind))
            return {}, {}
        try:
            model = Model(spec, arrays, self.layout, self.models.get(spec.base))
        except BadRequest:  # which all ranks have found out together
            if self.rank == 0:
                raise
            return {}, {}
        self.models[name] = model
        return {}, model.describe()

    def _blind(self, spec: Spec, meta: dict[str, Any]) -> list[str]:
        """Returns what the ranks do not see that the driver sees: they would save shards where nobody looks for them."""
        mine = torch.zeros(SENTENCE, dtype=torch.uint8)
        try:
            check.check_sight(spec, meta)
        except BadRequest as e:
            text = str(e).encode()[:SENTENCE]
            mine[: len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        all = [torch.empty_like(mine) for _ in range(self.world)]
        dist.all_gather(all, mine, group=self.layout.control)
        texts = [bytes(t.numpy()).rstrip(b"\0").decode(errors="replace") for t in all]
        return [f"rank {rank}: {text}" for rank, text in enumerate(texts) if text]

    def _drop(self, name: str, arrays: Arrays, meta: dict[str, Any]) -> Reply:
        del self.models[name]
        gc.collect()  # FSDP refers to its modules in cycles
        if self.layout.device.type == "cuda":
            torch.cuda.empty_cache()
        return {}, {}

    def _forward(self, name: str, arrays: Arrays, meta: dict[str, Any]) -> Reply:
        return self.models[name].forward(arrays, meta, self.models)

    def _backward(self, name: str, arrays: Arrays, meta: dict[str, Any]) -> Reply:
        self.models[name].backward(arrays, meta.get("whole_tokens", 0))
        return {}, {}

    def _step(self, name: str, arrays: Arrays, meta: dict[str, Any]) -> Reply:
        return {}, self.models[name].step(meta)

    def _discard(self, name: str, arrays: Arrays, meta: dict[str, Any]) -> Reply:
        self.models[name].discard()
        return {}, {}

    def _save(self, name: str, arrays: Arrays, meta: dict[str, Any]) -> Reply:
        self.models[name].save(meta["kind"], meta["dir"], meta.get("dtype", "float32"), bool(meta.get("gradient")))
        return {}, {}

    def _load(self, name: str, arrays: Arrays, meta: dict[str, Any]) -> Reply:
        self.models[name].load(meta["dir"], bool(meta.get("published")), bool(meta.get("gradient")))
        return {}, {}

    def _offer(self, name: str, arrays: Arrays, meta: dict[str, Any]) -> Reply:
        self.models[name].offer()
        return {}, {}

    def _send_weights(self, name: str, arrays: Arrays, meta: dict[str, Any]) -> Reply:
        return {}, send(self.models[name], meta)
