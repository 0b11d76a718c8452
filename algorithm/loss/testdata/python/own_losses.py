"""Losses in Python without a library: the derivatives are written out."""

import math
import os


def clipped(value, low, high):
    return min(max(value, low), high)


def cispo(logprob, old_logprob, advantages, action_mask, clip=0.28):
    """CISPO with a mean over the tokens, as the loss of that name in this program."""
    tokens = sum(map(sum, action_mask))
    loss, ratios, derivatives = 0.0, 0.0, []
    for lp, old, adv, mask in zip(logprob, old_logprob, advantages, action_mask):
        weights = [min(math.exp(clipped(a - b, -20, 20)), 1 + clip) * m for a, b, m in zip(lp, old, mask)]
        derivatives.append([-a * w / tokens for a, w in zip(adv, weights)])
        loss += sum(d * x for d, x in zip(derivatives[-1], lp))
        ratios += sum(weights)
    return loss, {"logprob": derivatives}, {"weight": ratios / tokens}


class Weighed:
    """Imitates demonstrations and reinforces the rest, with a bonus for entropy."""

    def __init__(self, mu=0.5, bonus=0.1):
        self.mu, self.bonus = mu, bonus

    def __call__(self, logprob, advantages, action_mask, expert_mask, entropy, step, difficulty, margin=None):
        assert margin is None and step == 3
        n = sum(map(sum, action_mask))
        weights = [self.mu if expert else (1 - self.mu) * d for expert, d in zip(expert_mask, difficulty)]
        by = [[-w * (1 if expert else a) * m / n for a, m in zip(adv, mask)]
              for w, expert, adv, mask in zip(weights, expert_mask, advantages, action_mask)]
        loss = sum(d * lp for row, lps in zip(by, logprob) for d, lp in zip(row, lps))
        loss -= self.bonus * sum(map(sum, entropy)) / n
        return loss, {"logprob": by, "entropy": [[-self.bonus * m / n for m in mask] for mask in action_mask]}


class Preference:
    """A loss of pairs: the difference of the sums of chosen and rejected answers."""

    pairs = True

    def __call__(self, logprob, ref_logprob, action_mask):
        derivatives, loss = [], 0.0
        n = len(logprob) // 2
        for chosen, rejected in zip(zip(logprob[::2], ref_logprob[::2]), zip(logprob[1::2], ref_logprob[1::2])):
            z = sum(chosen[0]) - sum(chosen[1]) - sum(rejected[0]) + sum(rejected[1])
            loss += math.log1p(math.exp(-z)) / n if z > -30 else -z / n
            slope = -1 / (1 + math.exp(min(z, 700))) / n
            derivatives += [[slope] * len(logprob[0]), [-slope] * len(logprob[0])]
        return loss, {"logprob": [[d * m for d, m in zip(ds, ms)] for ds, ms in zip(derivatives, action_mask)]}, {"odd": float("nan")}


def wrong(logprob, how):
    rows = [[0.0] * len(row) for row in logprob]
    match how:
        case "rows":
            return 1.0, {"logprob": rows[1:]}
        case "tokens":
            return 1.0, {"logprob": [rows[0][:-1], *rows[1:]]}
        case "nan":
            rows[1][0] = float("inf")
            return 1.0, {"logprob": rows}
        case "loss":
            return float("nan"), {"logprob": rows}
        case "none":
            return 1.0, {"rate": 2.0}
        case "raise":
            raise ValueError("odd")


def k2(logprob, ref_logprob, power=2):
    values = [[0.5 * abs(a - b) ** power for a, b in zip(*rows)] for rows in zip(logprob, ref_logprob)]
    return values, [[a - b for a, b in zip(*rows)] for rows in zip(logprob, ref_logprob)]


class Bonus:
    def __init__(self, entropy_coef):
        self.coef = entropy_coef

    def __call__(self, entropy, action_mask, loss_agg_mode="token-mean", **kwargs):
        assert loss_agg_mode == "token-mean"
        n = sum(map(sum, action_mask))
        return self.coef * sum(map(sum, entropy)) / n, {"entropy": [[self.coef * m / n for m in row] for row in action_mask]}


def no_kl(logprob, ref_logprob):
    return 0


def zeros_kl(logprob, ref_logprob):
    return [[0.0] * len(row) for row in logprob]


def forgets_kl(logprob, ref_logprob):
    return [[1.0] * len(row) for row in logprob]


def no_bonus(entropy):
    return 0.0


def forgets_bonus(entropy):
    return sum(map(sum, entropy))


def shaped(logprob, action_mask, worth, level=None):
    """Reinforces each token by what its rollout says that it is worth."""
    by = [[-w * m for w, m in zip(*row)] for row in zip(worth, action_mask)]
    return sum(d * lp for row, lps in zip(by, logprob) for d, lp in zip(row, lps)), {"logprob": by}


class Ends:
    """Counts, and ends its process once when it is asked for the second time."""

    def __init__(self, mark):
        self.mark, self.asked = mark, 0

    def __call__(self, logprob):
        self.asked += 1
        if self.asked == 2 and not os.path.exists(self.mark):
            open(self.mark, "w").close()
            os._exit(3)
        return self.asked, {"logprob": logprob}

    def state_dict(self):
        return {"asked": self.asked}

    def load_state_dict(self, state):
        self.asked = state["asked"]
