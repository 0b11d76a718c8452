"""Records advantages and returns of a critic's values: the sums of the papers written out, term by term, in PyTorch (float64).

Run: python record_critic.py > critic.json
"""
import json
import random

import torch

random.seed(5)
torch.set_default_dtype(torch.float64)


def f32(x):
    return float(torch.tensor(x, dtype=torch.float32))


def experience(flags, reward, valid=True):
    mask = [False] + [bool(f) for f in flags]
    return dict(
        mask=mask,
        values=[f32(random.gauss(0, 1)) if m else 0.0 for m in mask],
        penalty=[f32(random.gauss(0, 0.3)) if m else 0.0 for m in mask],
        reward=reward,
        valid=valid,
    )


groups = [
    [experience([1, 1, 1, 1], 1.0), experience([1, 0, 0, 1, 1, 0], 0.0), experience([0, 0], 1.0)],
    [experience([1], 0.25), experience([1, 1], 1.0, valid=False), experience([0, 1, 0, 1, 0, 1, 1, 1, 0, 0], -2.0)],
    [experience([1] * 9, f32(random.gauss(0, 1)))],
]
rollouts = [e for g in groups for e in g if e["valid"]]


def episode(e, penalized):
    """Rewards and values of the tokens that the policy sampled, with the state beyond the end."""
    at = [t for t, m in enumerate(e["mask"]) if m]
    r = torch.zeros(len(at))
    if at:
        r[-1] = e["reward"]
    if penalized:
        r = r - torch.tensor([e["penalty"][t] for t in at])
    return at, r, torch.tensor([e["values"][t] for t in at] + [0.0])


def gae(r, v, gamma, lam):
    delta = r + gamma * v[1:] - v[:-1]
    n = len(r)
    return torch.stack([sum((gamma * lam) ** l * delta[t + l] for l in range(n - t)) for t in range(n)]) if n else delta


def n_step(r, v, gamma, n):
    out = []
    for t in range(len(r)):
        k = min(n, len(r) - t)
        out.append(sum(gamma**i * r[t + i] for i in range(k)) + gamma**k * v[t + k] - v[t])
    return torch.stack(out) if out else r


def spread(e, at, x):
    row = [0.0] * len(e["mask"])
    for t, y in zip(at, x.tolist()):
        row[t] = y
    return row


cases = []
for name, args, penalized in (
    ("ppo", {}, False),
    ("ppo", dict(gamma=0.9, lam=0.8), False),
    ("ppo", dict(gamma=0.5, lam=0.0), True),
    ("a2c", {}, False),
    ("a2c", dict(gamma=0.9), True),
    ("a2c", dict(gamma=0.9, n_steps=1), False),
    ("a2c", dict(gamma=0.95, n_steps=3), True),
    ("a2c", dict(n_steps=100), False),
    ("a2c", dict(gamma=0.9, lam=0.7), False),
):
    gamma, n, lam = args.get("gamma", 1.0), args.get("n_steps"), args.get("lam", 1.0 if name == "ppo" else None)
    estimates = []
    for e in rollouts:
        at, r, v = episode(e, penalized)
        estimates.append(gae(r, v, gamma, lam) if lam is not None else n_step(r, v, gamma, n or len(r) or 1))
    returns = [a + torch.tensor([e["values"][t] for t, m in enumerate(e["mask"]) if m]) for e, a in zip(rollouts, estimates)]
    if name == "ppo":
        everything = torch.cat(estimates)
        center, scale = everything.mean(), torch.rsqrt(everything.var() + 1e-8)
        estimates = [(a - center) * scale for a in estimates]
    places = [episode(e, False)[0] for e in rollouts]
    cases.append(dict(
        name=name, args=args, penalized=penalized,
        advantages=[spread(e, p, a) for e, p, a in zip(rollouts, places, estimates)],
        returns=[spread(e, p, x) for e, p, x in zip(rollouts, places, returns)],
    ))
print(json.dumps(dict(groups=groups, cases=cases)))
