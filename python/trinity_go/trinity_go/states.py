"""Keeps instances whose state the run keeps: those of classes with state_dict and load_state_dict.

Each answer of an instance brings its state to the run. A process that has another state, such as that of a run that was
resumed, makes the instance anew and gives it the run's.
"""

from __future__ import annotations

import inspect
import json
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, TypeVar

from . import names
from .classes import kept
from .wire import Told, loaded, plain, type_of

T = TypeVar("T")
_METHODS = ("state_dict", "load_state_dict")


class _Kept:
    """An instance, and which of its states it has."""

    def __init__(self, made: Any, version: int) -> None:
        self.made, self.version, self.lock = made, version, threading.Lock()


_kept: dict[tuple[names.Asker, int], _Kept] = {}


def forget() -> None:
    """Forget the instances of the run that asks."""
    for key in list(_kept):
        if key[0] is names.asker.get():
            _kept.pop(key, None)


def has(name: str, target: Any) -> bool:
    """Report whether a class has a state. Raises Told if it has one that no run can keep."""
    own = [m for m in _METHODS if callable(getattr(target, m, None))]
    if len(own) == 1:
        lacks = next(m for m in _METHODS if m not in own)
        raise Told(f"{name} has {own[0]} and no {lacks}: a run that resumes needs both")
    later = [m for m in own if inspect.iscoroutinefunction(getattr(target, m))]
    if later:
        raise Told(f"{later[0]} of {name} is async: want a plain method, without await")
    return bool(own)


def knows(memory: Mapping[str, Any]) -> bool:
    """Report whether this process has the instance of a question, with its state."""
    known = _kept.get((names.asker.get(), memory["of"]))
    return known is not None and known.version == memory["version"]


def using(
    memory: Mapping[str, Any], make: Callable[[], T], owner: Callable[[T], Any], ask: Callable[[T], Any]
) -> dict[str, Any] | Awaitable[dict[str, Any]]:
    """Return what ask answers with the instance of a question, and the state that follows. make makes the instance where
    this process has not that state of it. owner returns what has the state."""
    key = names.asker.get(), memory["of"]
    if not knows(memory):
        made = make()
        if memory["state"] is not None:
            owner(made).load_state_dict(memory["state"])
        _kept[key] = _Kept(made, memory["version"])
    known = _kept[key]

    def told(answer: dict[str, Any]) -> dict[str, Any]:
        answer["state"] = _state(owner(known.made).state_dict())
        known.version += 1
        return answer

    async def later(answer: Awaitable[dict[str, Any]]) -> dict[str, Any]:
        try:
            return told(await answer)
        except BaseException:
            _kept.pop(key, None)
            raise

    with known.lock:
        try:
            answer = ask(known.made)
            return later(answer) if inspect.isawaitable(answer) else told(answer)
        except BaseException:
            _kept.pop(key, None)  # nobody knows its state
            raise


def answer(question: Mapping[str, Any], kind: str, make: Callable[[str, Mapping[str, Any]], Any]) -> Any:
    """Answer a question about a class or a function with what make makes of it, which has the instance as made."""
    name, args, memory = question["name"], question["args"], question["instance"]
    if has(name, names.find(name, kind)):
        return using(memory, lambda: _loaded(make(name, args)), _owner, lambda of: of(question))
    if memory["state"] is not None:
        raise Told(f"the checkpoint has a state of {name}, which has no load_state_dict any more")
    return kept.get(make, name, args)(question)


def _owner(of: Any) -> Any:
    return of.target if of.made is None else of.made


def _loaded(made: T) -> T:
    loaded()
    return made


def _state(state: Any) -> Any:
    """Return a state as a resumed run has it. Raises Told if that is another."""
    if state is None:
        raise Told("state_dict returned None: want what load_state_dict needs when the run resumes, such as a dict")
    odd = next(_keys_that_change(state), None)
    if odd is not None:
        raise Told(
            f"its state_dict has the key {odd!r:.40}, which is {type_of(odd)}: the state is kept as JSON, whose keys are strings, and "
            "load_state_dict would get another"
        )
    try:
        text = json.dumps(state, default=_number, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise Told(f"its state_dict is no JSON: {error}") from None
    return json.loads(text)


def _number(value: Any) -> Any:
    """Return a number of numpy or torch. An array would come back as a list."""
    if getattr(value, "shape", None) == ():
        return plain(value)
    raise TypeError(
        f"it has {type_of(value)}, which load_state_dict would not get: say it with numbers, texts, lists and dicts"
    )


def _keys_that_change(state: Any) -> Iterator[Any]:
    """Yield the keys of dicts within a state that are no strings."""
    if isinstance(state, Mapping):
        yield from (key for key in state if not isinstance(key, str))
    parts = state.values() if isinstance(state, Mapping) else state if isinstance(state, (list, tuple)) else ()
    for part in parts:
        yield from _keys_that_change(part)
