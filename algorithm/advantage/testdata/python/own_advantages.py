"""Advantages in Python without a library."""


def centred(exps, scale=1.0):
    """The reward less the mean of the group, in another order, and without groups of equal rewards."""
    groups, metrics = {}, {"groups": 0}
    for e in sorted(exps, key=lambda e: (str(e.eid.task), e.eid.run, e.eid.step)):
        groups.setdefault(e.eid.tid, []).append(e)
    kept = []
    for group in groups.values():
        mean = sum(e.reward for e in group) / len(group)
        for e in group:
            e.advantages = [scale * (e.reward - mean) * m for m in e.action_mask]
            e.returns = e.advantages
        metrics["groups"] += 1
        kept += group
    return kept, metrics


class Centred:
    def __init__(self, scale):
        self.scale, self.batches = scale, 0

    def process(self, exps):
        self.batches += 1
        return centred(exps, self.scale)[0], {"batches": self.batches}


def forgets(exps):
    exps[0].advantages = [0.0] * len(exps[0].action_mask)
    return exps, {}
