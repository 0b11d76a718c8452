"""Records bots.json: what BOTS believes after each step of feedback, and which rows it then takes, computed with numpy from the formulas of
Shen et al. 2025. Run it from this folder; it needs numpy alone."""

import json

import numpy as np

rng = np.random.default_rng(5)
N = 12
weak = np.round(rng.uniform(0, 0.6, N), 3)
strong = np.round(np.minimum(1, weak + rng.uniform(0.05, 0.6, N)), 3)
strong[7], weak[7] = weak[7], strong[7]  # a task that the strong model does worse
weak[3] = strong[3] = 0.4  # and one on which they are equal


def simulate(m, lamb, rho, adaptive_rho, target, tau, feedback):
    prior = np.ones(N)
    alpha, beta, cap = np.ones(N), np.ones(N), None
    steps = []
    for rates in feedback:
        seen = np.zeros(N, bool)
        s = np.zeros(N)
        for row, rate in rates.items():
            seen[row], s[row] = True, rate
        spread = strong[seen].mean() - weak[seen].mean()
        if abs(spread) >= 1e-3:
            new = (s[seen].mean() - weak[seen].mean()) / (spread + 1e-6)
            cap = new if cap is None else 0.9 * cap + 0.1 * new
        guess = np.clip(weak + (0.5 if cap is None else cap) * (strong - weak), 0, 1)
        if adaptive_rho and np.abs(guess[seen] - s[seen]).mean() >= 0.25:
            rho *= 0.5
        guess = np.where(seen, s, guess)
        alpha = (1 - lamb) * alpha + lamb * prior + (1 - rho) * s * m * seen + rho * guess * m
        beta = (1 - lamb) * beta + lamb * prior + (1 - rho) * (1 - s) * m * seen + rho * (1 - guess) * m
        p = alpha / (alpha + beta)
        score = -np.abs(target - p)
        step = {
            "rewards": {str(k): v for k, v in rates.items()},
            "alpha": alpha.tolist(),
            "beta": beta.tolist(),
            "rho": rho,
            "best": np.argsort(-score, kind="stable")[:5].tolist(),
        }
        if tau > 0:
            w = np.exp(score / tau - (score / tau).max())
            step["probability"] = (w / w.sum()).tolist()
        steps.append(step)
    return steps


def feedback(seed, wrong=False):
    rng = np.random.default_rng(seed)
    out = []
    for t in range(6):
        rows = rng.choice(N, 4, replace=False)
        if t == 3:
            rows = np.array([3])  # equal features: the capability is not measured
        mid = weak[rows] + (0.2 + 0.1 * t) * (strong[rows] - weak[rows])
        rates = rng.binomial(8, np.clip(1 - mid if wrong else mid, 0, 1)) / 8
        out.append({int(r): float(x) for r, x in zip(rows, rates)})
    return out


cases = []
for name, m, lamb, rho, adaptive, target, tau, events in [
    ("plain", 16, 0.1, 0.1, False, 0.5, 0.0, feedback(1)),
    ("all forgotten", 8, 1.0, 0.2, False, 0.9, 0.5, feedback(2)),
    ("nothing forgotten", 4, 0.0, 0.0, False, 1.0, 1.0, feedback(3)),
    ("references that mislead", 16, 0.2, 0.4, True, 0.5, 0.1, feedback(4, wrong=True)),
    ("equal references first", 16, 0.2, 0.2, True, 0.5, 0.0, [{3: 0.75}, {0: 1.0, 7: 0.0}, {1: 0.5}]),
]:
    cases.append({
        "name": name,
        "kwargs": {"m": m, "lamb": lamb, "rho": rho, "adaptive_rho": adaptive, "target_reward": target, "tau": tau},
        "steps": simulate(m, lamb, rho, adaptive, target, tau, events),
    })

with open("bots.json", "w") as f:
    json.dump({"weak": weak.tolist(), "strong": strong.tolist(), "cases": cases}, f, indent=1)
    f.write("\n")
