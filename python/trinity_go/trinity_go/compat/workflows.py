"""Tasks and the bases of Trinity-RFT's workflows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ..names import find
from .config import FormatConfig, GenerationConfig
from .experience import Experience
from .models import ModelWrapper
from .numbers import Numbers, list_of
from .registry import registries
from .rewards import RewardFn
from .utils import get_logger

WORKFLOWS = registries["workflow"]
REWARD_FUNCTIONS = registries["reward"]

# The system prompt of a MathWorkflow without one: that of the workflow math_workflow.
MATH_PROMPT = (
    "You solve mathematical problems. First work through the problem step by step, writing all of your reasoning between <think> and "
    "</think>. Then give the final answer, and nothing else, between <answer> and </answer>. A reply looks like this: <think> the "
    "reasoning </think> <answer> the final answer </answer>"
)


# The arguments of adapters that name functions of users.
_FUNCTIONS = ("workflow_func", "judge_func")


@dataclass
class Task(dict):  # type: ignore[type-arg] # some classes ask isinstance(task, dict)
    """A row of a taskset, and what the configuration says of its rollouts."""

    workflow: Any = None
    repeat_times: int | None = None
    format_args: FormatConfig = field(default_factory=FormatConfig)
    rollout_args: GenerationConfig = field(default_factory=GenerationConfig)
    workflow_args: dict[str, Any] = field(default_factory=dict)
    reward_fn_args: dict[str, Any] = field(default_factory=dict)
    is_eval: bool = False
    reward_fn: Any = None
    raw_task: dict[str, Any] | None = None
    batch_id: int | str = ""
    task_id: int | str = ""
    index: dict[str, Any] = field(default_factory=dict)
    run_id: int = 0  # of the rollout in its group
    seed: int = 0  # of the rollout

    @classmethod
    def of(cls, assignment: Mapping[str, Any], args: Mapping[str, Any], workflow: Any = None) -> Task:
        """Return the task of an assignment of the run; args are workflow_args."""
        return cls(
            workflow=workflow,
            repeat_times=assignment.get("repeat_times"),
            format_args=_section(FormatConfig, assignment.get("format")),
            rollout_args=_section(GenerationConfig, assignment.get("rollout_args")),
            workflow_args={k: find(v) if k in _FUNCTIONS and isinstance(v, str) else v for k, v in args.items()},
            reward_fn_args=dict(assignment.get("reward_fn_args") or {}),
            is_eval=bool(assignment.get("eval")),
            reward_fn=_reward_of(assignment.get("reward_fn")),
            raw_task=assignment.get("row") or {},
            batch_id=assignment.get("batch_id", assignment.get("step", "")),
            task_id=assignment.get("task", ""),
            index=_index(assignment.get("index")),
            run_id=int(assignment.get("run") or 0),
            seed=int(assignment.get("seed") or 0),
        )

    @property
    def task_desc(self) -> Any:
        """The question. A key such as a.b is a value in a value."""
        return _column(self.raw_task, self.format_args.prompt_key)

    @property
    def truth(self) -> Any:
        """The reference answer."""
        return _column(self.raw_task, self.format_args.response_key)

    def to_workflow(self, model: ModelWrapper, auxiliary_models: list[ModelWrapper] | None = None) -> Any:
        """Return a workflow for this task."""
        return self.workflow(task=self, model=model, auxiliary_models=auxiliary_models)

    def to_dict(self) -> dict[str, Any]:
        return self.raw_task or {}


def _section(kind: Any, given: Any) -> Any:
    """Return a section of the configuration with the keys that a class may know."""
    if isinstance(given, kind):
        return given
    names = {f.name for f in fields(kind)}
    return kind(**{k: v for k, v in (given or {}).items() if k in names and v is not None})


def _index(given: Any) -> dict[str, Any]:
    """Return which row a task is, also by the names there."""
    if not isinstance(given, Mapping):
        return {} if given is None else {"index": given, "taskset_id": 0}
    return {"taskset_id": given.get("taskset", 0), **given}


def _reward_of(name: Any) -> Any:
    if not isinstance(name, str):
        return name
    return find(name, "reward") if name else None


def _column(row: Mapping[str, Any] | None, key: str) -> Any:
    """Return the column of a key, or the value in it that a key such as a.b names; None without it."""
    if row is None or key in row:
        return (row or {}).get(key)
    first, dot, rest = key.partition(".")
    inner = row.get(first)
    return _column(inner, rest) if dot and isinstance(inner, Mapping) else None


class Workflow:
    """Makes the experiences of a task. A subclass has run, or run_async and is_async."""

    can_reset = False
    can_repeat = False
    is_async = False

    def __init__(self, *, task: Task, model: ModelWrapper, auxiliary_models: list[ModelWrapper] | None = None) -> None:
        self.task, self.model, self.auxiliary_model_wrappers = task, model, auxiliary_models
        self.run_id_base = 0
        self.logger = get_logger(type(self).__name__)

    @property
    def auxiliary_models(self) -> Any:
        """Clients of OpenAI of the auxiliary models; None without any. They are made when they are wanted."""
        if "_clients" not in self.__dict__:
            client = "get_openai_async_client" if type(self).is_async else "get_openai_client"
            wrappers = getattr(self, "auxiliary_model_wrappers", None)
            self._clients: Any = [getattr(m, client)() for m in wrappers] if wrappers else None
        return self._clients

    @auxiliary_models.setter
    def auxiliary_models(self, models: Any) -> None:
        self._clients = models

    @property
    def resettable(self) -> bool:
        return type(self).can_reset

    @property
    def repeatable(self) -> bool:
        return type(self).can_repeat

    @property
    def asynchronous(self) -> bool:
        return type(self).is_async

    def reset(self, task: Task) -> None:
        raise NotImplementedError(f"{type(self).__name__} says can_reset and has no reset")

    def set_repeat_times(self, repeat_times: int, run_id_base: int) -> None:
        raise NotImplementedError(f"{type(self).__name__} says can_repeat and has no set_repeat_times")

    def run(self) -> list[Experience]:
        raise NotImplementedError(f"{type(self).__name__} has no run")

    async def run_async(self) -> list[Experience]:
        raise NotImplementedError(f"{type(self).__name__} has no run_async")


class MultiTurnWorkflow(Workflow):
    """The base of workflows whose whole chat is one experience."""

    def set_repeat_times(self, repeat_times: int, run_id_base: int) -> None:
        self.repeat_times, self.run_id_base = repeat_times, run_id_base

    def _build_experience_from_converted(
        self, converted_experience: Experience, reward: float, info: Any = None, truncate_status: str | None = None
    ) -> Experience:
        e, info = converted_experience, dict(info or {})
        mask, logprobs = list_of(e.action_mask), list_of(e.logprobs)
        out = Experience(
            tokens=e.tokens, prompt_length=e.prompt_length, action_mask=e.action_mask, logprobs=Numbers(
                (p if own else 0.0 for p, own in zip(logprobs, mask)), "float32"
            ), prompt_text=e.prompt_text, response_text=e.response_text, info=info,
            metrics={k: float(v) for k, v in info.items() if isinstance(v, (int, float))},
            reward=0.0 if e.truncate_status == "response_truncated" else reward,
            truncate_status=e.truncate_status or truncate_status,
        )  # fmt: skip
        out.recorded = e.recorded
        return out

    def process_messages_to_experience(
        self, messages: list[dict[str, Any]], reward: float, info: Any = None, truncate_status: str | None = None
    ) -> Experience:
        """Return the recorded sequence of a chat, with a reward."""
        found = self.model.convert_messages_to_experience(messages)
        return self._build_experience_from_converted(found, reward, info, truncate_status)

    async def process_messages_to_experience_async(
        self, messages: list[dict[str, Any]], reward: float, info: Any = None, truncate_status: str | None = None
    ) -> Experience:
        found = await self.model.convert_messages_to_experience_async(messages)
        return self._build_experience_from_converted(found, reward, info, truncate_status)


class BaseSimpleWorkflow(Workflow):
    """The base of workflows that ask one question and score the replies."""

    def __init__(self, *, task: Task, model: ModelWrapper, auxiliary_models: list[ModelWrapper] | None = None) -> None:
        self.reset(task)
        super().__init__(task=task, model=model, auxiliary_models=auxiliary_models)

    def reset(self, task: Task) -> None:
        self.task, self.format_args, self.reward_fn_args, self.raw_task = (
            task,
            task.format_args,
            task.reward_fn_args,
            task.raw_task,
        )
        self.system_prompt, self.reply_prefix = task.format_args.system_prompt, task.format_args.reply_prefix
        self.task_desc, self.truth = task.task_desc, task.truth
        if not (isinstance(task.reward_fn, type) and issubclass(task.reward_fn, RewardFn)):
            given = "none" if task.reward_fn is None else repr(task.reward_fn)
            raise ValueError(  # noqa: TRY004
                f"the task's reward function is {given}: set default_reward_fn_type to a class of RewardFn"
            )
        self.reward_fn = task.reward_fn(**self.reward_fn_args)

    def set_repeat_times(self, repeat_times: int, run_id_base: int) -> None:
        self.repeat_times, self.run_id_base = repeat_times, run_id_base
        self.task.rollout_args.n = repeat_times

    @property
    def rollout_args(self) -> dict[str, Any]:
        return asdict(self.task.rollout_args)

    def format_messages(self) -> list[dict[str, Any]]:
        """Return the chat that the model is asked for."""
        parts = (("system", self.system_prompt), ("user", self.task_desc), ("assistant", self.reply_prefix))
        return [{"role": role, "content": text} for role, text in parts if text or role == "user"]

    def _scored(self, replies: list[Experience]) -> list[Experience]:
        for i, e in enumerate(replies):
            parts = self.reward_fn(response=e.response_text, truth=self.truth)
            e.metrics = {**(e.metrics or {}), **parts}
            e.reward, e.eid.run = sum(parts.values()), i + self.run_id_base
        return replies


class SimpleWorkflow(BaseSimpleWorkflow):
    """Asks once and scores the replies with a reward function."""

    can_reset = True
    can_repeat = True

    def run(self) -> list[Experience]:
        return self._scored(self.model.chat(self.format_messages(), **self.rollout_args))


class AsyncSimpleWorkflow(BaseSimpleWorkflow):
    is_async = True

    async def run_async(self) -> list[Experience]:
        return self._scored(await self.model.chat_async(self.format_messages(), **self.rollout_args))


class MathWorkflow(SimpleWorkflow):
    """Asks for a thought and an answer in tags, and scores with MathRewardFn unless the task names another."""

    def reset(self, task: Task) -> None:
        if task.reward_fn is None or getattr(task.reward_fn, "__name__", "") == "MathRewardFn":
            task.reward_fn = task.reward_fn or REWARD_FUNCTIONS.get("trinity.common.rewards.math_reward.MathRewardFn")
            if task.format_args.system_prompt is None:
                task.format_args.system_prompt = MATH_PROMPT
        super().reset(task)


class AsyncMathWorkflow(AsyncSimpleWorkflow, MathWorkflow):
    pass
