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
        "name": f"{__name__}.{name}", "args": {"seed": 1, "feature_keys": ["level"]}, "rows": 4, "batch": 2, "feedback": [],
        "instance": {"of": id, "version": version, "state": state},
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


class Wrong(Hardest):
    """Does what the entry of kwargs says."""

    def __init__(self, data_source: Any, config: Any) -> None:
        self.rows: Any = config.kwargs.get("rows")
        self.state: Any = config.kwargs.get("state")
        if self.state == "int key":
            self.state = {"seen": [{3: 1}]}

    def get_indices(self, batch_size: int, return_extra_info: bool = False) -> Any:
        return self.rows

    def state_dict(self) -> Any:
        return self.state


@pytest.mark.parametrize(
    ("rows", "state", "want"),
    [
        ([1, 0.7], {}, "get_indices returned 0.7, which is a float: want row numbers, from 0"),
        (["1"], {}, "get_indices returned '1', which is a str: want row numbers, from 0"),
        (None, {}, "get_indices returned None: want a list of row numbers"),
        (3, {}, "get_indices returned an int: want a list of row numbers"),
        ([1], None, "state_dict returned None: want what load_state_dict needs when the run resumes"),
        (
            [1],
            "int key",
            "its state_dict has the key 3, which is an int: the state is kept as JSON, whose keys are strings",
        ),
    ],
)
def test_wrong_answers(rows: Any, state: Any, want: str) -> None:
    with pytest.raises(Told) as told:
        ask("Wrong", 5, args={"rows": rows, "state": state})
    assert str(told.value).startswith(want)


class Later(Hardest):
    async def get_indices(self, batch_size: int, return_extra_info: bool = False) -> list[int]:  # type: ignore[override]
        return []


class Needs(Hardest):
    def __init__(self, data_source: Any, config: Any, most: int) -> None:
        pass


def test_refused_at_check() -> None:
    with pytest.raises(Told, match="get_indices of .*Later is async: a selector has plain methods"):
        selectors.describe(f"{__name__}.Later", {})
    want = "Needs is made with .data_source, config., and its constructor says: missing a required argument: 'most'"
    with pytest.raises(Told, match=want):
        selectors.describe(f"{__name__}.Needs", {})
