"""Operators and advantages: what they get, and what is said of what they return."""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path
from typing import Any

import pytest

from trinity_go import advantages, classes, operators
from trinity_go.wire import Told, pack, unpack

SENT = [
    {
        "index": i, "group": 0, "batch": 3, "task": "t", "run": i, "turn": 0, "tokens": pack([5, 6, 7], "i"), "prompt_length": 1,
        "mask": pack([1, 0], "b"), "metrics": {"a": 1.0}, "info": {"deep": [1, 2]}, "truncated": "", "prompt": "?", "response": "!",
        "logprobs": pack([-1.0, 0.0]), "reward": float(i),
    }
    for i in range(3)
]  # fmt: skip


class Edit:
    def __init__(self, how: str = "") -> None:
        self.how, self.closed = how, False

    def process(self, exps: list[Any]) -> Any:
        first = exps[0]
        assert (first.eid.tid, first.prompt_length, list(first.logprobs), first.info) == (
            "3/t",
            1,
            [-1.0, 0.0],
            {"deep": [1, 2]},
        )
        match self.how:
            case "tokens":
                first.tokens = [1, 2, 3]
            case "eid":
                first.eid.task = "other"
            case "run":
                first.eid.run = 7
            case "no eid":
                first.eid = None
            case "logprobs":
                first.logprobs = [-2.0, 0.0]
            case "no logprobs":
                first.logprobs = None
            case "teacher_logprobs":
                first.teacher_logprobs = [-2.0, 0.0]
            case "float":
                first.advantages = 1.0
            case "mask":
                first.action_mask = 1
            case "none":
                return None
            case "ignored":
                for e in exps:
                    e.metrics["bad"], e.response_text = "x", "other"
                return exps, {"m": "3"}
            case "other":
                return [object()], {}
            case "info":
                first.info["f"] = max
        first.info.setdefault("deep", []).append(3)
        first.reward, exps[1].reward = None, 9
        exps[2].advantages = [0.5, 0.0]
        exps[2].metrics["a"] = 2
        return [exps[2], exps[0], copy.deepcopy(exps[2]), exps[1]], {"n": 3, "odd": None}

    def close(self) -> None:
        self.closed = True


class Later:
    def __init__(self) -> None:
        self.prepared = 0

    async def prepare(self) -> None:
        self.prepared += 1

    async def process(self, exps: list[Any]) -> Any:
        return exps[: self.prepared], {}


def ask(name: str, **args: Any) -> Any:
    return operators.operate(
        {"name": f"{__name__}.{name}", "args": args, "instance": {"of": 1}, "experiences": copy.deepcopy(SENT)}
    )


@pytest.fixture(autouse=True)
def new_worker() -> None:
    classes.kept.forget()


def test_only_changes_come_back() -> None:
    answer = ask("Edit")
    same = {"index": 2, "metrics": {"a": 2.0}, "info": {}, "advantages": pack([0.5, 0.0])}
    assert answer == {
        "experiences": [
            same,
            {
                "index": 0,
                "reward": None,
                "reason": f"{__name__}.Edit took it away",
                "metrics": {},
                "info": {"deep": [1, 2, 3]},
            },
            same,
            {"index": 1, "reward": 9.0, "metrics": {}, "info": {}},
        ],
        "metrics": {"n": 3.0},
        "left_out": ["the metric odd is no finite number"],
    }
    made = classes.kept.all()[0].made
    operators.close()
    assert made.closed


@pytest.mark.parametrize(
    ("how", "want"),
    [
        ("tokens", "tokens of experience 1 that it returned"),
        ("eid", "eid.task of experience 1 that it returned (3/t/0) was changed: ids stay"),
        ("run", "eid.run of experience 1 that it returned (3/t/0) was changed: ids stay"),
        ("no eid", "eid.batch of experience 1 that it returned (3/t/0) was changed: ids stay"),
        ("logprobs", "logprobs of experience 1 that it returned (3/t/0) were changed: they are as recorded"),
        ("no logprobs", "logprobs of experience 1 that it returned (3/t/0) were changed: they are as recorded"),
        ("teacher_logprobs", "teacher_logprobs of experience 1 that it returned (3/t/0) were changed"),
        ("float", "advantages of experience 1 that it returned (3/t/0) are a float: want a number for each token"),
        ("mask", "action_mask of experience 1 that it returned (3/t/0) is an int: want a number for each token"),
        ("none", "it returned None: want a list of experiences"),
        ("other", "experience 0 that it returned is an object"),
        ("info", "an entry of info is no JSON"),
    ],
)
def test_what_must_not_change_is_told(how: str, want: str) -> None:
    with pytest.raises(Told) as told:
        ask("Edit", how=how)
    assert str(told.value).startswith(want)


@pytest.mark.parametrize(("how", "said"), [("reward", "a str"), ("digits", "a str"), ("nan", "nan")])
def test_a_reward_is_a_finite_number(how: str, said: str) -> None:
    with pytest.raises(Told) as told:
        ask("Reward", how=how)
    assert str(told.value) == (
        f"reward of experience 0 that it returned (3/t/0) is {said}: want a finite number, or None to take it away"
    )


class Reward(Edit):
    """Keeps the reward that Edit gives."""

    def process(self, exps: list[Any]) -> Any:
        exps[0].reward = {"reward": "x", "digits": "1", "nan": float("nan")}[self.how]
        return exps


def test_what_nobody_reads_is_said() -> None:
    answer = ask("Edit", how="ignored")
    assert set(answer["left_out"]) == {
        "the metric m is no finite number",
        "the metric bad of an experience is no finite number",
        "the changed response_text of an experience is no part of what is trained",
    }
    assert answer["metrics"] == {} and all(e["metrics"] == {} for e in answer["experiences"])


class Nothing:
    def process(self) -> Any:
        return []


class TooMuch:
    def process(self, exps: Any, n: int) -> Any:
        return exps

    __call__ = process


def nothing() -> Any:
    return []


def too_much(exps: Any, n: int, most: int = 1) -> Any:
    return exps[:n]


@pytest.mark.parametrize("of", [operators, advantages])
@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("Nothing", "process of {}.Nothing takes no parameter for the experiences: want process(exps)"),
        ("TooMuch", "process of {}.TooMuch takes n besides the experiences: arguments are those of the constructor"),
        ("nothing", "{}.nothing takes no parameter for the experiences: want nothing(exps)"),
        ("too_much", "{}.too_much lacks its argument n"),
    ],
)
def test_what_takes_other_things_is_told_at_check(of: Any, name: str, want: str) -> None:
    with pytest.raises(Told) as told:
        of.describe(f"{__name__}.{name}", {})
    assert str(told.value) == want.format(__name__)
    assert of.describe(f"{__name__}.too_much", {"n": 1}) is not None


def test_a_coroutine_is_prepared_once() -> None:
    async def twice() -> list[int]:
        return [len((await ask("Later"))["experiences"]) for _ in range(2)]

    assert asyncio.run(twice()) == [1, 1]


class InTrainer:
    @classmethod
    def compute_in_trainer(cls) -> bool:
        return True

    def __call__(self, exps: Any, **kwargs: Any) -> Any:
        scores = exps.batch["token_level_rewards"] * exps.batch["response_mask"]
        exps.batch["advantages"] = scores - exps.batch["values"]
        assert exps.non_tensor_batch["uid"] == ["3/t"] * 3
        return exps, {"m": scores.sum()}


class Unknown(InTrainer):
    def __call__(self, exps: Any, **kwargs: Any) -> Any:
        return exps.batch["position_ids"]


class Clips:
    compute_in_trainer = True

    def __call__(self, exps: Any, **kwargs: Any) -> Any:
        exps.batch["advantages"] = exps.batch["token_level_rewards"]
        exps.batch["response_mask"] = exps.batch["response_mask"] * (exps.batch["necs"] < 1)
        return exps


def test_a_batch_of_the_trainer(tmp_path: Path) -> None:
    said = advantages.describe(f"{__name__}.InTrainer", {})
    assert said == {"compute_in_trainer": True, "needs": ["response_mask", "token_level_rewards", "values"]}
    with pytest.raises(
        Told, match="reads batch.'position_ids'., which a run does not have: it has token_level_rewards, "
    ):
        advantages.describe(f"{__name__}.Unknown", {})
    pytest.importorskip("torch")
    streams = {"token_level_rewards": pack([2.0, 0.0]), "values": pack([0.5, 0.0])}
    sent = [one | {"streams": streams} for one in SENT]
    answer = advantages.advantage(
        {
            "name": f"{__name__}.InTrainer",
            "args": {},
            "instance": {"of": 0, "version": 0, "state": None},
            "experiences": sent,
        }
    )
    assert [list(unpack(e["advantages"])) for e in answer["experiences"]] == [[1.5, 0.0]] * 3
    assert answer["metrics"] == {"m": 6.0} and not any("mask" in e for e in answer["experiences"])


def test_a_batch_loses_tokens(tmp_path: Path) -> None:
    assert advantages.describe(f"{__name__}.Clips", {})["needs"] == ["necs", "response_mask", "token_level_rewards"]
    pytest.importorskip("torch")
    streams = {"token_level_rewards": pack([2.0, 1.0]), "necs": pack([1.5, 0.5])}
    sent = [one | {"streams": streams} for one in SENT]
    answer = advantages.advantage({"name": f"{__name__}.Clips", "args": {}, "experiences": sent})
    assert [list(unpack(e["mask"], "b")) for e in answer["experiences"]] == [
        [0, *list(unpack(one["mask"], "b"))[1:]] for one in SENT
    ]
