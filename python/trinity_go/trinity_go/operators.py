"""Operators of users, which edit the experiences of a step: what they get, and what became of it."""

from __future__ import annotations

import array
import asyncio
import copy
import functools
import inspect
import json
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from . import names
from .classes import kept, make
from .compat.experience import EID, Experience, customs
from .compat.models import ModelWrapper
from .describe import check_names, parameters
from .rollouts import auxiliary_models
from .wire import Told, number_of, pack, plain, type_of, unpack

_log = logging.getLogger("trinity_go.operators")
_BY_TOKEN = ("logprobs", "advantages", "returns", "teacher_logprobs")


_MODELS = "auxiliary_models"


class _Client:
    """A client of openai.AsyncOpenAI for an auxiliary model, which is made where it is used: it belongs to a loop, and a class
    that asks the model otherwise needs no package."""

    def __init__(self, model: ModelWrapper) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model.get_openai_async_client(), name)


class Operator:
    """A function, or an instance of a class, with the arguments of a configuration."""

    kind, method = "operator", "process"

    def __init__(self, name: str, args: Mapping[str, Any]) -> None:
        self.name, self.target = name, names.find(name, self.kind)
        if not callable(self.target):
            raise Told(f"{name} is {type_of(self.target)}, and no function or class")
        self.made: Any = None
        self.lock = threading.Lock()
        self.loop: asyncio.AbstractEventLoop | None = None
        if inspect.isclass(self.target):
            self.made = make(name, self.target, args)
            self.call = self.method_of(self.made)
            if callable(getattr(self.made, "set_auxiliary_model", None)):
                self.made.set_auxiliary_model({})
        else:
            takes = parameters(self.target)[0]
            first = next(iter(takes), "exps")
            check_names(name, self.target, args, [first])
            if self.kind == "operator" and _MODELS in takes and _MODELS != first:
                args = {**args, _MODELS: []}
            self.call = functools.partial(self.target, **args)
        self.models: list[Mapping[str, Any]] = []  # auxiliary models that it has
        self._check_call()

    def give(self, models: list[Mapping[str, Any]]) -> None:
        """Give it the auxiliary models: to a class as Trinity-RFT does, to a function in their order."""
        if models == self.models:
            return
        wrappers = auxiliary_models(models, self.made is not None)
        if isinstance(self.call, functools.partial) and _MODELS in self.call.keywords:
            self.call = functools.partial(self.target, **{**self.call.keywords, _MODELS: wrappers})
        elif callable(getattr(self.made, "set_auxiliary_model", None)):
            self.made.auxiliary_model_wrappers = {w.model_path: [w] for w in wrappers}
            self.made.set_auxiliary_model({w.model_path: [_Client(w)] for w in wrappers})
        else:
            raise Told(
                f"{_MODELS} names {models[0]['name']}, and {self.name} takes no models: want a method set_auxiliary_model, or a "
                f"function with the parameter {_MODELS}"
            )
        self.models = models

    def _check_call(self) -> None:
        """Check that what is called takes experiences, and nothing else."""
        try:
            takes = list(inspect.signature(self.call).parameters.values())
        except (TypeError, ValueError):
            return
        what = self.name if self.made is None else f"{getattr(self.call, '__name__', '__call__')} of {self.name}"
        first = next(
            (p for p in takes if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)), None
        )
        if first is None:
            raise Told(
                f"{what} takes no parameter for the experiences: want {what.partition(' ')[0].rpartition('.')[2]}(exps)"
            )
        kinds = (first.VAR_POSITIONAL, first.VAR_KEYWORD)
        lacks = [p.name for p in takes if p is not first and p.default is p.empty and p.kind not in kinds]
        if lacks and self.made is None:
            raise Told(f"{what} lacks its argument {lacks[0]}", "args")
        if lacks:
            raise Told(f"{what} takes {lacks[0]} besides the experiences: arguments are those of the constructor")

    def method_of(self, made: Any) -> Callable[..., Any]:
        """Return the method that gets experiences."""
        if not callable(getattr(made, self.method, None)):
            raise Told(f"{self.name} has no method {self.method}(exps)")
        method: Callable[..., Any] = getattr(made, self.method)
        return method

    def __call__(self, question: Mapping[str, Any]) -> Any:
        """Return the answer to a question about a step, or a coroutine that does."""
        exps = [_read(sent) for sent in question["experiences"]]
        if inspect.iscoroutinefunction(self.call) or inspect.iscoroutinefunction(getattr(self.made, "prepare", None)):
            return self._later(exps, question["experiences"])
        with self.lock:
            return self._answer(self.call(exps), question["experiences"])

    async def _later(self, exps: list[Experience], sent: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        if self.loop is None:
            self.loop = asyncio.get_running_loop()
            if callable(getattr(self.made, "prepare", None)):
                await _awaited(self.made.prepare())
        return self._answer(await _awaited(self.call(exps)), sent)

    def close(self) -> None:
        """Let a class close what it has opened."""
        close = getattr(self.made, "close", None)
        if not callable(close):
            return
        closing = close()
        if inspect.isawaitable(closing):
            loop = self.loop or asyncio.new_event_loop()
            if loop.is_running():
                asyncio.run_coroutine_threadsafe(_awaited(closing), loop).result(timeout=5)
            else:
                loop.run_until_complete(_awaited(closing))

    def _answer(self, result: Any, sent: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        exps, metrics = result if isinstance(result, tuple) and len(result) == 2 else (result, {})
        if not isinstance(exps, Iterable) or not isinstance(metrics, Mapping):
            raise Told(f"it returned {type_of(exps)}: want a list of experiences, and a dict of metrics")
        numbers, left_out = measured(metrics)
        edits = [_edit(i, e, sent, self.name, left_out) for i, e in enumerate(exps)]
        return {"experiences": edits, "metrics": numbers, "left_out": left_out}


async def _awaited(value: Any) -> Any:
    return await value if isinstance(value, Awaitable) else value


def check_of(kind: Callable[[str, Mapping[str, Any]], Any]) -> Callable[[str, Mapping[str, Any]], dict[str, Any]]:
    """Return a check that makes one of a kind, which raises Told if its arguments are wrong, and says nothing more of it."""

    def check(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
        kind(name, args)
        return {}

    return check


describe = check_of(Operator)


def measured(metrics: Mapping[str, Any], of: str = "") -> tuple[dict[str, float], list[str]]:
    """Return the finite numbers among metrics, and what is said of the others."""
    good: dict[str, float] = {}
    left_out = []
    for name, value in metrics.items():
        number = number_of(value)
        if number is None:
            left_out.append(f"the metric {name}{of} is no finite number")
        else:
            good[str(name)] = number
    return good, left_out


def _read(sent: Mapping[str, Any]) -> Experience:
    """Return an experience as classes of Trinity-RFT read it."""
    streams: dict[str, Any] = {name: unpack(sent[name]) for name in _BY_TOKEN if name in sent}
    e = Experience(
        eid=EID(batch=sent["batch"], task=sent["task"], run=sent["run"], step=sent["turn"], suffix=str(sent["index"])),
        tokens=unpack(sent["tokens"], "i"),
        prompt_length=sent["prompt_length"],
        action_mask=unpack(sent["mask"], "b"),
        reward=sent.get("reward"),
        truncate_status=sent["truncated"] or None,
        info=copy.deepcopy(sent["info"]),
        metrics=dict(sent["metrics"]),
        prompt_text=sent["prompt"] or None,
        response_text=sent["response"] or None,
        **streams,
    )
    e.__dict__["sent_as"] = sent["index"]  # a copy of it has this, too
    return e


def _edit(i: int, e: Any, sent: Sequence[Mapping[str, Any]], name: str, left_out: list[str]) -> dict[str, Any]:
    """Return what was changed in an experience that came back. left_out gets what is said of changes that do not count."""
    at = getattr(e, "__dict__", {}).get("sent_as")
    if at is None:
        raise Told(
            f"experience {i} that it returned is {type_of(e)} and none of those that it got: it may drop, change, order "
            "and repeat them"
        )
    was = sent[at]
    eid = EID(batch=was["batch"], task=was["task"], run=was["run"], step=was["turn"])
    which = f"experience {i} that it returned ({eid.rid})"
    changed = [n for n in ("batch", "task", "run", "step") if getattr(e.eid, n, None) != getattr(eid, n)]
    if changed:
        raise Told(f"eid.{changed[0]} of {which} was changed: ids stay those of the rollout")
    if packed_of(e.tokens, f"tokens of {which}", "i") != was["tokens"] or e.prompt_length != was["prompt_length"]:
        raise Told(f"tokens of {which} were changed: they are those that the policy sampled")
    for stream in ("logprobs", "teacher_logprobs"):
        value = getattr(e, stream)
        if (None if value is None else packed_of(value, f"{stream} of {which}")) != was.get(stream):
            raise Told(f"{stream} of {which} were changed: they are as recorded, and no operator computes them again")
    out: dict[str, Any] = {"index": at}
    reward = None if e.reward is None else number_of(e.reward)
    if e.reward is not None and reward is None:
        is_float = isinstance(e.reward, float)
        said = str(e.reward) if is_float else type_of(e.reward)
        raise Told(f"reward of {which} is {said}: want a finite number, or None to take it away")
    if reward is None and "reward" in was:
        out |= {"reward": None, "reason": f"{name} took it away"}
    elif reward is not None and reward != was.get("reward"):
        out["reward"] = reward
    for stream in ("advantages", "returns"):
        value = getattr(e, stream)
        if value is not None and (packed := packed_of(value, f"{stream} of {which}")) != was.get(stream):
            out[stream] = packed
    if e.action_mask is not None:
        mask = pack([bool(v) for v in _list(e.action_mask, f"action_mask of {which}")], "b")
        if mask != was["mask"]:
            out["mask"] = mask
    if (e.truncate_status or "") != was["truncated"]:
        out["truncated"] = e.truncate_status or ""
    for text, name_of in (("prompt", "prompt_text"), ("response", "response_text")):
        if (getattr(e, name_of) or "") != was[text]:
            left_out.append(f"the changed {name_of} of an experience is no part of what is trained")
    numbers, odd = measured(e.metrics or {}, " of an experience")
    left_out += odd
    out["metrics"] = {n: v for n, v in numbers.items() if v != was["metrics"].get(n)}
    info = dict(e.info or {}) | customs(e, which)
    out["info"] = {str(n): v for n, v in info.items() if _text(v) != _text(was["info"].get(n, _missing))}
    return out


_missing = object()


def _text(value: Any) -> str:
    """Return a value as JSON, to compare it and to see that it is some."""
    if value is _missing:
        return ""
    try:
        return json.dumps(value, default=plain, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise Told(f"an entry of info is no JSON: {error}") from None


def packed_of(value: Any, name: str, code: str = "f") -> str:
    """Return numbers of tokens in the form of the wire. name says what they are of."""
    values = _list(value, name)
    try:
        return pack(values, code)
    except (TypeError, ValueError, OverflowError):
        odd = next((v for v in values if number_of(v) is None), values[0])
        raise Told(f"{name} has {odd!r:.40}: want a number for each token of the response") from None


def _list(value: Any, name: str) -> list[Any]:
    if isinstance(value, array.array):
        return value.tolist()
    values = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(values, (list, tuple)):
        verb = "is" if name.startswith("action_mask") else "are"
        raise Told(f"{name} {verb} {type_of(value)}: want a number for each token of the response")
    return list(values)


def operate(question: dict[str, Any]) -> Any:
    """Answer a question {"name": …, "args": {…}, "instance": {…}, "auxiliary": […], "experiences": […]}."""
    operator = kept.get(Operator, question["name"], question["args"], question["instance"]["of"])
    operator.give(question.get("auxiliary") or [])
    return operator(question)


def close() -> None:
    """Close what classes have opened, because the run ends."""
    for made in kept.all():
        if isinstance(made, Operator):
            try:
                made.close()
            except BaseException as error:
                _log.warning("%s: close: %s: %s", made.name, type(error).__name__, error)
