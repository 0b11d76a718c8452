"""The vocabulary head: streams from hidden states, a chunk of rows at a time.

Only chunk × vocabulary logits exist at any moment: the backward pass computes them again from the hidden states.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

from . import compiled
from .logits import PLAIN, Finish
from .tensor import Vocabulary

FORWARD_KL, REVERSE_KL, JSD = "forward_kl", "reverse_kl", "jsd"
DIVERGENCES = (FORWARD_KL, REVERSE_KL, JSD)


@dataclass
class Teacher:
    """The frozen side of a divergence for some head rows."""

    places: np.ndarray  # [R] sorted numbers of head rows
    rows: torch.Tensor  # the same on the device
    states: torch.Tensor  # [R, width]
    weight: torch.Tensor  # [vocabulary of the teacher, width]
    finish: Finish = PLAIN


@dataclass
class Want:
    """What a head computes besides log-probabilities."""

    inverse_temperature: torch.Tensor  # [M] float32
    chunk: int
    entropy: bool = True
    discriminator: bool = False
    divergence: str = ""  # a kind of DIVERGENCES, or none
    beta: float = 0.0  # of JSD: the weight of the teacher in the mixture
    teachers: list[Teacher] = field(default_factory=list)
    compiled: bool = False  # what follows the product is one compiled function
    finish: Finish = PLAIN  # all streams are of the logits after it


@dataclass
class Adapter:
    """A low-rank update of the head: its logits are states · upᵀ, [M, r] · [r, V]."""

    states: torch.Tensor | None  # scaled, of the hidden states; None without an adapter
    up: torch.Tensor | None


def _student(h: torch.Tensor, w: torch.Tensor, adapter: Adapter, want: Want, a: int, b: int) -> torch.Tensor:
    logits = h[a:b] @ w.T
    if adapter.states is not None and adapter.up is not None:
        logits = logits + adapter.states[a:b] @ adapter.up.T
    return want.finish(logits)


def _teacher(want: Want, a: int, b: int, v: Vocabulary, like: torch.Tensor) -> torch.Tensor:
    """Returns the teachers' log-probabilities [b - a, v.size] of the rows [a, b)."""
    logits = torch.empty(b - a, v.size, dtype=torch.float32, device=like.device)
    for t in want.teachers:
        lo, hi = np.searchsorted(t.places, (a, b))
        if lo < hi:
            product = t.states[lo:hi] @ t.weight[v.first : v.first + v.size].T
            logits[t.rows[lo:hi] - a] = t.finish(product).float()
    return v.log_softmax(logits.mul_(want.inverse_temperature[a:b, None]))


def _mixture(want: Want, teacher: torch.Tensor, logp: torch.Tensor) -> torch.Tensor:
    """Returns the logarithm of the JSD's mixture."""
    beta = torch.tensor(want.beta, device=logp.device)
    return torch.logaddexp(teacher + beta.log(), logp + (1 - beta).log())


def _diverge(want: Want, v: Vocabulary, teacher: torch.Tensor, logp: torch.Tensor) -> torch.Tensor:
    """Returns the divergences [rows] of the distributions in two matrices of log-probabilities."""
    p, q = teacher.exp(), logp.exp()
    if want.divergence == FORWARD_KL:
        return v.total((p * (teacher - logp)).sum(-1))
    if want.divergence == REVERSE_KL:
        return v.total((q * (logp - teacher)).sum(-1))
    mixture = _mixture(want, teacher, logp)
    parts = want.beta * (p * (teacher - mixture)).sum(-1) + (1 - want.beta) * (q * (logp - mixture)).sum(-1)
    return v.total(parts)


def _diverge_back(want: Want, v: Vocabulary, teacher: torch.Tensor, logp: torch.Tensor) -> torch.Tensor:
    """Returns the derivatives of the divergences by the student's logits."""
    q = logp.exp()
    if want.divergence == FORWARD_KL:
        return q - teacher.exp()
    if want.divergence == REVERSE_KL:
        ratio = logp - teacher
        return q * (ratio - v.total((q * ratio).sum(-1, keepdim=True)))
    ratio = logp - _mixture(want, teacher, logp)
    return (1 - want.beta) * q * (ratio - v.total((q * ratio).sum(-1, keepdim=True)))


def _diverge_more(
    want: Want, v: Vocabulary, d: torch.Tensor, a: int, b: int, like: torch.Tensor, logp: torch.Tensor
) -> torch.Tensor:
    """Returns the part of the derivative by the logits of rows [a, b) that comes from divergences."""
    return d[a:b, None] * _diverge_back(want, v, _teacher(want, a, b, v, like), logp)


def measure(
    z: torch.Tensor, inverse: torch.Tensor, ids: torch.Tensor, v: Vocabulary, wanted: tuple[bool, bool, bool]
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    """Returns log-probabilities [rows, K] of logits, and if wanted their entropies and discriminators [rows], and all
    log-probabilities. It overwrites logits in float32."""
    wants_entropy, wants_discriminator, wants_all = wanted
    z = z.float().mul_(inverse[:, None])
    logp = v.log_softmax(z)
    at, mine = v.places(ids)
    logprob = v.total(logp.gather(1, at).where(mine, 0))
    entropy = discriminator = None
    if wants_entropy or wants_discriminator:
        p = torch.exp(logp, out=z)  # at most two matrices of logits exist at once
        entropy = v.total(-(p * logp if wants_discriminator else p.mul_(logp)).sum(-1))
        if wants_discriminator:
            discriminator = v.total((p * p * (entropy[:, None] + logp)).sum(-1))
    return logprob, entropy, discriminator, logp if wants_all else None


def derive(
    z: torch.Tensor,
    inverse: torch.Tensor,
    ids: torch.Tensor,
    v: Vocabulary,
    d_logprob: torch.Tensor,
    d_entropy: torch.Tensor | None,
    entropy: torch.Tensor,
    more: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> torch.Tensor:
    """Returns the derivative by logits. more is that of another stream, from all log-probabilities. It overwrites logits in
    float32."""
    dtype, z = z.dtype, z.float().mul_(inverse[:, None])
    logp = v.log_softmax(z)
    added = more(logp) if more else None
    # d logprob/dz = onehot − p;  d entropy/dz = −p·(ln p + H)
    given = d_logprob.where(ids >= 0, 0)
    total = given.sum(-1, keepdim=True)
    if d_entropy is None:
        dz = logp.exp_().mul_(-total)
    else:
        p = torch.exp(logp, out=z)
        dz = logp.add_(entropy[:, None]).mul_(d_entropy[:, None]).add_(total).neg_().mul_(p)
    at, mine = v.places(ids)
    dz.scatter_add_(1, at, given.where(mine, 0))
    if added is not None:
        dz += added
    return dz.mul_(inverse[:, None]).to(dtype)


def _add_product(total: torch.Tensor, dz: torch.Tensor, states: torch.Tensor) -> None:
    """Adds dzᵀ · states to a sum in float32."""
    if dz.dtype == total.dtype:
        total.addmm_(dz.T, states)
    else:
        total += dz.T @ states


class Head(torch.autograd.Function):
    """(h [M, D], w [V, D], ids [M, K]), w this rank's part v of the vocabulary → log-probability [M, K], entropy, discriminator, divergence: [M] each, nats, float32.

    An id below 0 is none: its log-probability is 0. low [M, r] and up [V, r] are those of an adapter of the head."""

    @staticmethod
    def forward(
        ctx: Any,
        h: torch.Tensor,
        w: torch.Tensor,
        ids: torch.Tensor,
        want: Want,
        v: Vocabulary,
        low: torch.Tensor | None = None,
        up: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        rows, adapter = h.shape[0], Adapter(low, up)
        entropy, discriminator, divergence = (torch.zeros(rows, dtype=torch.float32, device=h.device) for _ in range(3))
        logprob = torch.zeros(ids.shape, dtype=torch.float32, device=h.device)
        function = compiled.of(measure) if want.compiled and not v.group else measure
        wanted = want.entropy, want.discriminator, bool(want.divergence)
        for a in range(0, rows, want.chunk):
            b = min(a + want.chunk, rows)
            got = function(_student(h, w, adapter, want, a, b), want.inverse_temperature[a:b], ids[a:b], v, wanted)
            logprob[a:b], logp = got[0], got[3]
            for stream, part in ((entropy, got[1]), (discriminator, got[2])):
                if part is not None:
                    stream[a:b] = part
            if logp is not None:
                divergence[a:b] = _diverge(want, v, _teacher(want, a, b, v, h), logp)
        ctx.save_for_backward(h, w, ids, entropy, low, up)
        ctx.want, ctx.vocabulary = want, v
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(discriminator)
        return logprob, entropy, discriminator, divergence

    @staticmethod
    def backward(
        ctx: Any,
        d_logprob: torch.Tensor | None,
        d_entropy: torch.Tensor | None,
        _: None,
        d_divergence: torch.Tensor | None,
    ) -> tuple[torch.Tensor | None, ...]:
        h, w, ids, entropy, low, up = ctx.saved_tensors
        adapter = Adapter(low, up)
        want: Want = ctx.want
        v: Vocabulary = ctx.vocabulary
        dh = torch.zeros_like(h) if ctx.needs_input_grad[0] else None
        dw = torch.zeros_like(w, dtype=torch.float32) if ctx.needs_input_grad[1] else None
        dlow = None if low is None else torch.zeros_like(low)
        dup = None if up is None else torch.zeros_like(up, dtype=torch.float32)
        if d_logprob is None:
            d_logprob = torch.zeros(ids.shape, dtype=torch.float32, device=h.device)
        if not want.divergence:
            d_divergence = None
        function = compiled.of(derive) if want.compiled and not v.group and d_divergence is None else derive
        for a in range(0, h.shape[0], want.chunk):
            b = min(a + want.chunk, h.shape[0])
            inverse, by_entropy = want.inverse_temperature[a:b], None if d_entropy is None else d_entropy[a:b]
            more = partial(_diverge_more, want, v, d_divergence, a, b, h) if d_divergence is not None else None
            logits = _student(h, w, adapter, want, a, b)
            slope = want.finish.back(logits)
            dz = function(logits, inverse, ids[a:b], v, d_logprob[a:b], by_entropy, entropy[a:b], more)
            del logits
            if slope is not None:
                dz = dz.mul_(slope).to(h.dtype)
                del slope
            if dh is not None:
                dh[a:b] = v.total((dz @ w).float())
            if dw is not None:
                _add_product(dw, dz, h[a:b])
            if dlow is not None and dup is not None:
                dlow[a:b] = dz @ up
                _add_product(dup, dz, low[a:b])
            del dz  # before the next chunk has its logits
        return (
            dh,
            None if dw is None else dw.to(w.dtype),
            None,
            None,
            None,
            dlow,
            None if dup is None else dup.to(up.dtype),
        )
