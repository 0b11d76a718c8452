"""The vocabulary head: streams from hidden states, a chunk of rows at a time.

Only chunk × vocabulary logits exist at any moment: the backward pass computes them again from the hidden states.
"""

from dataclasses import dataclass, field
from typing import Any

import torch

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


def _student(h: torch.Tensor, w: torch.Tensor, want: Want, a: int, b: int) -> torch.Tensor:
    return (h[a:b] @ w.T).float().mul_(want.inverse_temperature[a:b, None])


def _teacher(want: Want, a: int, b: int, vocabulary: int, like: torch.Tensor) -> torch.Tensor:
    """Returns the teachers' log-probabilities [b - a, vocabulary] of the rows [a, b)."""
    logits = torch.empty(b - a, vocabulary, dtype=torch.float32, device=like.device)
    for t in want.teachers:
        lo, hi = (int(x) for x in torch.searchsorted(t.rows, torch.tensor([a, b], device=t.rows.device)))
        if lo < hi:
            logits[t.rows[lo:hi] - a] = (t.states[lo:hi] @ t.weight[:vocabulary].T).float()
    return torch.log_softmax(logits.mul_(want.inverse_temperature[a:b, None]), -1)


def _mixture(want: Want, teacher: torch.Tensor, logp: torch.Tensor) -> torch.Tensor:
    """Returns the logarithm of the JSD's mixture."""
    beta = torch.tensor(want.beta, device=logp.device)
    return torch.logaddexp(teacher + beta.log(), logp + (1 - beta).log())


def _diverge(want: Want, teacher: torch.Tensor, logp: torch.Tensor) -> torch.Tensor:
    """Returns the divergences [rows] of the distributions in two matrices of log-probabilities."""
    p, q = teacher.exp(), logp.exp()
    if want.divergence == FORWARD_KL:
        return (p * (teacher - logp)).sum(-1)
    if want.divergence == REVERSE_KL:
        return (q * (logp - teacher)).sum(-1)
    mixture = _mixture(want, teacher, logp)
    return want.beta * (p * (teacher - mixture)).sum(-1) + (1 - want.beta) * (q * (logp - mixture)).sum(-1)


def _diverge_back(want: Want, teacher: torch.Tensor, logp: torch.Tensor) -> torch.Tensor:
    """Returns the derivatives of the divergences by the student's logits."""
    q = logp.exp()
    if want.divergence == FORWARD_KL:
        return q - teacher.exp()
    if want.divergence == REVERSE_KL:
        ratio = logp - teacher
        return q * (ratio - (q * ratio).sum(-1, keepdim=True))
    ratio = logp - _mixture(want, teacher, logp)
    return (1 - want.beta) * q * (ratio - (q * ratio).sum(-1, keepdim=True))


class Head(torch.autograd.Function):
    """(h [M, D], w [V, D], ids [M]) → log-probability, entropy, discriminator, divergence: [M] each, nats, float32."""

    @staticmethod
    def forward(
        ctx: Any, h: torch.Tensor, w: torch.Tensor, ids: torch.Tensor, want: Want
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        rows = h.shape[0]
        logprob, entropy, discriminator, divergence = (
            torch.zeros(rows, dtype=torch.float32, device=h.device) for _ in range(4)
        )
        for a in range(0, rows, want.chunk):
            b = min(a + want.chunk, rows)
            logp = torch.log_softmax(_student(h, w, want, a, b), -1)
            p = logp.exp()
            logprob[a:b] = logp.gather(1, ids[a:b, None])[:, 0]
            entropy[a:b] = -(p * logp).sum(-1)
            if want.discriminator:
                discriminator[a:b] = (p * p * (entropy[a:b, None] + logp)).sum(-1)
            if want.divergence:
                divergence[a:b] = _diverge(want, _teacher(want, a, b, w.shape[0], h), logp)
        ctx.save_for_backward(h, w, ids, entropy)
        ctx.want = want
        ctx.mark_non_differentiable(discriminator)
        return logprob, entropy, discriminator, divergence

    @staticmethod
    def backward(
        ctx: Any, d_logprob: torch.Tensor, d_entropy: torch.Tensor, _: torch.Tensor, d_divergence: torch.Tensor
    ) -> tuple[torch.Tensor | None, torch.Tensor | None, None, None]:
        h, w, ids, entropy = ctx.saved_tensors
        want: Want = ctx.want
        dh = torch.zeros_like(h) if ctx.needs_input_grad[0] else None
        dw = torch.zeros_like(w, dtype=torch.float32) if ctx.needs_input_grad[1] else None
        for a in range(0, h.shape[0], want.chunk):
            b = min(a + want.chunk, h.shape[0])
            logp = torch.log_softmax(_student(h, w, want, a, b), -1)
            p = logp.exp()
            # d logprob/dz = onehot − p;  d entropy/dz = −p·(ln p + H)
            dz = p * -(d_logprob[a:b, None] + d_entropy[a:b, None] * (logp + entropy[a:b, None]))
            dz.scatter_add_(1, ids[a:b, None], d_logprob[a:b, None])
            if want.divergence:
                teacher = _teacher(want, a, b, w.shape[0], h)
                dz += d_divergence[a:b, None] * _diverge_back(want, teacher, logp)
            dz = dz.mul_(want.inverse_temperature[a:b, None]).to(h.dtype)
            if dh is not None:
                dh[a:b] = dz @ w
            if dw is not None:
                dw += (dz.T @ h[a:b]).float()
        return dh, None if dw is None else dw.to(w.dtype), None, None
