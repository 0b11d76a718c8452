"""What a model is told of tools, and the loop of its calls."""

from __future__ import annotations

import enum
import functools
import json
import re
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from trinity_go import rollouts, tools
from trinity_go.wire import Told


def weather(city: str, days: int = 1, unit: Literal["C", "F"] = "C", where: list[str] | None = None) -> str:
    """Tell the weather of a city.

    It rains often.

    Args:
        city: its name,
            with the country
        days (int): how many: at least 1

    Returns:
        A sentence.
    """
    return f"{city}: rain for {days} days"


def other(x: float, flag: bool, row: dict[str, int], anything) -> None:  # type: ignore[no-untyped-def]
    """Do it.

    :param x: a number
        of any size
    :param flag: yes or no
    """


async def later(text: str) -> dict[str, Any]:
    return {"length": len(text)}


def place(x: int, /) -> int:
    return x


def test_schema() -> None:
    about = tools.schema(weather)["function"]
    assert about == {
        "name": "weather",
        "description": "Tell the weather of a city. It rains often.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "its name, with the country"},
                "days": {"type": "integer", "description": "how many: at least 1"},
                "unit": {"enum": ["C", "F"]},
                "where": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["city"],
        },
    }
    about = tools.schema(other)["function"]
    assert about["description"] == "Do it."
    assert about["parameters"]["properties"] == {
        "x": {"type": "number", "description": "a number of any size"}, "flag": {"type": "boolean", "description": "yes or no"},
        "row": {"type": "object"}, "anything": {},
    }  # fmt: skip
    with pytest.raises(Told, match="the tool place takes x by its place alone"):
        tools.schema(place)


class Model:
    """Says what it is told to say."""

    def __init__(self, *says: Any) -> None:
        self.says, self.asked = list(says), []

    def _body(self, told: dict[str, Any], logprobs: int) -> dict[str, Any]:
        return dict(told)

    def _ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(json.loads(json.dumps(body)))
        said = self.says.pop(0)
        if isinstance(said, str):
            return {"choices": [{"message": {"role": "assistant", "content": said}}]}
        calls = [
            {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for i, (name, arguments) in enumerate(said)
        ]
        return {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": calls}}]}


class Maze:
    def reset(self, goal: int, **row: Any) -> str:
        self.goal, self.at = goal, 0
        return f"Go to {goal}."

    def step(self, by: int) -> str:
        """Walk."""
        if abs(by) > 2:
            raise ValueError("a step is at most 2")
        self.at += by
        return f"You are at {self.at}."

    def get_reward(self) -> float:
        return float(self.at == self.goal)

    def _hidden(self) -> None: ...


def task(prompt: str, **row: Any) -> Any:
    return SimpleNamespace(prompt=prompt, row=row, format_args=SimpleNamespace(system_prompt=None))


def said(model: Model) -> list[str]:
    return [m["content"] for m in model.asked[-1]["messages"] if m["role"] == "tool"]


def test_tools() -> None:
    model = Model(
        [("weather", '{"city": "Bern", "days": 2}'), ("later", '{"text": "abc"}')],
        [("weather", '{"town": "Bern"}'), ("sun", "{}"), ("weather", "{")],
        "It rains.",
    )
    assert tools.play(task("How is it?"), model, [f"{__name__}.weather", f"{__name__}.later"]) is None  # type: ignore[arg-type]
    assert [t["function"]["name"] for t in model.asked[0]["tools"]] == ["weather", "later"]
    assert said(model)[:2] == ["Bern: rain for 2 days", '{"length": 3}']
    assert [text.startswith("error: ") for text in said(model)[2:]] == [True] * 3
    assert "there is no tool sun: there is weather, later" in said(model)[3]


def test_an_environment() -> None:
    model = Model([("step", '{"by": 5}')], [("step", '{"by": 2}')], [("step", '{"by": 1}')], "Done.")
    assert tools.play(task("A walk.", goal=3), model, environment=f"{__name__}.Maze") == 1.0  # type: ignore[arg-type]
    assert model.asked[0]["messages"] == [{"role": "user", "content": "A walk.\nGo to 3."}]
    assert said(model) == ["error: a step is at most 2", "You are at 2.", "You are at 3."]
    shown = [{"role": "user", "content": "An example."}]
    model = Model("Done.")
    tools.play(task("A walk.", goal=3), model, environment=f"{__name__}.Maze", examples=shown)  # type: ignore[arg-type]
    assert [m["content"] for m in model.asked[0]["messages"]] == ["An example.", "A walk.\nGo to 3."]
    model = Model(*[[("step", '{"by": 0}')]] * 3)
    assert tools.play(task("", goal=3), model, environment=f"{__name__}.Maze", max_turns=3) == 0.0  # type: ignore[arg-type]
    assert len(model.asked) == 3
    with pytest.raises(Told, match="there is no question"):
        tools.play(task(""), Model())  # type: ignore[arg-type]


class Odd(dict[str, int]):
    kind = dict

    class Sky(enum.Enum):
        CLEAR = 1

    @property
    def broken(self) -> int:
        raise RuntimeError("not yet")

    @functools.lru_cache  # noqa: B019
    def kept(self, x: int) -> int:
        return x

    @staticmethod
    def fixed(x: int) -> int:
        return x

    @classmethod
    def of(cls, x: int) -> int:
        return x


def test_tools_of_an_environment_are_its_methods() -> None:
    Odd.__hash__ = object.__hash__  # type: ignore[method-assign,assignment]
    for environment in (Odd, Odd()):
        assert [m.__name__ for m in tools.methods(environment)] == ["fixed", "kept", "of"]
    with pytest.raises(Told, match="the tool dict does not say what it takes"):
        tools.by_name([dict])


def test_tools_are_checked() -> None:
    for given, says, key in [
        ({"tools": "my.weather"}, "tools is a str: want a list of names", "args.tools"),
        ({"tools": [f"{__name__}.wether"]}, "has no wether: did you mean weather?", ""),
        ({"tools": ["math.pi"]}, "the tool math.pi is a float, and no function", "args.tools"),
        ({"environment": f"{__name__}.Model.asked"}, "has no Model.asked", ""),
        ({"environment": f"{__name__}.task"}, "task is made without arguments: missing a required argument: 'prompt'", "args.environment"),
    ]:  # fmt: skip
        with pytest.raises(Told, match=re.escape(says)) as told:
            rollouts.describe(tools.PLAY, given)
        assert told.value.key == key
    assert rollouts.describe(tools.PLAY, {"tools": [f"{__name__}.weather"], "environment": f"{__name__}.Maze"}) == {
        "steps": False
    }
