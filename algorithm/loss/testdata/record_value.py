"""Records the critic's loss, its gradient and metrics in PyTorch (float64, autograd) over padded tensors.

Run: python record_value.py > value.json
"""
import json
import random

import torch

random.seed(3)
torch.set_default_dtype(torch.float64)


def f32(x):
    return float(torch.tensor(x, dtype=torch.float32))


def sequence(flags):
    mask = [False, False] + [bool(f) for f in flags]
    before = [f32(random.gauss(0, 1)) if m else 0.0 for m in mask]
    return dict(
        mask=mask,
        before=before,
        value=[f32(b + random.gauss(0, 0.8)) if m else 0.0 for m, b in zip(mask, before)],
        returns=[f32(random.gauss(0, 1)) if m else 0.0 for m in mask],
    )


batch = [sequence(f) for f in ([1, 1, 1, 1], [1, 0, 0, 1, 1], [0, 0], [1], [1] * 7)]
batch[0]["value"][3] = 1e3  # far off, to either side
batch[4]["value"][5] = -1e3
width = max(len(s["mask"]) for s in batch)


def pad(name):
    return torch.tensor([[float(v) for v in s[name]] + [0.0] * (width - len(s[name])) for s in batch])


M, before, returns = pad("mask"), pad("before"), pad("returns")
cases = []
for clip in (0.5, 0.1, 3.0, None):
    v = pad("value").requires_grad_()
    moved = v if clip is None else torch.clamp(v, min=before - clip, max=before + clip)
    free, clipped = (v - returns) ** 2, (moved - returns) ** 2
    loss = 0.5 * (torch.maximum(free, clipped) * M).sum() / M.sum()
    loss.backward()
    cases.append(dict(
        clip=clip,
        metrics=dict(vf_loss=float(loss.detach()), vpred_mean=float((v.detach() * M).sum() / M.sum()), vf_clipfrac=float(((clipped > free) * M).sum() / M.sum())),
        grad=[row[: len(s["mask"])] for s, row in zip(batch, v.grad.tolist())],
    ))
print(json.dumps(dict(batch=batch, cases=cases)))
