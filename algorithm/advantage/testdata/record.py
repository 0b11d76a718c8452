"""Records GRPO advantages of random groups, the formulas written anew in PyTorch (float64).

Run: python record.py > torch.json
"""
import json
import random

import torch

random.seed(11)
torch.set_default_dtype(torch.float64)


def f32(x):
    return float(torch.tensor(x, dtype=torch.float32))


def experience():
    n = random.randint(1, 5)
    mask = [False] + [random.random() < 0.8 for _ in range(n)]
    return dict(
        mask=mask,
        logprobs=[f32(-random.expovariate(1.0)) if m else 0.0 for m in mask],
        valid=random.random() < 0.85,
        reward=random.choice([0.0, 1.0, 0.5, random.gauss(0, 1)]),
    )


groups = [[experience() for _ in range(size)] for size in (4, 2, 8, 1, 3, 5)]
groups.append([dict(experience(), reward=1.0, valid=True) for _ in range(4)])
groups.append([dict(experience(), valid=False) for _ in range(2)])


def grpo(epsilon=1e-6, std_threshold=None, rank_penalty=None, std_cal_level="group"):
    scores = []
    for g in groups:
        g = [e for e in g if e["valid"]]
        r = torch.tensor([e["reward"] for e in g])
        if rank_penalty is not None and g:
            likely = torch.tensor([
                sum(l for l, m in zip(e["logprobs"], e["mask"]) if m) / sum(e["mask"]) if any(e["mask"]) else -torch.inf for e in g
            ])
            rank = torch.argsort(torch.argsort(likely, stable=True))
            r = r * (1 - rank_penalty * rank / len(g))
        scores.append(r)
    everything = torch.cat(scores)
    out, filtered = [], 0
    for g, r in zip(groups, scores):
        n = len(r)
        std = torch.std(r) if n > 1 else torch.tensor(0.0)
        if n == 0 or (std_threshold is not None and (n == 1 or std <= std_threshold)):
            filtered += n
            out.append(None)
            continue
        center, scale = (r.mean(), std) if n > 1 else (0.0, 1.0)
        if std_cal_level == "batch":
            scale = torch.std(everything)
        a = iter(((r - center) / (scale + epsilon)).tolist())
        out.append([[x * m for m in e["mask"]] for e in g if e["valid"] for x in [next(a)]])
    return out, filtered


cases = []
for args in (
    {}, dict(epsilon=0.1), dict(std_threshold=0.0), dict(std_threshold=0.6), dict(rank_penalty=0.5), dict(std_cal_level="batch"),
    dict(std_cal_level="batch", std_threshold=0.0, rank_penalty=0.25),
):
    advantages, filtered = grpo(**args)
    cases.append(dict(args=args, advantages=advantages, filtered=filtered))
print(json.dumps(dict(groups=groups, cases=cases)))
