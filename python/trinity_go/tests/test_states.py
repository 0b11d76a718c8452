"""States of losses, their terms and advantage functions, which a run keeps."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from trinity_go import advantages, losses
from trinity_go.wire import Told, pack


class Counts:
    def __init__(self, state: Any = None) -> None:
        self.asked, self.state = 0, state

    def __call__(self, logprob: Any) -> Any:
        self.asked += 1
        return self.asked, {"logprob": logprob}

    def state_dict(self) -> Any:
        return {"asked": self.asked} if self.state is None else self.state

    def load_state_dict(self, state: Any) -> None:
        self.asked = state["asked"]


class Saves:
    def __call__(self, logprob: Any) -> Any:
        return 1.0, {"logprob": logprob}

    def state_dict(self) -> dict[str, int]:
        return {}


class Later(Saves):
    async def load_state_dict(self, state: Any) -> None:
        pass


class Scores(Counts):
    async def process(self, exps: Any) -> Any:
        self.asked += 1
        return exps, {"asked": self.asked}


def ask(name: str, of: int, version: int = 0, state: Any = None, args: Any = None) -> Any:
    return losses.loss(
        {
            "of": "loss", "name": f"{__name__}.{name}", "args": args or {}, "step": 1, "lengths": [1], "width": 1, "experts": [False],
            "streams": {"logprob": pack([-1.0])}, "fields": {}, "instance": {"of": of, "version": version, "state": state},
        }
    )  # fmt: skip


def test_the_state_follows_the_answer() -> None:
    first = ask("Counts", 1)
    assert (first["loss"], first["state"]) == (1, {"asked": 1})
    second = ask("Counts", 1, 1, first["state"])
    assert (second["loss"], second["state"]) == (2, {"asked": 2})
    assert ask("Counts", 2, 1, first["state"])["loss"] == 2  # another process, or a run that was resumed
    assert ask("Counts", 1, 1, first["state"])["loss"] == 2  # an answer that the run did not get
    assert ask("Counts", 1, 7, {"asked": 30})["loss"] == 31


def test_an_async_function_has_its_state_afterwards() -> None:
    question = {"name": f"{__name__}.Scores", "args": {}, "experiences": []}
    for version in range(2):
        memory = {"of": 3, "version": version, "state": None}
        answer = asyncio.run(advantages.advantage(question | {"instance": memory}))
        assert answer["state"] == {"asked": version + 1} and answer["metrics"] == answer["state"]


def test_states_that_no_run_keeps() -> None:
    for state, want in (
        ({"seen": {3}}, "its state_dict is no JSON: it has a set, which load_state_dict would not get"),
        ({"mean": float("nan")}, "its state_dict is no JSON: Out of range float values"),
        ({3: 1}, "its state_dict has the key 3, which is an int"),
    ):
        with pytest.raises(Told) as told:
            ask("Counts", 4, args={"state": state})
        assert str(told.value).startswith(want)
    with pytest.raises(Told, match="Saves has state_dict and no load_state_dict: a run that resumes needs both"):
        losses.describe(f"{__name__}.Saves", {})
    with pytest.raises(Told, match="load_state_dict of .*Later is async: want a plain method"):
        losses.describe(f"{__name__}.Later", {})
    with pytest.raises(Told, match="the checkpoint has a state of .*plain, which has no load_state_dict any more"):
        ask("plain", 5, 1, {"asked": 1})


def plain(logprob: Any) -> Any:
    return 1.0, {"logprob": logprob}
