"""The vocabulary head: streams from hidden states, a chunk of rows at a time.

Only chunk × vocabulary logits exist at any moment: the backward pass computes them again from the hidden states.
"""

from dataclasses import dataclass, field
from typing import Any

import torch

from .tensor import Vocabulary

FORWARD_KL, REVERSE_KL, JSD = "forward_kl", "reverse_kl", "jsd"
DIVERGENCES = (FORWARD_KL, REVERSE_KL, JSD)


@dataclass
class Teacher:
    """The frozen side of a divergence for some head rows."""

    rows: torch.Tensor  # [R] sorted numbers of head rows
    states: torch.Tensor  # [R, width]
    weight: torch.Tensor  # [vocabulary of the teacher, width]


@dataclass
class Want:
    """What a head computes besides log-probabilities."""

    inverse_temperature: torch.Tensor  # [M] float32
    chunk: int
    discriminator: bool = False
    divergence: str = ""  # a kind of DIVERGENCES, or none
    beta: float = 0.0  # of JSD: the weight of the teacher in the mixture
    teachers: list[Teacher] = field(default_factory=list)


@dataclass
class Adapter:
    """A low-rank update of the head: its logits are states · upᵀ, [M, r] · [r, V]."""

    states: torch.Tensor | None  # scaled, of the hidden states; None without an adapter
    up: torch.Tensor | None


def _student(h: torch.Tensor, w: torch.Tensor, adapter: Adapter, want: Want, a: int, b: int) -> torch.Tensor:
    logits = h[a:b] @ w.T
    if adapter.states is not None and adapter.up is not None:
        logits = logits + adapter.states[a:b] @ adapter.up.T
    return logits.float().mul_(want.inverse_temperature[a:b, None])


def _teacher(want: Want, a: int, b: int, v: Vocabulary, like: torch.Tensor) -> torch.Tensor:
    """Returns the teachers' log-probabilities [b - a, v.size] of the rows [a, b)."""
    logits = torch.empty(b - a, v.size, dtype=torch.float32, device=like.device)
    for t in want.teachers:
        lo, hi = (int(x) for x in torch.searchsorted(t.rows, torch.tensor([a, b], device=t.rows.device)))
        if lo < hi:
            logits[t.rows[lo:hi] - a] = (t.states[lo:hi] @ t.weight[v.first : v.first + v.size].T).float()
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
        for a in range(0, rows, want.chunk):
            b = min(a + want.chunk, rows)
            logp = v.log_softmax(_student(h, w, adapter, want, a, b))
            p = logp.exp()
            at, mine = v.places(ids[a:b])
            logprob[a:b] = v.total(logp.gather(1, at).where(mine, 0))
            entropy[a:b] = v.total(-(p * logp).sum(-1))
            if want.discriminator:
                discriminator[a:b] = v.total((p * p * (entropy[a:b, None] + logp)).sum(-1))
            if want.divergence:
                divergence[a:b] = _diverge(want, v, _teacher(want, a, b, v, h), logp)
        ctx.save_for_backward(h, w, ids, entropy, low, up)
        ctx.want, ctx.vocabulary = want, v
        ctx.mark_non_differentiable(discriminator)
        return logprob, entropy, discriminator, divergence

    @staticmethod
    def backward(
        ctx: Any, d_logprob: torch.Tensor, d_entropy: torch.Tensor, _: torch.Tensor, d_divergence: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        h, w, ids, entropy, low, up = ctx.saved_tensors
        adapter = Adapter(low, up)
        want: Want = ctx.want
        v: Vocabulary = ctx.vocabulary
        dh = torch.zeros_like(h) if ctx.needs_input_grad[0] else None
        dw = torch.zeros_like(w, dtype=torch.float32) if ctx.needs_input_grad[1] else None
        dlow = None if low is None else torch.zeros_like(low)
        dup = None if up is None else torch.zeros_like(up, dtype=torch.float32)
        for a in range(0, h.shape[0], want.chunk):
            b = min(a + want.chunk, h.shape[0])
            logp = v.log_softmax(_student(h, w, adapter, want, a, b))
            p = logp.exp()
            # d logprob/dz = onehot − p;  d entropy/dz = −p·(ln p + H)
            given = d_logprob[a:b].where(ids[a:b] >= 0, 0)
            dz = p * -(given.sum(-1, keepdim=True) + d_entropy[a:b, None] * (logp + entropy[a:b, None]))
            at, mine = v.places(ids[a:b])
            dz.scatter_add_(1, at, given.where(mine, 0))
            if want.divergence:
                teacher = _teacher(want, a, b, v, h)
                dz += d_divergence[a:b, None] * _diverge_back(want, v, teacher, logp)
            dz = dz.mul_(want.inverse_temperature[a:b, None]).to(h.dtype)
            if dh is not None:
                dh[a:b] = v.total((dz @ w).float())
            if dw is not None:
                dw += (dz.T @ h[a:b]).float()
            if dlow is not None and dup is not None:
                dlow[a:b] = dz @ up
                dup += (dz.T @ low[a:b]).float()
        return (
            dh,
            None if dw is None else dw.to(w.dtype),
            None,
            None,
            None,
            dlow,
            None if dup is None else dup.to(up.dtype),
        )
