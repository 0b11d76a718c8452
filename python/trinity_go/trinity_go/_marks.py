"""Marks functions with what they are for, so that a run says so if it gets one for something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from .wire import type_of

F = TypeVar("F", bound=Callable[..., Any])


def _mark(kind: str, function: F) -> F:
    function.__trinity_kind__ = kind  # type: ignore[attr-defined]
    return function


def check(kind: str, function: Any) -> None:
    """Raise TypeError unless a function may be of a kind. One without a mark may be of any."""
    if not callable(function) and not callable(getattr(function, "calculate_kl", None)):
        raise TypeError(f"{kind} is {type_of(function)}: want a function, or the name of one")
    marked = getattr(function, "__trinity_kind__", kind)
    if marked != kind:
        raise TypeError(f"{getattr(function, '__name__', function)} is marked as @tg.{marked}, and given as {kind}")


def reward(function: F) -> F:
    """A function that scores replies: `def right(completion, answer) -> float`."""
    return _mark("reward", function)


def workflow(function: F) -> F:
    """A function that makes a rollout: `async def agent(task: tg.Task, model: tg.Model) -> float`."""
    return _mark("workflow", function)


def tool(function: F) -> F:
    """A function that the model may call. Its type hints and its docstring are what the model is told of it."""
    return _mark("tool", function)


def loss(function: F) -> F:
    """A function that gives a policy loss: `def clipped(logprob, old_logprob, advantages, action_mask)`."""
    return _mark("loss", function)


def advantage(function: F) -> F:
    """A class or a function that gives the advantages of experiences."""
    return _mark("advantage", function)


def operator(function: F) -> F:
    """A class or a function that edits experiences."""
    return _mark("operator", function)
