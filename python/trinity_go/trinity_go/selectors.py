"""Chooses rows with selectors of users: classes of Trinity-RFT with get_indices, feedback, state_dict and load_state_dict."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from . import names, states
from .wire import Told, type_of


class Rows:
    """The dataset of a selector: the columns that data_selector.feature_keys names."""

    def __init__(self, length: int, columns: Mapping[str, Sequence[Any]]) -> None:
        self._length, self._columns = length, columns

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[i] for i in range(self._length))

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return {name: values[key] for name, values in self._columns.items()}
        if key not in self._columns:
            raise Told(f"it reads the column {key}: name it in data_selector.feature_keys")
        return self._columns[key]


def describe(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return nothing that all classes do not say. Raises Told if it is no selector."""
    target = names.find(name, "selector")
    lacks = [m for m in ("get_indices", "state_dict", "load_state_dict") if not callable(getattr(target, m, None))]
    if not inspect.isclass(target):
        raise Told(f"{name} is no class: a selector has the methods get_indices, state_dict and load_state_dict")
    if lacks:
        raise Told(f"{name} is no selector: it has no method {' and no '.join(lacks)}")
    methods = ("get_indices", "feedback", "state_dict", "load_state_dict")
    later = [m for m in methods if inspect.iscoroutinefunction(getattr(target, m, None))]
    if later:
        raise Told(f"{later[0]} of {name} is async: a selector has plain methods, without await")
    try:
        inspect.signature(target).bind(None, None)
    except TypeError as error:
        raise Told(f"{name} is made with (data_source, config), and its constructor says: {error}") from None
    except ValueError:  # it has none that can be read
        pass
    return {}


def _make(question: Mapping[str, Any]) -> Any:
    given = dict(question["args"])
    config = SimpleNamespace(
        selector_type=question["name"],
        seed=given.pop("seed", 42),
        feature_keys=given.pop("feature_keys", None) or [],
        kwargs=given,
    )
    rows = Rows(question["rows"], question.get("columns") or {})
    source = SimpleNamespace(dataset=rows, dataset_size=len(rows), current_offset=0, name="")
    return names.find(question["name"], "selector")(source, config)


def select(question: dict[str, Any]) -> Any:
    """Answer with the rows of a batch, after the feedback, and the state that follows; or with the columns that it wants."""
    wants = question["args"].get("feature_keys")
    if wants and "columns" not in question and not states.knows(question["instance"]):
        return {"wants": wants}
    return states.using(
        question["instance"], lambda: _make(question), lambda own: own, lambda own: {"rows": _chosen(own, question)}
    )


def _chosen(selector: Any, question: Mapping[str, Any]) -> list[int]:
    for rows, values in question["feedback"]:
        if callable(getattr(selector, "feedback", None)):
            selector.feedback(rows, values)
    chosen = [] if question["batch"] is None else selector.get_indices(question["batch"])
    if not isinstance(chosen, Iterable):
        raise Told(f"get_indices returned {type_of(chosen)}: want a list of row numbers")
    return [_row(row) for row in chosen]


def _row(row: Any) -> int:
    try:
        return operator.index(row)
    except TypeError:
        raise Told(f"get_indices returned {row!r:.40}, which is {type_of(row)}: want row numbers, from 0") from None
