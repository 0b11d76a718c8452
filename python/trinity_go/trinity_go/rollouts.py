"""Makes rollouts with functions and classes of users: workflows of Trinity-RFT, and functions of a task and a model.

What the policy samples is recorded at the endpoint of the rollout. What a class or a function returns about it is posted
there: experiences, or a reward.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import math
import random
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from . import names, said, tools
from .compat import experience as exp
from .compat.http import ModelError, ask
from .compat.models import ARGUMENTS, ModelWrapper
from .compat.rewards import RewardFn
from .compat.workflows import Task as _Task
from .compat.workflows import Workflow
from .describe import check_names, has_base, meant, needs_places, parameters, signature
from .wire import Told, chain_of, is_of_client, kind_of, loaded, number_of, parts_of, type_of

# What a function may take beside workflow_args.
OFFERED = {
    "task": "the row, and what the configuration says of its rollouts",
    "model": "the policy",
    "auxiliary_models": "the models of explorer.auxiliary_models, in their order",
}


class Task(_Task):
    """The task of a function: `row`, `prompt`, `truth`, `seed`, and what Trinity-RFT's tasks have."""

    prompt: str = ""

    @property
    def row(self) -> dict[str, Any]:
        return self.raw_task or {}


class Model(ModelWrapper):
    """The model of a function: chat gives texts. In a coroutine it is awaited."""

    def chat(self, messages: Any, **kwargs: Any) -> Any:
        """Return the model's reply to a chat or a question, or a list of n replies."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        if _in_loop():
            return self._chat_later(messages, kwargs)
        return _texts(super().chat(messages, **kwargs), kwargs)

    async def _chat_later(self, messages: Any, kwargs: dict[str, Any]) -> Any:
        return _texts(await self.chat_async(messages, **kwargs), kwargs)

    def _body(self, kwargs: Mapping[str, Any], logprobs: int) -> dict[str, Any]:
        unknown = next((name for name in kwargs if name not in ARGUMENTS), None)
        if unknown:
            raise TypeError(f"the model takes no argument {unknown}{meant(unknown, ARGUMENTS)}")
        return super()._body(kwargs, logprobs)

    def openai(self) -> Any:
        """Return a client of the rollout: openai.AsyncOpenAI in a coroutine, else openai.OpenAI."""
        return self.get_openai_async_client() if _in_loop() else self.get_openai_client()


class _Auxiliary(ModelWrapper):
    """A model that is not trained. What it refuses is its failure."""

    def _ask(self, path: str, body: Any = None, endpoint: int = 0) -> Any:
        try:
            return super()._ask(path, body, endpoint)
        except ModelError as error:
            error.failure_kind = "model"  # type: ignore[attr-defined]
            raise


class _AuxiliaryModel(_Auxiliary, Model):
    """The same for a function."""


def auxiliary_models(given: Sequence[Mapping[str, Any]], for_class: bool) -> list[ModelWrapper]:
    """Return the models of explorer.auxiliary_models as a class or a function asks them."""
    kind = _Auxiliary if for_class else _AuxiliaryModel
    return [
        kind([{"base_url": a["base_url"], "api_key": a["api_key"]}], {"name": a["name"], "auxiliary": True})
        for a in given
    ]


def _in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _texts(replies: Sequence[exp.Experience], kwargs: Mapping[str, Any]) -> Any:
    texts = [e.response_text for e in replies]
    return texts if "n" in kwargs else texts[0]


# ---- what a configuration may say ----


def describe(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a run must know of a function or a class. Raises Told if it makes no rollouts, or its arguments are
    wrong."""
    target = names.find(name, "workflow")
    if not inspect.isclass(target):
        if not callable(target):
            raise Told(f"{name} is {type_of(target)}, and no function or class")
        _check_function(name, target, args)
        if target is tools.play:
            tools.check(**args)
        return {"steps": False}
    method = "run_async" if getattr(target, "is_async", False) else "run"
    if not callable(getattr(target, method, None)):
        raise Told(f"{name} has no method {method}, which makes a rollout")
    try:
        signature(target).bind(task=None, model=None, auxiliary_models=None)
    except TypeError as error:
        raise Told(f"{name}: {error}: a workflow is made with task, model and auxiliary_models") from None
    return {"steps": has_base(target, *_STEP_WISE)}


# The bases whose classes return an experience for each call of the model.
_STEP_WISE = (
    "StepWiseRewardWorkflow",
    "RewardPropagationWorkflow",
    "AsyncStepWiseRewardWorkflow",
    "AsyncRewardPropagationWorkflow",
)


def _check_function(name: str, target: Any, args: Mapping[str, Any]) -> None:
    if needs_places(target):
        raise Told(f"{name} takes a parameter by its place alone: a function is called by the names of its parameters")
    check_names(name, target, args, OFFERED)
    for p in parameters(target)[0].values():
        if p.default is p.empty and p.name not in args and p.name not in OFFERED:
            raise Told(
                f"{name} takes {p.name}, which is nothing of the run ({', '.join(OFFERED)}): set it in workflow_args"
            )


# ---- rollouts ----


def rollout(question: dict[str, Any]) -> Any:
    """Answer {"name": …, "args": {…}, "assignments": […]}: of one rollout, or of those of a group, which one call makes."""
    return _Rollouts(question).answer()


at_once = 64  # rollouts in flight in this process; the worker sets it
_kept: dict[tuple[names.Asker, str], list[Any]] = {}  # instances that nobody uses
_lock = threading.Lock()


class _Rollouts:
    """The rollouts of one call of a class or a function."""

    def __init__(self, question: Mapping[str, Any]) -> None:
        self.name, self.args = question["name"], question["args"]
        self.assignments: list[dict[str, Any]] = question["assignments"]
        self.target = names.find(self.name, "workflow")
        self.is_class = inspect.isclass(self.target)
        self.first = self.assignments[0]
        self.auxiliary: list[dict[str, Any]] = self.first.get("auxiliary") or []
        self.instance: Any = None
        self.model: Any = None

    def answer(self) -> Any:
        with said.by(self._who()), self._blaming():
            _seed(self.first["seed"])
            call = self._make()
            loaded()
            result = call()
            if not inspect.isawaitable(result):
                return self._answered(self._report(result))
        return self._later(result)

    async def _later(self, result: Any) -> dict[str, Any]:
        with said.by(self._who()), self._blaming():
            returned = await result
            return self._answered(await asyncio.to_thread(self._report, returned))

    @contextlib.contextmanager
    def _blaming(self) -> Iterator[None]:
        """Give an exception that says nothing of its kind that of the call which has caused it. What the endpoint has
        refused has no kind here: the run knows why."""
        try:
            yield
        except Exception as error:
            if isinstance(error, Told):
                raise
            for cause in chain_of(error):
                kind = kind_of(cause)
                if is_of_client(cause):
                    kind = "model" if _asked(cause) in [a["name"] for a in self.auxiliary] else kind
                elif not isinstance(cause, ModelError) and not kind:
                    continue
                if kind:
                    error.failure_kind = kind  # type: ignore[attr-defined]
                break
            raise

    def _who(self) -> str:
        run = "" if len(self.assignments) > 1 else f", run {self.first['run']}"
        return f"step {self.first['step']}, {self.first['task']}{run}"

    def _answered(self, scored: list[bool]) -> dict[str, Any]:
        if self.instance is not None and _can_keep(self.instance):
            with _lock:
                _kept.setdefault(self._key(), []).append(self.instance)
        return {"answer": {"scored": scored}}

    def _key(self) -> tuple[names.Asker, str]:
        return names.asker.get(), f"{self.name} {self.args!r}"

    # ---- calling ----

    def _make(self) -> Callable[[], Any]:
        """Return what makes the rollouts."""
        endpoints = [{"base_url": a["base_url"], "api_key": a["api_key"]} for a in self.assignments]
        model = self.first.get("model") or {}
        sampling = {k: v for k, v in (self.first.get("rollout_args") or {}).items() if k in ("temperature", "top_p")}
        self.model = (ModelWrapper if self.is_class else Model)(endpoints, {**sampling, **model})
        auxiliary = auxiliary_models(self.auxiliary, self.is_class)
        if not self.is_class:
            task = self._task(Task)
            task.prompt = self.first.get("prompt") or ""
            have = {"task": task, "model": self.model, "auxiliary_models": auxiliary, **self.args}
            takes, takes_all = parameters(self.target)
            given = {n: v for n, v in have.items() if n in takes or takes_all and n not in OFFERED}
            return lambda: self.target(**given)
        task = self._task(_Task)
        self.instance = self._reset(task) or task.to_workflow(self.model, auxiliary or None)
        repeats = getattr(self.instance, "set_repeat_times", None)
        own = getattr(self.target, "set_repeat_times", None) is not Workflow.set_repeat_times
        if callable(repeats) and own and (len(self.assignments) > 1 or getattr(self.target, "can_repeat", False)):
            repeats(len(self.assignments), self.first["run"])
        is_async = bool(getattr(self.instance, "is_async", False))
        method: Callable[[], Any] = self.instance.run_async if is_async else self.instance.run
        return method

    def _task(self, kind: Any) -> Any:
        name = self.first.get("reward_fn")  # python:NAME if the program has it not
        task = kind.of({**self.first, "reward_fn": None}, self.args, workflow=self.target)
        if name:
            own = name.removeprefix("python:")
            task.reward_fn = names.find(own, "reward") if own != name else _built_in(name, self.first)
        return task

    def _reset(self, task: Any) -> Any:
        """Return a kept instance for a task, None if there is none that nobody else uses."""
        if not getattr(self.target, "can_reset", False):
            return None
        with _lock:
            free = _kept.get(self._key())
            instance = free.pop() if free else None
        if instance is None or type(instance) is not self.target:  # a notebook may have given the name to another class
            return None
        kept = instance.model  # other objects of the instance may have it
        kept.__dict__.clear()
        kept.__dict__.update(self.model.__dict__)
        self.model = kept
        instance.reset(task)
        return instance

    # ---- reporting ----

    def _report(self, result: Any) -> list[bool]:
        """Post what a call has returned; report of which rollouts it decides the reward."""
        if not self.is_class and not _is_experience(result):
            return self._report_rewards(result)
        experiences = list(result) if isinstance(result, (list, tuple)) else [result] if result is not None else []
        if not experiences:
            raise Told(f"it returned no experience: {self.name} returned {result!r}{self._unknown()}")
        for i, e in enumerate(experiences):
            if not hasattr(e, "tokens"):
                raise Told(f"it returned {type_of(e)} as experience {i}")
        recorded = list(self.model.recorded)
        of = exp.split_by_endpoint(experiences, recorded, len(self.assignments))
        for a, own in zip(self.assignments, of):
            if own:
                body = exp.to_posted(own, recorded)
                _post(a, "/experiences", body)
            else:
                reason = f"{self.name} returned no experience of this rollout"
                _post(a, "/fail", {"kind": "agent", "reason": reason})
        return [True] * len(self.assignments)

    def _unknown(self) -> str:
        """Say which replies of the policy the class's model does not know."""
        replies = sum(len(ask(a["base_url"], a["api_key"], "/rollout")["replies"]) for a in self.assignments)
        unknown = replies - len({(r.endpoint, r.turn) for r in self.model.recorded})
        if unknown <= 0:
            return ""
        return f"; its model knows nothing of {unknown} of the policy's {replies} replies: ask by model.chat, or by a client of the model"

    def _report_rewards(self, result: Any) -> list[bool]:
        """Post the reward that a function has returned, or those of a group."""
        results = [result]
        if len(self.assignments) > 1:
            if not isinstance(result, (list, tuple)) or len(result) != len(self.assignments):
                raise Told(
                    f"it returned {result!r:.80} for a group: want {len(self.assignments)} rewards, or experiences"
                )
            results = list(result)
        for a, one in zip(self.assignments, results):
            if one is None and a.get("reward_fn"):
                continue  # which scores the rollout
            body, why = _reward(one)
            if body is not None:
                _post(a, "/reward", body)
            elif len(results) == 1:
                raise Told(f"it returned {why}", kind="reward")
            else:
                _post(a, "/fail", {"kind": "reward", "reason": f"{self.name} returned {why}"})
        return [one is not None for one in results]


def _built_in(name: str, assignment: Mapping[str, Any]) -> Any:
    """Return a class of Trinity-RFT that asks the run about replies, whose reward function this is."""

    def init(self: Any, **kwargs: Any) -> None:
        """The run has the arguments."""

    def call(self: Any, response: str, prompt: Any = "", truth: Any = "", **kwargs: Any) -> dict[str, float]:
        body: dict[str, Any] = {"response": response, "truth": "" if truth is None else str(truth)}
        body |= {"messages": prompt} if isinstance(prompt, list) else {"prompt": str(prompt or "")}
        answer = ask(assignment["base_url"], assignment["api_key"], "/score", body)
        if answer["reward"] is None:
            raise Told(f"{name}: {answer.get('reason', 'no reward')}", kind="reward")
        parts: dict[str, float] = answer.get("parts") or {}
        return parts if math.isclose(sum(parts.values()), answer["reward"]) and parts else {name: answer["reward"]}

    return type(name, (RewardFn,), {"__init__": init, "__call__": call})


def _reward(value: Any) -> tuple[dict[str, Any] | None, str]:
    """Return the body of POST reward for a number or a dict of parts; None, and what is wrong with it, if it is no
    reward."""
    if isinstance(value, Mapping):
        parts = {}
        for name, part in value.items():
            number = number_of(part)
            if number is None:
                return None, f"{part!r} for {name}, which is no finite number"
            parts[str(name)] = number
        if not parts or not math.isfinite(sum(parts.values())):
            return None, f"{value!r:.80}, which is no reward"
        return {"parts": parts_of(parts)}, ""
    number = number_of(value)
    if number is None:
        return None, f"{value!r:.80}: want a number, a dict of numbers, or experiences"
    return {"value": number}, ""


def _is_experience(result: Any) -> bool:
    """Report whether a function has returned experiences."""
    first = result[0] if isinstance(result, (list, tuple)) and result else result
    return hasattr(first, "tokens") and hasattr(first, "prompt_length")


def _post(assignment: Mapping[str, Any], path: str, body: dict[str, Any]) -> None:
    try:
        ask(assignment["base_url"], assignment["api_key"], path, body)
    except ModelError as error:
        raise Told(str(error).partition(": ")[2] or str(error)) from error


def _is_of_openai(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "openai"


def _asked(error: Any) -> Any:
    """Return the model that a client has asked when it raised an exception."""
    try:
        return json.loads(error.request.content).get("model")
    except (AttributeError, RuntimeError, ValueError):  # it has none, or its body was a stream
        return None


def _can_keep(instance: Any) -> bool:
    """Report whether another rollout may use an instance. It may not have a client of this one's endpoint, or a copy of
    its model."""
    model = getattr(instance, "model", None)
    if not getattr(type(instance), "can_reset", False) or not isinstance(model, ModelWrapper):
        return False
    seen = {id(model), id(instance)}
    return not any(_has_client(v, seen) for v in vars(instance).values())


def _has_client(value: Any, seen: set[int], depth: int = 0) -> bool:
    if id(value) in seen or depth > _DEPTH:
        return depth > _DEPTH  # what is too deep to look at is not kept
    seen.add(id(value))
    if isinstance(value, ModelWrapper) or _is_of_openai(value):
        return True
    if isinstance(value, (str, bytes, int, float, bool, type, type(sys))) or value is None:
        return False
    inner = (
        list(value.values())
        if isinstance(value, dict)
        else list(value)
        if isinstance(value, (list, tuple, set))
        else []
    )
    inner += list(getattr(value, "__dict__", {}).values())
    return any(_has_client(v, seen, depth + 1) for v in inner)


_DEPTH = 6  # of attributes in which clients are looked for


def _seed(seed: int) -> None:
    """Seed the generators of random numbers, where one rollout at a time uses them."""
    if at_once > 1:
        return  # the run's log says it
    random.seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed % 2**32)
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(seed % 2**63)


def forget() -> None:
    with _lock:
        for key in [k for k in _kept if k[0] is names.asker.get()]:
            del _kept[key]
