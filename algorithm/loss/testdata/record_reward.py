"""Records the loss that trains a reward model, written from the papers' formulas in PyTorch (float64, autograd), one pair at a time.

Bradley-Terry: Stiennon et al. 2020, eq. 1; margin: Touvron et al. 2023, eq. 2; scores around 0: Eisenstein et al. 2023.
Run: python record_reward.py > reward.json
"""
import json
import random

import torch
import torch.nn.functional as F

random.seed(5)
torch.set_default_dtype(torch.float64)


def f32(x):
    return float(torch.tensor(x, dtype=torch.float32))


# score of the chosen answer, of the rejected one, margin, and the trained tokens of both: a pair of which one has none does not count
pairs = [(f32(random.gauss(0, 2)), f32(random.gauss(0, 2)), random.choice([0.0, 0.5, 1.25]), 3, 2) for _ in range(6)]
pairs += [(30.0, -40.0, 0.0, 1, 1), (-35.0, 25.0, 1.0, 2, 1), (1.5, 1.5, 0.0, 1, 4), (5.0, -3.0, 0.5, 0, 2), (2.0, 9.0, 0.5, 3, 0)]


def record(name, center=0.0, margins=True):
    scores = [torch.tensor([c, r], requires_grad=True) for c, r, *_ in pairs]
    likelihood, sums, right, distance, mean = [], [], [], [], []
    for s, (_, _, m, chosen, rejected) in zip(scores, pairs):
        if not chosen or not rejected:
            continue
        z = s[0] - s[1]
        likelihood.append(-F.logsigmoid(z - (m if margins else 0.0)))
        sums.append((s[0] + s[1]) ** 2)
        right.append(float(z.detach() > 0))
        distance.append(float(z.detach()))
        mean.append(float(s.detach().mean()))
    loss = torch.stack(likelihood).mean() + center * torch.stack(sums).mean()
    loss.backward()
    average = lambda v: sum(v) / len(v)
    metrics = dict(final_loss=float(loss.detach()), bradley_terry_loss=float(torch.stack(likelihood).mean().detach()),
                   center_loss=float(torch.stack(sums).mean().detach()), accuracy=average(right), margin=average(distance), mean_reward=average(mean))
    grads = [x for s in scores for x in (s.grad if s.grad is not None else torch.zeros(2)).tolist()]
    return dict(name=name, center=center, margins=margins, metrics=metrics, grads=grads)


cases = [record("alone", margins=False), record("margins"), record("scores around 0", center=0.01, margins=False), record("both", center=0.3)]
print(json.dumps(dict(pairs=pairs, cases=cases)))
