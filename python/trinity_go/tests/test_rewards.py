"""Reward functions of all forms: what they get, and what their results mean."""

from __future__ import annotations

import asyncio
import inspect
import io
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from trinity_go import rewards, said
from trinity_go.compat.rewards import RewardFn
from trinity_go.wire import Told

REPLY = {
    "messages": [{"role": "user", "content": "1+2"}, {"role": "assistant", "content": "3"}],
    "prompt": "1+2", "response": "3", "truth": "3", "truncated": False, "completion_ids": [7, 8], "task": "t/1", "eval": False,
    "step": 5, "run": 2, "row": {"question": "1+2", "answer": "3", "prompt": "a column"},
}  # fmt: skip


class Weighed:
    """Scores with a weight."""

    def __init__(self, weight: float, **kwargs: Any) -> None:
        self.weight = weight

    def __call__(self, response: str, truth: str, prompt: str) -> dict[str, float]:
        return {"right": self.weight * (response == truth), "asked": float(prompt == "a column")}


class Own(RewardFn):
    def __call__(self, prompt: str, **kwargs: Any) -> dict[str, float]:
        return {"asked": float(prompt == "1+2"), "response": float(kwargs.get("truth") == "3")}


class Silent:
    pass


def right(completion: str, answer: str) -> float:
    return float(completion == answer)


async def prints(completion: str) -> float:
    await asyncio.sleep(0)
    print(completion, file=sys.stderr)
    return 1


async def later(completion: str, step: int) -> float:
    await asyncio.sleep(0)
    return step + len(completion)


def everything(**row: Any) -> float:
    return float(
        sorted(row) == ["answer", "completion", "messages", "prompt", "question", "truth"]
        and row["prompt"] == "a column"
    )


def scaled(completion: str, answer: str, scale: float = 1.0) -> float:
    return scale


def by_trl(
    prompts: Any, completions: Any, completion_ids: Any, answer: Any, trainer_state: Any, log_metric: Any, **kwargs: Any
) -> list[Any]:
    assert kwargs["question"] == ["1+2"], kwargs
    log_metric("step 5", trainer_state.global_step)
    kwargs["log_extra"]("answers", answer)
    return [len(prompts[0]) + len(completion_ids[0]) / 10 + (completions[0][0]["content"] == answer[0])]


def longest(completions: Any, answer: Any, **kwargs: Any) -> list[float]:
    lengths = [len(c[0]["content"]) for c in completions]
    return [float(n == max(lengths)) for n in lengths]


def trl_parts(completions: Any, log_metric: Any, **kwargs: Any) -> list[Any]:
    log_metric("speed", 100)
    return [{"a": 0.25}]


def by_ids(completion_ids: Any, **kwargs: Any) -> list[float]:
    return [float(len(ids)) for ids in completion_ids]


def by_own_ids(completion_ids: Any, completion: str) -> float:
    return float(len(completion_ids))


def trl_none(completions: Any, **kwargs: Any) -> list[Any]:
    return [None]


def trl_many(completions: Any, **kwargs: Any) -> list[Any]:
    return [1, 2]


class Growing:
    """A number of torch, which may be on a graph."""

    def __float__(self) -> float:
        raise RuntimeError("it requires grad")

    def detach(self) -> float:
        return 0.5


def given(result: Any) -> Any:
    return lambda completion: result


nothing, infinite, text, unfinished = given(None), given(float("nan")), given("good"), given({"a": 1, "b": None})
boolean, slashed, growing = (
    given(True),
    given({"a b/c": 1, "reward": 2, "格式": 0, "prompt_length": 0.5}),
    given(Growing()),
)


def score(name: str, **args: Any) -> Any:
    answer = rewards.reward({"name": f"{__name__}.{name}", "args": args, "replies": [REPLY]})
    return (asyncio.run(answer) if inspect.isawaitable(answer) else answer)["answers"][0]


def test_lines_of_a_coroutine_have_their_rollout(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said.Lines(out))
    score("prints")
    assert out.getvalue() == "step 5, t/1, run 2: 3\n"


@pytest.mark.parametrize(
    ("name", "args", "answer"),
    [
        ("right", {}, {"reward": 1.0}),
        ("later", {}, {"reward": 6.0}),
        ("everything", {}, {"reward": 1.0}),
        ("scaled", {"scale": 2}, {"reward": 2.0}),
        ("scaled", {"answer": "x"}, {"reward": 1.0}),
        ("boolean", {}, {"reward": 1.0}),
        ("slashed", {}, {"reward": 3.5, "parts": {"a_b_c": 1.0, "m_reward": 2.0, "格式": 0.0, "m_prompt_length": 0.5}}),
        ("growing", {}, {"reward": 0.5}),
        ("Weighed", {"weight": 0.5}, {"reward": 1.5, "parts": {"right": 0.5, "asked": 1.0}}),
        ("Own", {}, {"reward": 2.0, "parts": {"asked": 1.0, "response": 1.0}}),
        ("by_trl", {}, {"reward": 2.2, "parts": {"step_5": 5.0}}),
        ("by_ids", {}, {"reward": 2.0}),
        ("by_own_ids", {}, {"reward": 2.0}),
        ("trl_parts", {}, {"reward": 0.25, "parts": {"a": 0.25, "speed": 100.0}}),
        ("trl_none", {}, {"reward": None, "reason": f"{__name__}.trl_none returned None"}),
        ("nothing", {}, {"reward": None, "reason": f"{__name__}.nothing returned None"}),
        ("infinite", {}, {"reward": None, "reason": f"{__name__}.infinite returned nan"}),
        ("unfinished", {}, {"reward": None, "reason": f"{__name__}.unfinished gave no finite number for b"}),
    ],
)
def test_scores(name: str, args: dict[str, Any], answer: dict[str, Any]) -> None:
    assert score(name, **args) == answer


@pytest.mark.parametrize(
    ("name", "args", "says"),
    [
        ("text", {}, "it returned a str: want a number, None, or a dict of numbers"),
        ("trl_many", {}, "it returned 2 rewards for 1 completion"),
        ("Weighed", {}, "NAME needs the argument weight: set it in reward_fn_args"),
        ("right", {"anwser": "3"}, 'NAME has no argument anwser (did you mean "answer"?)'),
        ("Silent", {}, "NAME has no method __call__, which scores a reply"),
        ("REPLY", {}, "NAME is a dict, and no function or class"),
    ],
)
def test_mistakes(name: str, args: dict[str, Any], says: str) -> None:
    full = f"{__name__}.{name}"
    with pytest.raises(Told) as told:
        rewards.describe(full, args)
        score(name, **args)
    assert str(told.value) == says.replace("NAME", full)


def test_missing_parameter() -> None:
    with pytest.raises(
        Told, match=r"takes anwser, which is no column \(question, answer, prompt\) and nothing of the run \(completion"
    ):
        score("missing")


def missing(completion: str, anwser: str) -> float:
    return 0


class Columns:
    def __init__(self, colour: int) -> None:
        self.colour = colour

    def __call__(self, completion: str, size: int, row: dict[str, object], more: int = 1) -> float:
        return 0


def grouped(completions: list[object], trainer_state: object, colour: list[str], **columns: object) -> list[float]:
    return []


def test_describe() -> None:
    assert rewards.describe(f"{__name__}.Weighed", {"weight": 1}) == {
        "doc": "Scores with a weight.",
        "signature": "(self, response: 'str', truth: 'str', prompt: 'str') -> 'dict[str, float]'",
        "is_class": True,
        "takes_group": False,
        "needs": [],
    }
    for name, args, needs in (
        ("missing", {}, ["anwser"]),
        ("missing", {"anwser": "3"}, []),
        ("Columns", {"colour": 1}, ["size"]),
        ("grouped", {}, ["colour"]),
    ):
        assert rewards.describe(f"{__name__}.{name}", args)["needs"] == needs


def test_classes_of_trinity_rft(tmp_path: Path) -> None:
    """A class is imported as it is; what is not offered says which package has it."""
    (tmp_path / "theirs.py").write_text(
        textwrap.dedent("""
        from trinity.common.rewards.reward_fn import REWARD_FUNCTIONS, RewardFn
        from trinity.utils.log import get_logger

        @REWARD_FUNCTIONS.register_module("theirs")
        class Theirs(RewardFn):
            def __call__(self, response, truth=None, prompt=None):
                return {"right": float(response == truth)}
        """)
    )
    (tmp_path / "more.py").write_text("from trinity.common.workflows.eval_workflow import Workflow\n")
    code = """
from trinity_go import compat, names, rewards
compat.install()
print(rewards.reward({"name": "theirs.Theirs", "args": {}, "replies": [{"response": "3", "truth": "3", "messages": []}]}))
try:
    names.find("more.Workflow")
except names.Told as told:
    print(told)
"""
    out = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path(rewards.__file__).parents[1])},
    )
    answer, error = out.stdout.splitlines()
    assert answer == "{'answers': [{'reward': 1.0, 'parts': {'right': 1.0}}]}"
    assert error.startswith("more.Workflow: more.py:1: no module named 'trinity.common.workflows.eval_workflow' in ")
    assert "trinity-rft" in error


def test_a_function_of_trl_compares_a_group() -> None:
    replies = [REPLY | {"response": "x" * n} for n in (1, 3, 2)]
    answer = rewards.reward({"name": f"{__name__}.longest", "args": {}, "replies": replies})
    assert answer == {"answers": [{"reward": 0.0}, {"reward": 1.0}, {"reward": 0.0}]}
    assert rewards.describe(f"{__name__}.longest", {})["takes_group"]
    assert not rewards.describe(f"{__name__}.right", {})["takes_group"]
    assert rewards.describe(f"{__name__}.by_ids", {})["takes_group"]
    assert not rewards.describe(f"{__name__}.by_own_ids", {})["takes_group"]
