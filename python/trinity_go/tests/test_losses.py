"""Losses and their terms: what they take, and which derivatives come back."""

from __future__ import annotations

import math
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from trinity_go import _caller, classes, losses
from trinity_go.wire import Told, pack, unpack

LENGTHS = [3, 1]
OLD, NOW, ADVANTAGES = [-1.0, -2.0, -0.5, -3.0], [-1.1, -1.9, -0.5, -2.0], [1.0, 1.0, 1.0, -2.0]


@pytest.fixture(autouse=True)
def own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    classes.kept.forget()
    return tmp_path


def write(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}.py").write_text(textwrap.dedent(text))
    sys.modules.pop(name, None)


def question(name: str, args: dict[str, Any] | None = None, of: str = "loss") -> dict[str, Any]:
    streams = {
        "logprob": NOW,
        "old_logprob": OLD,
        "advantages": ADVANTAGES,
        "ref_logprob": OLD,
        "entropy": [1.0, 2.0, 3.0, 4.0],
    }
    return {
        "of": of, "name": name, "args": args or {}, "instance": {"of": 0, "version": 0, "state": None}, "step": 4, "lengths": LENGTHS, "width": 4, "experts": [False, True],
        "streams": {n: pack(v) for n, v in streams.items()}, "fields": {"weight": [1.0, 2.0]}, "mode": "token-mean",
    }  # fmt: skip


PLAIN = """
    def reinforce(logprob, advantages, action_mask, scale=1.0):
        n = sum(map(sum, action_mask))
        by = [[-scale * a * m / n for a, m in zip(*row)] for row in zip(advantages, action_mask)]
        return sum(d * lp for row, lps in zip(by, logprob) for d, lp in zip(row, lps)), {"logprob": by}, {"n": n, "odd": float("inf")}

    class Named:
        '''A class with names of veRL, and one of info.'''

        def __init__(self, weight=3):
            self.asked = 0

        def __call__(self, log_prob, old_log_probs, response_mask, weight, step, expert_mask, ref_logprob=None):
            self.asked += 1
            assert [len(row) for row in log_prob] == [4, 4] and response_mask == [[1, 1, 1, 0], [1, 0, 0, 0]]
            assert step == 4 and expert_mask == [False, True] and weight == [1, 2] and ref_logprob is not None
            return self.asked, {"logprob": [row[:n] for row, n in zip(old_log_probs, [3, 1])]}

    def forgets(logprob):
        return 1.0, {"rate": 1}

    def text(logprob):
        return 1.0, {"logprob": [["a"] * 4, ["b"] * 4]}

    async def later(logprob):
        return 1.0

    class Later:
        async def __call__(self, logprob):
            return 1.0

    def none(logprob):
        pass

    def only_dict(logprob):
        return {"logprob": logprob}

    def listed(logprob):
        return logprob, {}

    def single(logprob):
        return 1.0, {"logprob": [1.0, 2.0]}

    def subtracts(logprob, old_logprob):
        return (logprob - old_logprob).sum()

    def k_scalar(logprob, ref_logprob):
        return 1.0

    def k_pair(logprob, ref_logprob):
        return 1.0, 2.0

    def k_none(logprob, ref_logprob):
        pass

    def k_values(logprob, ref_logprob):
        return logprob

    def k_other(logprob, ref_logprob, other):
        return logprob

    def k_ref(ref_logprob):
        return ref_logprob

    class KOther:
        def calculate_kl(self, logprob, advantages):
            return logprob

    async def k_later(logprob):
        return logprob

    def bonus(entropy, ref_logprob):
        return 1.0

    def bonus_none(entropy):
        pass

    def k1(logprob, ref_logprob, shift=0):
        rows = list(zip(logprob, ref_logprob))
        return [[a - b + shift for a, b in zip(*row)] for row in rows], [[1.0] * 4 for _ in rows]
"""


def test_a_function_returns_its_derivatives(own_modules: Path) -> None:
    write(own_modules, "plain_losses", PLAIN)
    answer = losses.loss(question("plain_losses.reinforce", {"scale": 2}))
    by = unpack(answer["derivatives"]["logprob"])
    assert list(by) == [-0.5, -0.5, -0.5, 1.0]
    assert math.isclose(answer["loss"], sum(d * lp for d, lp in zip(by, NOW)), rel_tol=1e-6)
    assert answer["metrics"] == {"n": 4} and answer["left_out"] == ["the metric odd is no finite number"]
    said = losses.describe("plain_losses.reinforce", {})
    assert said == {"takes": ["logprob", "advantages", "action_mask", "scale"], "needs": ["logprob", "advantages", "action_mask"], "pairs": False}  # fmt: skip


def test_an_instance_stays_and_gets_names_of_verl(own_modules: Path) -> None:
    write(own_modules, "plain_losses", PLAIN)
    for asked in (1, 2):
        answer = losses.loss(question("plain_losses.Named"))
        assert answer["loss"] == asked and list(unpack(answer["derivatives"]["logprob"])) == OLD
    said = losses.describe("plain_losses.Named", {})
    assert said["needs"] == ["logprob", "old_logprob", "action_mask", "weight", "step", "expert_mask"]
    assert said["takes"][-1] == "ref_logprob"


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("forgets", "it returned no derivatives: "),
        ("none", 'it returned None: want a loss, (loss, metrics), (loss, {"logprob": derivatives}) or '),
        ("only_dict", "it returned a dict: want a loss, "),
        ("listed", "it returned (a list, a dict): want a loss, "),
        ("single", "the derivatives by logprob of sequence 0 are no numbers, want 3"),
        ("text", "the derivatives by logprob of sequence 0 have a str: want numbers"),
    ],
)
def test_what_is_no_derivative_is_told(own_modules: Path, name: str, want: str) -> None:
    write(own_modules, "plain_losses", PLAIN)
    with pytest.raises(Told) as told:
        losses.loss(question(f"plain_losses.{name}"))
    assert str(told.value).startswith(want)


@pytest.mark.parametrize(
    ("of", "name", "want"),
    [
        ("kl", "k_scalar", "it returned a float: want an estimate for each token, [sequences, tokens]"),
        ("kl", "k_pair", "the estimates are a float: want a number for each token, [sequences, tokens]"),
        ("kl", "k_none", "it returned None: want an estimate for each token"),
        ("kl", "k_values", "it returned no derivatives: return (estimates, derivatives by logprob)"),
        ("entropy", "bonus_none", 'it returned None: want a loss, (loss, metrics), (loss, {"entropy": derivatives})'),
    ],
)
def test_what_is_no_term_is_told(own_modules: Path, of: str, name: str, want: str) -> None:
    write(own_modules, "plain_losses", PLAIN)
    with pytest.raises(Told) as told:
        losses.loss(question(f"plain_losses.{name}", of=of))
    assert str(told.value).startswith(want)


@pytest.mark.parametrize(
    ("check", "name", "want"),
    [
        (losses.describe, "later", "plain_losses.later is async: a loss is a plain function"),
        (losses.describe, "Later", "plain_losses.Later is async: a loss is a plain function"),
        (losses.describe_kl, "k_later", "plain_losses.k_later is async"),
        (
            losses.describe_kl,
            "k_other",
            "plain_losses.k_other takes other, which a run does not give it: it gives logprob, ",
        ),
        (losses.describe_kl, "KOther", "calculate_kl of plain_losses.KOther takes advantages, which a run does not"),
        (losses.describe_kl, "k_ref", "plain_losses.k_ref takes no logprob: "),
        (losses.describe_entropy, "bonus", "plain_losses.bonus takes ref_logprob, which a run does not give it: "),
    ],
)
def test_what_is_no_loss_is_told_at_check(own_modules: Path, check: Any, name: str, want: str) -> None:
    write(own_modules, "plain_losses", PLAIN)
    with pytest.raises(Told) as told:
        check(f"plain_losses.{name}", {})
    assert str(told.value).startswith(want)
    assert losses.describe_kl("plain_losses.k_other", {"other": 1}) == {}


def test_lists_say_why_they_are_none_of_torch(own_modules: Path) -> None:
    write(own_modules, "plain_losses", PLAIN)
    with pytest.raises(
        TypeError, match="'list' and 'list' .streams are lists: neither the loss nor its module imports"
    ):
        losses.loss(question("plain_losses.subtracts"))


def test_a_kl_estimate_without_torch(own_modules: Path) -> None:
    write(own_modules, "plain_losses", PLAIN)
    answer = losses.loss(question("plain_losses.k1", {"kl_coef": 0.5, "shift": 1}, "kl"))
    want = [a - b + 1 for a, b in zip(NOW, OLD)]
    assert all(math.isclose(v, w, rel_tol=1e-5) for v, w in zip(unpack(answer["values"]["logprob"]), want))
    assert list(unpack(answer["derivatives"]["logprob"])) == [1.0] * 4


def test_torch_derives(own_modules: Path) -> None:
    pytest.importorskip("torch")
    write(own_modules, "torch_losses", """
        import torch

        def ratio(logprob, old_logprob, action_mask, entropy):
            return ((logprob - old_logprob).exp() * action_mask).sum() - entropy.square().sum(), {}

        def reinforce(logprob, advantages, action_mask):
            tokens = sum(map(sum, action_mask))
            by = [[-a * m / tokens for a, m in zip(*row)] for row in zip(advantages, action_mask)]
            loss = sum(d * lp for row, lps in zip(by, logprob) for d, lp in zip(row, lps))
            return loss, {"logprob": by}

        def rows(logprob, advantages):
            return 1.0, {"logprob": list(advantages)}

        def k_sum(logprob, ref_logprob):
            return (logprob - ref_logprob).sum()

        def detached(logprob):
            return logprob.sum().item(), {}
    """)  # fmt: skip
    answer = losses.loss(question("torch_losses.ratio"))
    by = unpack(answer["derivatives"]["logprob"])
    assert all(math.isclose(d, math.exp(a - b), rel_tol=1e-5) for d, a, b in zip(by, NOW, OLD))
    assert list(unpack(answer["derivatives"]["entropy"])) == [-2.0, -4.0, -6.0, -8.0]
    answer = losses.loss(question("torch_losses.reinforce"))
    assert list(unpack(answer["derivatives"]["logprob"])) == [-0.25, -0.25, -0.25, 0.5]
    answer = losses.loss(question("torch_losses.rows"))
    assert list(unpack(answer["derivatives"]["logprob"])) == ADVANTAGES
    write(own_modules, "late_losses", """
        def ratio(logprob, old_logprob, action_mask):
            import torch
            return (torch.exp(logprob - old_logprob) * action_mask).sum()

        class Late:
            def calculate_kl(self, logprob, ref_logprob):
                from torch import square
                return square(logprob - ref_logprob)
    """)  # fmt: skip
    assert len(unpack(losses.loss(question("late_losses.ratio"))["derivatives"]["logprob"])) == 4
    assert len(unpack(losses.loss(question("late_losses.Late", of="kl"))["derivatives"]["logprob"])) == 4
    with pytest.raises(Told, match="it returned a Tensor: want an estimate for each token"):
        losses.loss(question("torch_losses.k_sum", of="kl"))
    with pytest.raises(Told, match="no tensor that depends on logprob"):
        losses.loss(question("torch_losses.detached"))


def test_an_exception_reaches_the_caller(own_modules: Path) -> None:
    write(own_modules, "plain_losses", "def odd(logprob):\n    raise ValueError('odd')\n")
    failed: list[tuple[BaseException, str]] = []
    caller = _caller.Caller({"loss": losses.loss}, True, lambda error, text: failed.append((error, text)))
    with caller, pytest.raises(Told, match="ValueError: odd; plain_losses.py:2 in odd"):
        caller._handlers["loss"](question("plain_losses.odd"))
    assert [(type(error), text) for error, text in failed] == [
        (ValueError, "plain_losses.odd: ValueError: odd; plain_losses.py:2 in odd")
    ]
