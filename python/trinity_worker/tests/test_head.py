"""The head against autograd in float64."""

import itertools

import pytest
import torch

from trinity_worker.head import DIVERGENCES, FORWARD_KL, JSD, REVERSE_KL, Head, Teacher, Want
from trinity_worker.logits import PLAIN, Finish
from trinity_worker.tensor import Vocabulary

ROWS, WIDTH, VOCABULARY = 11, 8, 29
FINISHES = {"plain": PLAIN, "scaled": Finish(0.3), "capped": Finish(cap=4.0), "both": Finish(1.7, 2.0)}


def final(z, finish):
    z = z * finish.scale
    return z if finish.cap == 0 else finish.cap * torch.tanh(z / finish.cap)


def oracle(h, w, ids, temperature, kind, beta, teacher, finish):
    logp = torch.log_softmax(final(h @ w.T, finish) / temperature[:, None], -1)
    p = logp.exp()
    entropy = -(p * logp).sum(-1)
    disc = (p * p * (entropy[:, None] + logp)).sum(-1)
    t = torch.log_softmax(teacher / temperature[:, None], -1)
    if kind == FORWARD_KL:
        div = (t.exp() * (t - logp)).sum(-1)
    elif kind == REVERSE_KL:
        div = (p * (logp - t)).sum(-1)
    elif kind == JSD:
        m = (beta * t.exp() + (1 - beta) * p).log()
        div = beta * (t.exp() * (t - m)).sum(-1) + (1 - beta) * (p * (logp - m)).sum(-1)
    else:
        div = torch.zeros(len(h), dtype=h.dtype)
    return logp.gather(1, ids.clamp(0)).where(ids >= 0, 0), entropy, disc, div


@pytest.mark.parametrize("finish", FINISHES.values(), ids=FINISHES)
@pytest.mark.parametrize("targets", (1, 4))
@pytest.mark.parametrize("adapted", (False, True))
@pytest.mark.parametrize("kind,chunk", list(itertools.product(("", *DIVERGENCES), (3, 64))))
def test_head_agrees_with_autograd(kind: str, chunk: int, adapted: bool, targets: int, finish: Finish) -> None:
    torch.manual_seed(1)
    h, w = torch.randn(ROWS, WIDTH), torch.randn(VOCABULARY, WIDTH)
    ids, temperature = torch.randint(VOCABULARY, (ROWS, targets)), torch.rand(ROWS) + 0.5
    ids[::3, 1:] = -1  # some rows have fewer
    first, second = torch.tensor([0, 1, 5, 7]), torch.tensor([2, 3, 4, 6, 8, 9, 10])
    # two teachers of different widths, the second with a padded vocabulary and capped logits
    teachers = [
        Teacher(first.numpy(), first, torch.randn(len(first), 5), torch.randn(VOCABULARY, 5)),
        Teacher(
            second.numpy(), second, torch.randn(len(second), 12), torch.randn(VOCABULARY + 3, 12), FINISHES["both"]
        ),
    ]
    logits = torch.empty(ROWS, VOCABULARY, dtype=torch.float64)
    for t in teachers:
        logits[t.rows] = final(t.states.double() @ t.weight.double().T, t.finish)[:, :VOCABULARY]
    grads = [torch.randn(ROWS, targets), torch.randn(ROWS), torch.randn(ROWS)]
    want = Want(1 / temperature, chunk, True, True, kind, 0.3, teachers if kind else [], finish=finish)

    rank = 2 if adapted else 0
    down, up = torch.randn(rank, WIDTH), torch.randn(VOCABULARY, rank)
    h1, w1, down1, up1 = (x.clone().requires_grad_() for x in (h, w, down, up))
    low = (h1 @ down1.T, up1) if adapted else ()
    got = Head.apply(h1, w1, ids, want, Vocabulary(w1), *low)
    torch.autograd.backward([got[0], got[1], got[3]], grads)
    h2, w2, down2, up2 = (x.double().requires_grad_() for x in (h, w, down, up))
    ref = oracle(h2, w2 + up2 @ down2, ids, temperature.double(), kind, 0.3, logits, finish)
    sum(((r * g.double()).sum() for r, g in zip((ref[0], ref[1], ref[3]), grads, strict=True))).backward()
    for name, a, b in zip(("logprob", "entropy", "discriminator", "divergence"), got, ref, strict=True):
        torch.testing.assert_close(a.double(), b, atol=2e-5, rtol=1e-5, msg=lambda m, name=name: f"{name}: {m}")
    assert (h1.grad.double() - h2.grad).norm() < 1e-5 * h2.grad.norm()
    assert (w1.grad.double() - w2.grad).norm() < 1e-5 * w2.grad.norm()
    if adapted:
        assert (down1.grad.double() - down2.grad).norm() < 1e-5 * down2.grad.norm()
        assert (up1.grad.double() - up2.grad).norm() < 1e-5 * up2.grad.norm()
