"""Scores replies with functions and classes of users: classes of Trinity-RFT, functions of TRL, and plain functions."""

from __future__ import annotations

import functools
import inspect
import logging
import math
from collections.abc import Callable, Container, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from . import names, said
from .classes import kept
from .describe import has_base, meant, needs_places, parameters, signature
from .wire import Told, cut, float_of, metric_name, parts_of, type_of

_log = logging.getLogger("trinity_go.rewards")

# What a function may take beside the columns of the row. A column of the same name comes first, except before `completion`.
OFFERED = {
    "completion": "the reply",
    "response": "the reply",
    "messages": "the chat, the reply last",
    "prompt": "the question",
    "truth": "the reference answer",
    "truncated": "whether a limit of tokens ended the reply",
    "completion_ids": "the reply's token ids",
    "task": "the task's name",
    "eval": "whether an evaluation asks",
    "step": "the explore step",
    "run": "the rollout's number in its group",
    "row": "all columns of the row",
}


def _takes_group(takes: Container[str]) -> bool:
    """Report whether these are parameters of a function of TRL, which scores the replies of a group together."""
    if "completions" in takes or "prompts" in takes:
        return True
    return "completion_ids" in takes and not any(name in takes for name in OFFERED if name != "completion_ids")


# What a function of TRL may take beside the columns.
FOR_GROUPS = ("prompts", "completions", "completion_ids", "trainer_state", "log_metric", "log_extra")


def describe(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a configuration may say of a function or a class. Raises Told if its arguments are wrong."""
    target = names.find(name)
    if not callable(target):
        raise Told(f"{name} is {type_of(target)}, and no function or class")
    _check(name, target, args)
    takes = target.__call__ if inspect.isclass(target) else target
    return {
        "doc": inspect.getdoc(target) or "",
        "signature": str(signature(takes)),
        "is_class": inspect.isclass(target),
        "takes_group": _takes_group(parameters(takes)[0]),
        "needs": _columns(target, takes, args),
    }


def _columns(target: Any, takes: Any, args: Mapping[str, Any]) -> list[str]:
    """Return the columns without which a class or a function cannot score."""
    named = list(parameters(takes)[0].values())
    if inspect.isclass(target):
        named, args = named[1:], {}  # self; the arguments are the constructor's
    offered = FOR_GROUPS if _takes_group({p.name for p in named}) else OFFERED
    return [p.name for p in named if p.default is p.empty and p.name not in args and p.name not in offered]


def _check(name: str, target: Any, args: Mapping[str, Any]) -> None:
    """Check the arguments of a configuration against those that a class or a function takes."""
    takes, takes_all = parameters(target)
    if inspect.isclass(target) and not any("__call__" in vars(base) for base in target.__mro__):
        raise Told(f"{name} has no method __call__, which scores a reply")
    if needs_places(target):
        raise Told(f"{name} takes a parameter by its place alone: a reward is asked by the names of its parameters")
    if "completion" in args:
        raise Told("reward_fn_args sets completion, which is the reply", "args.completion")
    unknown = [given for given in args if given not in takes]
    if unknown and not takes_all:
        raise Told(f"{name} has no argument {unknown[0]}{meant(unknown[0], takes)}", f"args.{unknown[0]}")
    if inspect.isclass(target):
        missing = [p.name for p in takes.values() if p.default is p.empty and p.name not in args]
        if missing:
            raise Told(f"{name} needs the argument {missing[0]}: set it in reward_fn_args")


class Scorer:
    """A function or an instance of a class, with the arguments of a configuration."""

    def __init__(self, name: str, args: Mapping[str, Any]) -> None:
        target = names.find(name)
        _check(name, target, args)
        self.name = name
        self.prefers_own = False  # a parameter named like a column is what the run has, as in Trinity-RFT
        if inspect.isclass(target):
            call: Any = target(**args)
            self.prefers_own = has_base(target, "RewardFn")
        else:
            call = functools.partial(target, **args)
        self.call: Callable[..., Any] = call
        self.takes, self.takes_all = parameters(call)
        if not inspect.isclass(target):
            self.takes = {name: p for name, p in self.takes.items() if name not in args}

    def arguments(self, replies: Sequence[Mapping[str, Any]], parts: dict[str, float]) -> dict[str, Any]:
        question = replies[0]
        row = question.get("row") or {}
        if _takes_group(self.takes):
            return self._named({name: [(r.get("row") or {}).get(name) for r in replies] for name in row} | {
                "prompts": [r["messages"][:-1] for r in replies],
                "completions": [[{"role": "assistant", "content": r["response"]}] for r in replies],
                "completion_ids": [r.get("completion_ids") for r in replies],
                "trainer_state": SimpleNamespace(global_step=question.get("step", 0)),
                "log_metric": functools.partial(_measure, parts),
                "log_extra": functools.partial(_note, self.name),
            })  # fmt: skip
        own = {name: question[name] for name in OFFERED if name in question}
        have = row | own if self.prefers_own else own | row
        have |= {"completion": question["response"], "row": row}
        if self.takes_all:  # of the run only what nearly every function wants
            usual = ("completion", "messages", "prompt", "truth", *self.takes, *row)
            have = {name: value for name, value in have.items() if name in usual}
        return self._named(have)

    def _named(self, have: Mapping[str, Any]) -> dict[str, Any]:
        fixed = getattr(self.call, "keywords", {})
        return {n: value for n, value in have.items() if n not in fixed and (self.takes_all or n in self.takes)}

    def score(self, replies: Sequence[Mapping[str, Any]]) -> Any:
        """Return the answers to replies of a group, or a coroutine that does. A function that takes no completions has one
        reply."""
        parts: dict[str, float] = {}
        arguments = self.arguments(replies, parts)
        missing = [p.name for p in self.takes.values() if p.default is p.empty and p.name not in arguments]
        if missing:
            columns = ", ".join(replies[0].get("row") or {}) or "none"
            offered = ", ".join(FOR_GROUPS if _takes_group(self.takes) else OFFERED)
            raise Told(f"it takes {missing[0]}, which is no column ({columns}) and nothing of the run ({offered})")
        result = self.call(**arguments)
        if inspect.isawaitable(result):
            return self._later(result, parts, len(replies))
        return self.answers(result, parts, len(replies))

    async def _later(self, result: Any, parts: dict[str, float], count: int) -> list[dict[str, Any]]:
        return self.answers(await result, parts, count)

    def answers(self, result: Any, parts: dict[str, float], count: int) -> list[dict[str, Any]]:
        """Return results in the form of the wire."""
        if not _takes_group(self.takes):
            return [self.answer(result, parts)]
        if not isinstance(result, (list, tuple)) and getattr(result, "ndim", 0) != 1:
            raise Told(f"it returned {type_of(result)} for a list of completions: want a list of numbers")
        result = list(result)
        if len(result) != count:
            raise Told(f"it returned {len(result)} rewards for {count} completion{'' if count == 1 else 's'}")
        return [self.answer(one, parts) for one in result]

    def answer(self, result: Any, parts: dict[str, float]) -> dict[str, Any]:
        """Return a result in the form of the wire. What is no finite number is no reward, and never 0."""
        if isinstance(result, Mapping):
            given = {str(name): _number(value) for name, value in result.items()}
            finite = {name: value for name, value in given.items() if value is not None}
            if len(finite) < len(given):
                lacking = ", ".join(name for name in given if name not in finite)
                return {"reward": None, "reason": f"{self.name} gave no finite number for {lacking}"}
            if not finite or not math.isfinite(sum(finite.values())):
                return {"reward": None, "reason": f"{self.name} returned {cut(str(result), 100)}"}
            return {"reward": sum(finite.values()), "parts": parts_of(finite) | parts}
        number = _number(result)
        if number is None:
            return {"reward": None, "reason": f"{self.name} returned {cut(str(result), 100)}"}
        return {"reward": number, "parts": parts} if parts else {"reward": number}


def _number(value: Any) -> float | None:
    """Return a number; None for None and for what is not finite."""
    if value is None:
        return None
    try:
        number = float_of(value)
    except TypeError:
        raise Told(f"it returned {type_of(value)}: want a number, None, or a dict of numbers") from None
    return number if math.isfinite(number) else None


def _measure(parts: dict[str, float], name: str, value: float) -> None:
    """Keep a measured number under a name that a part may have."""
    number = _number(value)
    if number is not None:
        parts[metric_name(name)] = number


def _note(name: str, column: str, values: Any) -> None:
    _log.info("%s: %s: %s", name, column, values)


def reward(question: dict[str, Any]) -> Any:
    """Answer a question {"name": …, "args": {…}, "replies": [{…}]} with {"answers": […]}."""
    first = question["replies"][0]
    run = f", run {first['run']}" if len(question["replies"]) == 1 and "run" in first else ""
    who = f"step {first.get('step', 0)}, {first.get('task', '')}{run}"
    with said.by(who):
        result = kept.get(Scorer, question["name"], question["args"]).score(question["replies"])
        return _wrapped(result, who) if inspect.isawaitable(result) else {"answers": result}


async def _wrapped(result: Any, who: str) -> dict[str, Any]:
    with said.by(who):
        return {"answers": await result}
