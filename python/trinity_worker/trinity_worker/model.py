"""A model of the group on this rank: its verbs, its optimizer, and the graph that it holds between two requests."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict_loader import load as load_checkpoint
from torch.distributed.checkpoint.state_dict_saver import save as save_checkpoint

from .batch import Batch, Pack, upload
from .head import Teacher, Want
from .host import HostMemory, local
from .layout import Layout
from .network import Network, Spec
from .send import Sender
from .tensor import complete
from .wire import Arrays

STREAMS = ("logprob", "entropy", "discriminator", "divergence")
MOMENTS = {"adamw": ("exp_avg", "exp_avg_sq"), "sgd": ("momentum_buffer",)}


class Model:
    """One model of the group. All ranks call each method with the same arguments."""

    def __init__(self, spec: Spec, arrays: Arrays, layout: Layout, base: "Model | None" = None) -> None:
        self.spec, self.layout, self.device, self.control = spec, layout, layout.device, layout.control
        self.rank, self.world = layout.rank, layout.world
        self.rows = layout.world // (spec.tensor * spec.sequence)  # of sequences; neighbours compute the same one
        self.row, self.first = self.rank // (spec.tensor * spec.sequence), self.rank % spec.tensor == 0
        self.parts = layout.parts(spec.tensor, spec.sequence)
        self.part = self.parts.number if self.parts else 0
        self.network: Network = Network(spec, arrays, layout, base.network if base else None)
        self.trained = self.network.trained() if spec.train else {}
        self.optimizer = self._new_optimizer() if spec.train else None
        self.held: tuple[np.ndarray, tuple[torch.Tensor, ...]] | None = None
        self.weights_at_host, self.moments_at_host = HostMemory(), HostMemory()
        self.offered = False
        self.copies: dict[str, torch.Tensor] | None = None  # of the offered weights, once newer ones are trained
        self.sender: Sender | None = None

    @property
    def streams(self) -> tuple[str, ...]:
        return ("value",) if self.spec.head else STREAMS

    def _new_optimizer(self) -> torch.optim.Optimizer:
        o, parameters = self.spec.optimizer, list(self.trained.values())
        if o["type"] == "sgd":
            return torch.optim.SGD(
                parameters, lr=0.0, momentum=o["momentum"], nesterov=o["nesterov"], foreach=self._foreach()
            )
        if self._fused():
            return torch.optim.AdamW(parameters, lr=0.0, fused=True)
        return torch.optim.AdamW(parameters, lr=0.0, foreach=self._foreach())

    def _foreach(self) -> bool | None:
        """Whether the optimizer takes all weights at once; None leaves it to PyTorch. They must be of one mesh."""
        return False if self.spec.tensor > 1 else None

    def _fused(self) -> bool:
        """Whether AdamW is one kernel for all weights. It counts steps on the device. A CPU keeps the bits of its plain
        form."""
        return self.device.type == "cuda" and self.spec.tensor == 1

    # ---- memory

    def rest(self) -> None:
        """Moves weights and gradients to the host, if the spec wants it and no graph needs them."""
        if self.spec.param_offload and self.held is None and not self.weights_at_host.kept:
            self.network.release()
            self.network.forget()
            weights = list(self.network.parameters())
            self.weights_at_host.take([*weights, *(p.grad for p in weights if p.grad is not None)])

    def wake(self) -> None:
        """Moves weights and gradients back."""
        self.weights_at_host.give_back()

    @contextmanager
    def _moments_here(self) -> Iterator[None]:
        """Has the moments on the device for a while."""
        assert self.optimizer is not None
        self.moments_at_host.give_back()
        yield
        if self.spec.optimizer_offload:
            states = self.optimizer.state.values()
            self.moments_at_host.take(own[m] for own in states for m in self._moments() if own.get(m) is not None)

    def describe(self) -> dict[str, Any]:
        count = sum(p.numel() for p in self.network.parameters())
        trained = sum(p.numel() for p in self.trained.values())
        return {"parameters": count, "trained": trained, "shares": self.network.shares}

    # ---- streams and gradients

    def forward(
        self, arrays: Arrays, meta: dict[str, Any], teachers: dict[str, "Model"]
    ) -> tuple[Arrays, dict[str, Any]]:
        """Returns the wanted streams [N] on rank 0, log-probabilities of targets [N, K]; nothing elsewhere. With a
        load-balancing loss, a held graph comes with its sum over the ranks, times the tokens of the step."""
        used = [self.network, *(teachers[n].network for n in meta.get("teachers", ()))]
        batch, hold = Batch(arrays, all(n.shares for n in used), self.network.eye), bool(meta.get("hold"))
        self.held = None
        pack = batch.pack(self.row, self.device, self.parts)
        places = batch.places(self.row, self.part, self.spec.sequence)
        want = self._want(batch, places, pack, meta, teachers)
        if hold:
            outputs = self.network.run(pack, want, hold=True)
            self.held = places, outputs
        else:
            outputs = self.network.score(pack, want, adapter=not meta.get("reference"))
        names = [s for s in self.streams if s in meta["streams"]]
        columns = [outputs[self.streams.index(name)].detach()[: len(places)].float() for name in names]
        mine = torch.cat([c.reshape(len(places), c.shape[1:].numel()) for c in columns], 1).cpu()
        return self._collect(batch, names, mine), self._balance() if hold else {}

    def _balance(self) -> dict[str, Any]:
        if not self.network.aux_loss:
            return {}
        assert self.held is not None
        total = self.held[1][-1].detach().double().cpu() * (self.part == 0)  # all parts have the whole row's
        if self.world > 1:
            dist.all_reduce(total, group=self.control)
        return {"balance": float(total)}

    def _want(
        self, batch: Batch, places: np.ndarray, pack: Pack, meta: dict[str, Any], teachers: dict[str, "Model"]
    ) -> Want:
        temperature = batch.arrays["temperature"][batch.of_sequence(places)] if len(places) else np.ones(1, np.float32)
        (inverse,) = upload([(1 / temperature).astype(np.float32)], self.device)
        streams, compiled = meta["streams"], self.network.compiled
        want = Want(inverse, self.spec.chunk, "entropy" in streams, "discriminator" in streams, compiled=compiled)
        want.finish = self.network.finish
        if "divergence" not in streams:
            return want
        want.divergence, want.beta = meta["divergence"], float(meta.get("beta", 0))
        of_row = batch.arrays["teacher"][batch.of_sequence(places)] if len(places) else np.zeros(1, np.int32)
        for number, name in enumerate(meta["teachers"]):
            # Every rank runs every teacher, because all must join each collective.
            places_of = np.nonzero(of_row == number)[0]
            (rows,) = upload([places_of], self.device)
            model = teachers[name]
            (states,) = model.network.score(pack, None)
            weight, finish = model.network.head_weight(), model.network.finish
            want.teachers.append(Teacher(places_of, rows, states[rows], weight, finish))
        return want

    def _collect(self, batch: Batch, names: list[str], mine: torch.Tensor) -> Arrays:
        """Brings all rows to rank 0 and scatters them over the flat arrays."""
        if self.rank:
            if mine.numel() and self.first:
                dist.send(mine, 0, group=self.control)
            return {}
        widths = [batch.targets.shape[1] if name == "logprob" else 1 for name in names]
        flat = np.zeros((len(batch.scored), sum(widths)), np.float32)
        for number in range(self.rows * self.spec.sequence):
            places = batch.places(*divmod(number, self.spec.sequence), self.spec.sequence)
            rows = mine if number == 0 else torch.empty(len(places), sum(widths))
            if number and rows.numel():
                dist.recv(rows, number * self.spec.tensor, group=self.control)
            flat[places] = rows.numpy()
        parts = np.split(flat, np.cumsum(widths)[:-1], axis=1)
        of_targets = "targets" in batch.arrays
        return {
            name: part if of_targets and name == "logprob" else part[:, 0]
            for name, part in zip(names, parts, strict=True)
        }

    def backward(self, arrays: Arrays, whole_tokens: int) -> None:
        """Adds the gradient, from the derivatives of the driver's loss by the streams of the held graph. whole_tokens are
        the tokens of the step, for the load-balancing loss."""
        assert self.held is not None
        places, outputs = self.held
        self.held = None
        kept, grads = [], []
        if self.network.aux_loss:
            kept.append(outputs[-1])
            grads.append(torch.full_like(outputs[-1], self.network.aux_loss / whole_tokens))
        names = [s for s in self.streams if "d_" + s in arrays] if len(places) else []
        given = upload([arrays["d_" + s][places] for s in names], self.device) if names else []
        for name, gradient in zip(names, given, strict=True):
            kept.append(outputs[self.streams.index(name)])
            grads.append(gradient.reshape(kept[-1].shape))
        if not names:  # all ranks must join the backward pass
            kept.append(outputs[0])
            grads.append(torch.zeros_like(outputs[0]))
        torch.autograd.backward(kept, grads)
        if self.spec.base:  # other tenants have copies of the same weights
            self.network.forget()

    def _release(self) -> None:
        """Drops the held graph, whose weights are about to change."""
        self.held = None
        self.network.release()
        self.network.forget()

    # ---- the step

    def step(self, p: dict[str, Any]) -> dict[str, Any]:
        """Applies the gradient and clears it. A gradient that is not finite changes nothing. For a model with experts, the
        tokens that they got since the last step come along."""
        assert self.optimizer is not None
        self._release()
        for parameter in self.trained.values():
            if parameter.grad is None:  # a step decays moments also where a batch gave no gradient
                parameter.grad = torch.zeros_like(parameter)
        if self.spec.tensor > 1:
            complete(self.trained, self.layout.grid(self.spec.tensor)["tensor"])
        norm = self._norm()
        if math.isfinite(norm):
            self._keep_offered()
            if p["clip_norm"] > 0:
                scale = min(1.0, p["clip_norm"] / (norm + 1e-6))
                torch._foreach_mul_([local(g) for g in self._gradients()], scale)
            for group in self.optimizer.param_groups:
                group.update(lr=p["lr"], weight_decay=p["weight_decay"])
                if self.spec.optimizer["type"] == "adamw":
                    group.update(betas=(p["beta1"], p["beta2"]), eps=p["eps"])
            with self._moments_here():
                self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        applied = math.isfinite(norm)
        return {"grad_norm": norm if applied else str(norm), "applied": applied, **self._loads()}

    def discard(self) -> None:
        """Drops the gradient since the last step, and forgets the tokens that the experts got in its passes."""
        assert self.optimizer is not None
        self._release()
        self.optimizer.zero_grad(set_to_none=True)
        self.network.loads = None
        if self.network.replay is not None:
            self.network.replay.counts = None

    def _loads(self) -> dict[str, Any]:
        if self.network.loads is None:
            return {}
        total = self.network.loads.cpu()
        self.network.loads = None
        if self.world > 1:
            dist.all_reduce(total, group=self.control)
        return {"loads": total.tolist(), **self._replayed()}

    def _replayed(self) -> dict[str, Any]:
        replay = self.network.replay
        if replay is None:
            return {}
        total = torch.zeros(2, dtype=torch.int64) if replay.counts is None else replay.counts.cpu()
        replay.counts = None
        if self.world > 1:
            dist.all_reduce(total, group=self.control)
        return {"replayed": total.tolist()}

    def _norm(self) -> float:
        """Returns the L2 norm of the gradient over all ranks."""
        mine = [
            local(p.grad) for p in self.trained.values() if p.grad is not None and self.layout.owns(p, self.spec.tensor)
        ]
        total = 0.0
        if mine:
            norms = torch._foreach_norm(mine, 2, dtype=torch.float64)
            for norm in torch.stack(norms).tolist():  # the only wait for the device
                total += norm * norm
        square = torch.tensor(total, dtype=torch.float64)
        if self.world > 1:
            dist.all_reduce(square, group=self.control)
        return math.sqrt(square) if math.isfinite(square) else float(square)

    def _gradients(self) -> list[torch.Tensor]:
        return [p.grad for p in self.trained.values() if p.grad is not None]

    def offer(self) -> None:
        """Makes the current weights a version."""
        self.offered, self.copies = True, None

    def _keep_offered(self) -> None:
        if self.offered and self.spec.keep and self.copies is None:
            self.copies = {name: p.detach().clone() for name, p in self.trained.items()}

    # ---- files

    def save(self, kind: str, directory: str, dtype: str = "float32", gradient: bool = False) -> None:
        """Writes a model, or a state; gradient says that the state has the gradient since the last step, too."""
        if kind == "state":
            with self._moments_here():
                save_checkpoint(self._state(self.copies is not None, gradient), checkpoint_id=directory)
            return
        if kind == "published" and self.copies is not None:
            self._swap(self.copies)
            try:
                self.network.save(directory, self.rank == 0, dtype)
            finally:
                self._swap(self.copies)
        else:
            self.network.save(directory, self.rank == 0, dtype)
        dist.barrier(group=self.control)

    @torch.no_grad()
    def _swap(self, other: dict[str, torch.Tensor]) -> None:
        """Exchanges the trained weights with others."""
        for name, parameter in self.trained.items():
            own = parameter.detach().clone()
            parameter.copy_(other[name])
            other[name] = own

    def _moments(self) -> tuple[str, ...]:
        o = self.spec.optimizer
        return () if o["type"] == "sgd" and not o["momentum"] else MOMENTS[o["type"]]

    def _state(self, published: bool, gradient: bool) -> dict[str, Any]:
        """Returns the tensors of a state. Moments that no step has made yet are zero, as after a step without gradient."""
        assert self.optimizer is not None
        state: dict[str, Any] = {}
        for name, parameter in self.trained.items():
            state["weights." + name] = parameter.detach()
            own = self.optimizer.state[parameter]
            for moment in self._moments():
                if own.get(moment) is None:
                    own[moment] = torch.zeros_like(parameter)
                state[f"{moment}.{name}"] = own[moment]
            if self.spec.optimizer["type"] == "adamw":
                at = parameter.device if self._fused() else "cpu"
                state["step." + name] = own.setdefault("step", torch.zeros((), dtype=torch.float32, device=at))
            if gradient:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                state["gradient." + name] = parameter.grad
            if published:
                assert self.copies is not None
                state["published." + name] = self.copies[name]
        return state

    def load(self, directory: str, published: bool, gradient: bool) -> None:
        """Reads a state into this model, whatever the number of ranks that wrote it."""
        self.discard()
        self.copies = {name: p.detach().clone() for name, p in self.trained.items()} if published else None
        with self._moments_here():
            load_checkpoint(self._state(published, gradient), checkpoint_id=directory)
        self.offered = True
