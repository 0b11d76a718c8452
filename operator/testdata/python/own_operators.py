"""Operators in Python, written as those of Trinity-RFT."""

from copy import deepcopy

class Odd:
    """Keeps every second experience of a group."""

    def process(self, exps):
        left = [e for e in exps if e.eid.run % 2 == 0]
        return left, {"half": len(left)}


class Edit:
    def __init__(self, bonus=0.5):
        self.bonus, self.prepared, self.steps = bonus, 0, 0

    async def prepare(self):
        self.prepared += 1

    async def process(self, exps):
        self.steps += 1
        for e in exps:
            assert len(e.tokens) == e.prompt_length + len(e.action_mask)
            e.info["seen"] = {"prepared": self.prepared, "steps": self.steps, "version": e.info["model_version"]}
            e.metrics["length"] = len(e.action_mask)
            e.reward = None if e.reward is None or e.reward < 0 else e.reward + self.bonus
            e.advantages = [e.reward or 0.0] * len(e.action_mask)
            e.action_mask = [False, *list(e.action_mask)[1:]]
        first = [deepcopy(e) for e in exps if e.eid.task == exps[0].eid.task]
        return [*reversed(exps), *first], {"odd": float("nan"), "steps": self.steps}

    async def close(self):
        print("closed after", self.steps)


def even(exps, keep=2):
    return exps[:keep]


class Wrong:
    def __init__(self, how):
        self.how = how

    def process(self, exps):
        if self.how == "new":
            return ["?"], {}
        if self.how == "tokens":
            exps[0].tokens = [1, 2, 3]
        if self.how == "mask":
            exps[1].action_mask = [True] * len(exps[1].action_mask)
        if self.how == "advantages":
            exps[0].advantages = [1.0]
        if self.how == "nan":
            exps[0].advantages = [float("nan")] * len(exps[0].action_mask)
        if self.how == "info":
            exps[0].info["set"] = object()
        if self.how == "reward":
            exps[0].reward = "x"
        if self.how == "none left":
            for e in exps:
                e.action_mask, e.metrics["bad"] = [False] * len(e.action_mask), "x"
        if self.how == "dropped":
            return [], {}
        if self.how == "raise":
            raise ValueError("odd")
        return exps, {}


class None_:
    pass


def also(exps, n):
    return exps
