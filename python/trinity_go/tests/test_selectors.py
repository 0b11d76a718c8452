"""Selectors of users."""

from __future__ import annotations

import random
from typing import Any

import pytest

from trinity_go import selectors
from trinity_go.wire import Told


class Hardest:
    """Takes the rows of the lowest reward first; equal ones by their level, then by chance."""

    def __init__(self, data_source: Any, config: Any) -> None:
        self.levels, self.drawn = data_source.dataset["level"], 0
        self.rewards = [0.0] * data_source.dataset_size
        self.seed, self.most = config.seed, config.kwargs.get("most", 100)

    def get_indices(self, batch_size: int, return_extra_info: bool = False) -> list[int]:
        draw = random.Random(self.seed + self.drawn)
        self.drawn += batch_size
        keys = [(r, level, draw.random()) for r, level in zip(self.rewards, self.levels, strict=True)]
        return sorted(range(len(keys)), key=keys.__getitem__)[:batch_size]

    def feedback(self, indices: list[int], values: list[float]) -> None:
        for i, value in zip(indices, values, strict=True):
            self.rewards[i] = value

    def state_dict(self) -> dict[str, Any]:
        return {"rewards": self.rewards, "drawn": self.drawn}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.rewards, self.drawn = state["rewards"], state["drawn"]


class NoJSON(Hardest):
    def state_dict(self) -> dict[str, Any]:
        return {"drawn": float("nan")}


class Other(Hardest):
    def __init__(self, data_source: Any, config: Any) -> None:
        data_source.dataset["answer"]


def ask(name: str, id: int, version: int = 0, state: Any = None, **more: Any) -> Any:
    question = {
        "name": f"{__name__}.{name}", "args": {"seed": 1, "feature_keys": ["level"]}, "selector": id, "version": version, "state": state,
        "rows": 4, "batch": 2, "feedback": [],
    }  # fmt: skip
    return selectors.select(question | more)


COLUMNS = {"level": [3, 0, 1, 2]}


def test_select() -> None:
    assert ask("Hardest", 1) == {"wants": ["level"]}
    first = ask("Hardest", 1, columns=COLUMNS)
    assert first == {"rows": [1, 2], "state": {"rewards": [0.0] * 4, "drawn": 2}}
    feedback = [[[1, 2], [1.0, 0.5]]]
    second = ask("Hardest", 1, 1, first["state"], feedback=feedback)
    assert second["rows"] == [3, 0]
    # A process that has not that state makes the class again, also one that was given another state meanwhile.
    assert ask("Hardest", 1, 1, first["state"], feedback=feedback) == {"wants": ["level"]}
    assert ask("Hardest", 2, 1, first["state"], feedback=feedback, columns=COLUMNS) == second
    assert ask("Hardest", 2, 2, second["state"], batch=None) == {"rows": [], "state": second["state"]}


def test_refused() -> None:
    with pytest.raises(Told, match="its state_dict is no JSON: Out of range float values"):
        ask("NoJSON", 3, columns=COLUMNS)
    with pytest.raises(Told, match="it reads the column answer: name it in data_selector.feature_keys"):
        ask("Other", 4, columns=COLUMNS)
    with pytest.raises(Told, match="COLUMNS is no class: a selector has the methods get_indices"):
        selectors.describe(f"{__name__}.COLUMNS", {})
    with pytest.raises(
        Told, match="Rows is no selector: it has no method get_indices and no state_dict and no load_state_dict"
    ):
        selectors.describe("trinity_go.selectors.Rows", {})
    assert selectors.describe(f"{__name__}.Hardest", {}) == {}
