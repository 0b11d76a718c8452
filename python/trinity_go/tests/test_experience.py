"""Experiences: what a class reads and writes, and what becomes of it."""

from __future__ import annotations

import array
import copy
import importlib.util
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trinity_go.compat import experience
from trinity_go.compat.experience import EID, Experience, Recorded, group_by, split_by_endpoint, to_posted
from trinity_go.compat.numbers import Numbers, list_of
from trinity_go.wire import Told

HAS_TORCH = importlib.util.find_spec("torch") is not None


def sampled(ids: list[int], prompt: int, turn: int, before: int | None = None, endpoint: int = 0) -> Experience:
    """Return an experience of a call whose prompt has a length, in a sequence whose first prompt has another."""
    e = Experience(tokens=ids, prompt_length=prompt, logprobs=[-0.5] * (len(ids) - prompt), reward=1.0)
    e.recorded = Recorded(turn, endpoint, array.array("i", ids), prompt if before is None else before)
    return e


def test_the_constructor() -> None:
    e = Experience(tokens=[1, 2, 3], prompt_length=2)
    assert (e.experience_type, list_of(e.action_mask), e.metrics, e.info, e.reward) == (
        "single_turn",
        [True],
        {},
        {},
        None,
    )
    e = Experience(
        tokens=[1, 2, 3], prompt_length=1, action_mask=[True, False], eid={"batch": 3, "task": 4, "run": 5, "step": 6}
    )
    assert (e.experience_type, e.eid.tid, e.eid.rid, e.eid.sid) == ("multi_turn", "3/4", "3/4/5", "3/4/6")
    assert e.eid.uid == f"3/4/5/6/{e.eid.suffix}" and len(e.eid.suffix) == 6
    e = Experience(tokens=[1, 2], chosen=[3], rejected=[4, 5])
    assert (e.experience_type, e.prompt_length) == ("dpo", 2)
    e = Experience(tokens=[1, 2], prompt_length=1, truncate_status="prompt_truncated", logprobs=[0.0])
    assert list_of(e.action_mask) == [False]
    with pytest.raises(ValueError, match="prompt_length is 2 and there are 2 tokens"):
        Experience(tokens=[1, 2], prompt_length=2)
    with pytest.raises(TypeError, match="temperature"):
        Experience(tokens=[1, 2], temperature=1)  # type: ignore[call-arg]
    assert copy.deepcopy(sampled([1, 2], 1, 7)).turn == 7


def test_groups_and_pairs() -> None:
    all_of = [
        Experience(tokens=[1, 2], eid=EID(batch=0, task=t, run=r, step=s)) for t in "ab" for r in (0, 1) for s in (0, 1)
    ]
    assert {k: len(v) for k, v in group_by(all_of, "task").items()} == {"0/a": 4, "0/b": 4}
    assert list(group_by(all_of, "run")) == ["0/a/0", "0/a/1", "0/b/0", "0/b/1"]
    assert list(group_by(all_of, "step")) == ["0/a/0", "0/a/1", "0/b/0", "0/b/1"]
    with pytest.raises(ValueError, match="id_type is 'batch'"):
        group_by(all_of, "batch")
    pair = experience.split_dpo_experience_to_single_turn([Experience(tokens=[1, 2], chosen=[3], rejected=[4, 5])])
    assert [list_of(e.tokens) for e in pair] == [[1, 2, 3], [1, 2, 4, 5]]


def test_numbers_without_torch() -> None:
    code = """
import sys
from trinity_go.compat.experience import Experience
e = Experience(tokens=[1, 2, 3], prompt_length=1, logprobs=[-1.5, -2.5])
e.action_mask[0] = False
print(e.tokens.tolist(), e.logprobs[1:].tolist(), e.action_mask.tolist(), len(e.tokens), e.logprobs == [-1.5, -2.5], "torch" in sys.modules)
"""
    out = _run(code)
    assert out == "[1, 2, 3] [-2.5] [False, True] 3 True False\n"


def _run(code: str) -> str:
    path = str(Path(experience.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": path}
    )
    return done.stdout


@pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")
def test_numbers_become_tensors() -> None:
    """Without an import of torch they are lists, with one of anybody they are tensors, and arithmetic imports it."""
    code = """
import sys
from trinity_go.compat.experience import Experience
e = Experience(tokens=[1, 2, 3], prompt_length=1, logprobs=[-1.5, -2.5], action_mask=[True, False])
plain = e.logprobs
print("torch" in sys.modules, (plain * e.action_mask).sum().item(), "torch" in sys.modules)
import torch
print(type(e.tokens).__name__, e.tokens.dtype, e.logprobs.dtype, e.action_mask.dtype, e.logprobs is e.logprobs)
print((e.logprobs - plain).tolist(), (~e.action_mask).tolist())
e.advantages = e.logprobs * 2
print(e.advantages.tolist(), e.returns)
"""
    assert _run(code).splitlines() == [
        "False -1.5 True",
        "Tensor torch.int32 torch.float32 torch.bool True",
        "[0.0, 0.0] [False, True]",
        "[-3.0, -5.0] None",
    ]


@pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")
def test_arithmetic_of_numbers() -> None:
    torch = importlib.import_module("torch")
    n = Numbers([1, -2, 3], "int32")
    t = n.tensor()
    same = [
        (n**2, t**2), (2**n.tensor().abs(), 2 ** abs(n)), (n % 2, t % 2), (7 % n, 7 % t), (n // 2, t // 2), (7 // n, 7 // t),
        (n @ n, t @ t), (t @ n, t @ t), (+n, t), (n != 1, t != 1), (n != t, torch.zeros(3, dtype=torch.bool)),
        (round(Numbers([0.26], "float32"), 1), torch.tensor([0.3])),
    ]  # fmt: skip
    assert all(torch.equal(a, b) for a, b in same)
    assert n != [1]
    assert (n != [1, -2, 3]) is False


@pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")
def test_batches_of_experiences() -> None:
    a = Experience(tokens=[1, 2, 3], prompt_length=2, logprobs=[-1.0])
    b = Experience(tokens=[4, 5, 6], prompt_length=1, logprobs=[-2.0, -3.0], action_mask=[True, False])
    both = [a, b]
    assert experience.gather_token_ids(both, 2, 3, 9).tolist() == [[1, 2, 3, 9, 9], [9, 4, 5, 6, 9]]
    assert experience.gather_action_masks(both, 3).tolist() == [[True, False, False], [True, False, False]]
    assert experience.gather_attention_masks(both, 2, 3).int().tolist() == [[1, 1, 1, 0, 0], [0, 1, 1, 1, 0]]
    assert experience.gather_response_attrs(both, "logprobs", 3).tolist() == [[-1, 0, 0], [-2, -3, 0]]


def test_numbers_are_lists() -> None:
    n = Numbers([1, 0, 1], "bool")
    assert n.tolist() == [True, False, True] and n[0] is True and n.shape == (3,) and list(n[1:]) == [False, True]
    n[1:] = 1
    assert n == [True, True, True]
    with pytest.raises(ValueError, match="1 values for 2 places"):
        n[1:] = [True]


@pytest.mark.parametrize(
    ("e", "want"),
    [
        (sampled([1, 2, 3], 1, 4), {"turn": 4, "reward": 1.0}),
        (sampled([1, 2, 3, 4], 3, 4, before=1), {"turn": 4, "reward": 1.0, "learn": [[2, 3]]}),
    ],
)
def test_what_is_posted(e: Experience, want: dict[str, Any]) -> None:
    assert to_posted([e]) == {"experiences": [want]}


def test_a_class_takes_tokens_away(caplog: pytest.LogCaptureFixture) -> None:
    e = sampled([1, 2, 3, 4, 5, 6], 2, 0)
    e.action_mask = [True, False, True, True]
    assert to_posted([e])["experiences"][0]["learn"] == [[0, 1], [2, 4]]
    e.action_mask = [False] * 4
    caplog.clear()
    assert to_posted([e])["experiences"][0]["learn"] == []
    assert "action_mask is 0 at every token" in caplog.text
    e.action_mask = None
    assert "learn" not in to_posted([e])["experiences"][0]


def test_what_a_class_says_of_an_experience() -> None:
    e = sampled([1, 2], 1, 0)
    e.reward, e.truncate_status = True, "response_truncated"
    e.metrics = {"time/run": 2, "accuracy": 0.5, "reward": 1, "no": None, "inf": float("inf")}
    e.info = {"a": {1: float("nan")}, "b": (1, {2}), "c": EID}
    assert to_posted([e])["experiences"] == [
        {
            "turn": 0, "reward": 1.0, "truncated": "response_truncated", "metrics": {"time_run": 2.0, "accuracy": 0.5, "m_reward": 1.0},
            "info": {"a": {"1": None}, "b": [1, [2]], "c": str(EID)},
        }
    ]  # fmt: skip
    e.truncate_status = "tired"
    assert to_posted([e])["experiences"][0]["info"]["truncate_status"] == "tired"


def test_an_experience_that_a_class_has_made() -> None:
    """The same tokens are the same sequence: the class may have built an experience of its own."""
    known = [sampled([1, 2, 3], 2, 5).recorded, sampled([1, 2, 4], 2, 6, endpoint=1).recorded]
    own = Experience(tokens=[1, 2, 4], prompt_length=2, reward=0.25)
    assert to_posted([own], known)["experiences"] == [{"turn": 6, "reward": 0.25}]  # type: ignore[arg-type]
    assert own.turn == 6
    groups = split_by_endpoint([own, sampled([1, 2, 3], 2, 5)], known, 3)  # type: ignore[arg-type]
    assert [[e.turn for e in group] for group in groups] == [[5], [6], []]


def test_tasks_that_a_class_makes_up(caplog: pytest.LogCaptureFixture) -> None:
    one, two = sampled([1, 2], 1, 0), sampled([1, 3], 1, 1)
    one.eid.task, two.eid.task = "t", "t-judge"
    assert len(to_posted([one, two])["experiences"]) == 2
    assert "experiences of t, t-judge: they are all of its own task" in caplog.text


def test_what_is_refused() -> None:
    def changed(**values: Any) -> Experience:
        e = sampled([1, 2, 3], 1, 4)
        for name, value in values.items():
            setattr(e, name, value)
        return e

    for experiences, want in (
        ([changed(tokens=[1, 2, 9])], "tokens of experience 0 differ from the recorded ones at 2: it has 9, and call 4 has 3; return"),
        ([sampled([1, 2], 1, 0), changed(tokens=[1, 2])], "tokens of experience 1 differ from the recorded ones at 2: it has nothing"),
        ([changed(tokens=[1, 2, 3, 4])], "differ from the recorded ones at 3: it has 4, and call 4 has nothing"),
        ([Experience(tokens=[1, 2])], "experience 0 is none that the policy sampled in this rollout"),
        ([Experience(tokens=[1, 2], info={"is_expert": True})], r"demonstrations \(is_expert\) are rows of a buffer"),
        ([changed(), changed()], "experiences 0 and 1 both end with call 4"),
        ([changed(reward=None)], "the reward of experience 0 is None, which is no number"),
        ([changed(reward=float("nan"))], "the reward of experience 0 is nan"),
        ([changed(reward="1.0")], "the reward of experience 0 is '1.0', which is no number"),
        ([changed(reward={"a": 1})], "the reward of experience 0 is {'a': 1}, which is no number"),
        ([changed(action_mask=[True])], "action_mask of experience 0 has 1 places, and its response 2 tokens"),
        ([sampled([1, 2, 3], 1, 0, before=2)], "action_mask of experience 0 names token 1, which is of the prompt"),
    ):  # fmt: skip
        with pytest.raises(Told, match=want):
            to_posted(experiences)


def test_a_demonstration_beside_what_was_recorded() -> None:
    run = Recorded(0, 0, array.array("i", [1, 3]), 1)
    with pytest.raises(Told, match=r"experience 0 is none that .*: demonstrations \(is_expert\) are rows of a buffer"):
        to_posted([Experience(tokens=[1, 2], info={"is_expert": True})], [run])


def test_custom_fields_are_entries_of_info() -> None:
    """A number, and a list of a number for each token of the response, which begins elsewhere than that of the run."""
    run = Recorded(0, 0, array.array("i", [5, 6, 7, 8, 9]), 2)
    fields = [experience.CustomField("w", "worth", float), experience.CustomField("d", "depth", float)]
    for prompt, given, want in ((2, [1, 2, 3], [1, 2, 3]), (3, [2, 3], [0, 2, 3]), (1, [9, 1, 2, 3], [1, 2, 3])):
        e = Experience(tokens=[5, 6, 7, 8, 9], prompt_length=prompt, logprobs=[0.0] * (5 - prompt), reward=1.0,
                           info={"w": given, "d": 2}, custom_fields=fields)  # fmt: skip
        if prompt < 2:
            e.action_mask = [False, True, True, True]
        info = to_posted([e], [run])["experiences"][0]["info"]
        assert (info["worth"], info["depth"]) == (want, 2)
    for info, destination, want in (
        ({"w": [1, 2]}, "worth", "worth, a custom field of experience 0, has 2 numbers: want 3, one for each token"),
        (
            {"w": [1, math.nan, 2]},
            "worth",
            "worth, a custom field of experience 0, at token 1 is nan: want a finite number",
        ),
        ({"w": "much"}, "worth", "worth, a custom field of experience 0, is 'much': want a finite number"),
        ({}, "worth", "custom_fields of experience 0 take info['w'], which it does not have"),
        ({"w": 1}, "advantages", "custom_fields of experience 0 make advantages, which the run gives a loss itself"),
    ):
        e = Experience(tokens=[5, 6, 7, 8, 9], prompt_length=2, logprobs=[0.0] * 3, reward=1.0, info=info,
                           custom_fields=[experience.CustomField("w", destination, float)])  # fmt: skip
        with pytest.raises(Told) as told:
            to_posted([e], [run])
        assert str(told.value).startswith(want)
