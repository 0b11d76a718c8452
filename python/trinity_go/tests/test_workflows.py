"""Tasks, and the bases of workflows."""

from __future__ import annotations

import array
import asyncio
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from trinity_go.compat import workflows
from trinity_go.compat.experience import Experience, Recorded, to_posted
from trinity_go.compat.rewards import RewardFn
from trinity_go.compat.stepwise import (
    AsyncRewardPropagationWorkflow,
    AsyncStepWiseRewardWorkflow,
    RewardPropagationWorkflow,
    StepWiseRewardWorkflow,
)
from trinity_go.compat.workflows import (
    AsyncSimpleWorkflow,
    MathWorkflow,
    MultiTurnWorkflow,
    SimpleWorkflow,
    Task,
    Workflow,
)


class Right(RewardFn):
    def __init__(self, weight: float = 1.0) -> None:
        self.weight = weight

    def __call__(self, response: str, truth: str, **_: Any) -> dict[str, float]:  # type: ignore[override]
        return {"right": self.weight * (response == truth), "format": 0.5}


class Model:
    """Says 3 and 4, and keeps what it has said."""

    enable_history = True

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.history: list[Experience] = []

    def chat(self, messages: Any, **kwargs: Any) -> list[Experience]:
        self.asked.append((messages, kwargs))
        out = []
        for i in range(kwargs.get("n", 1)):
            e = Experience(tokens=[1, 2, 3 + i], prompt_length=2, logprobs=[-0.5], response_text=str(3 + i))
            e.recorded = Recorded(len(self.history) + i, 0, array.array("i", [1, 2, 3 + i]), 2)
            out.append(e)
        self.history += out
        return out

    async def chat_async(self, messages: Any, **kwargs: Any) -> list[Experience]:
        return self.chat(messages, **kwargs)

    def get_openai_client(self) -> str:
        return "client"

    def get_openai_async_client(self) -> str:
        return "async client"

    def extract_experience_from_history(self) -> list[Experience]:
        out, self.history = self.history, []
        return out

    def convert_messages_to_experience(self, messages: Any) -> Experience:
        e = Experience(tokens=[1, 2, 3, 4], prompt_length=1, action_mask=[True, False, True], logprobs=[-1, -2, -3])
        e.recorded = Recorded(1, 0, array.array("i", [1, 2, 3, 4]), 1)
        return e

    async def convert_messages_to_experience_async(self, messages: Any) -> Experience:
        return self.convert_messages_to_experience(messages)


ASSIGNMENT = {
    "task": "gsm/7", "row": {"q": {"text": "1+2"}, "a": "3", "system": "s"}, "eval": True, "seed": 5, "run": 2, "repeat_times": 4,
    "batch_id": 9, "index": 3, "format": {"prompt_key": "q.text", "response_key": "a", "system_prompt": "be brief", "unknown": 1},
    "rollout_args": {"temperature": 0.5}, "reward_fn": Right, "reward_fn_args": {"weight": 2.0},
}  # fmt: skip


def test_a_task() -> None:
    task = Task.of(ASSIGNMENT, {"k": 1}, SimpleWorkflow)
    assert (task.task_desc, task.truth, task.is_eval, task.batch_id, task.task_id) == ("1+2", "3", True, 9, "gsm/7")
    assert (task.workflow_args, task.index, task.run_id, task.seed, task.repeat_times) == (
        {"k": 1},
        {"index": 3, "taskset_id": 0},
        2,
        5,
        4,
    )
    assert (task.rollout_args.temperature, task.rollout_args.n, task.to_dict()) == (0.5, 1, ASSIGNMENT["row"])
    assert isinstance(task.to_workflow(Model()), SimpleWorkflow) and isinstance(task, dict)  # type: ignore[arg-type]
    assert Task.of({"index": {"taskset": "gsm", "index": 4}}, {}).index == {
        "taskset_id": "gsm",
        "taskset": "gsm",
        "index": 4,
    }
    empty = Task.of({}, {})
    assert (empty.task_desc, empty.truth, empty.raw_task, empty.reward_fn, empty.index) == (None, None, {}, None, {})
    assert Task.of({"row": {"prompt.x": 1}, "format": {"prompt_key": "prompt.x"}}, {}).task_desc == 1


def test_adapters_name_functions() -> None:
    task = Task.of({}, {"workflow_func": "json.dumps", "judge_func": max, "other": "json.dumps"})
    assert (
        task.workflow_args["workflow_func"]([1]),
        task.workflow_args["judge_func"],
        task.workflow_args["other"],
    ) == (
        "[1]",
        max,
        "json.dumps",
    )


def test_a_simple_workflow() -> None:
    model = Model()
    w = Task.of(ASSIGNMENT, {}, SimpleWorkflow).to_workflow(model)  # type: ignore[arg-type]
    w.set_repeat_times(2, 6)
    one, two = w.run()
    messages, kwargs = model.asked[0]
    assert messages == [{"role": "system", "content": "be brief"}, {"role": "user", "content": "1+2"}]
    assert kwargs == {"temperature": 0.5, "top_p": None, "top_k": -1, "logprobs": None, "max_tokens": None, "n": 2}
    assert (one.reward, two.reward, one.metrics, one.eid.run, two.eid.run) == (
        2.5,
        0.5,
        {"right": 2.0, "format": 0.5},
        6,
        7,
    )
    assert to_posted([one])["experiences"] == [{"turn": 0, "reward": 2.5, "metrics": {"right": 2.0, "format": 0.5}}]
    again = Task.of(ASSIGNMENT | {"row": {"q": {"text": "5"}, "a": "4"}}, {}, SimpleWorkflow)
    w.reset(again)
    assert w.task_desc == "5" and w.task is again
    later = asyncio.run(Task.of(ASSIGNMENT, {}, AsyncSimpleWorkflow).to_workflow(model).run_async())  # type: ignore[arg-type]
    assert later[0].reward == 2.5
    assert (w.resettable, w.repeatable, w.asynchronous, AsyncSimpleWorkflow.can_repeat) == (True, True, False, False)
    with pytest.raises(ValueError, match="reward function is none: set default_reward_fn_type"):
        Task.of(ASSIGNMENT | {"reward_fn": None}, {}, SimpleWorkflow).to_workflow(model)  # type: ignore[arg-type]


def test_a_math_workflow(monkeypatch: pytest.MonkeyPatch) -> None:
    class MathRewardFn(Right):
        pass

    own = Task.of(ASSIGNMENT | {"format": {}}, {}, MathWorkflow)
    assert own.to_workflow(Model()).system_prompt is None  # type: ignore[arg-type]
    monkeypatch.setitem(
        workflows.REWARD_FUNCTIONS.modules, "trinity.common.rewards.math_reward.MathRewardFn", MathRewardFn
    )
    w = Task.of(ASSIGNMENT | {"format": {}, "reward_fn": None, "reward_fn_args": {}}, {}, MathWorkflow).to_workflow(
        Model()
    )  # type: ignore[arg-type]
    assert isinstance(w.reward_fn, MathRewardFn) and w.system_prompt == workflows.MATH_PROMPT


def test_several_turns() -> None:
    class Turns(MultiTurnWorkflow):
        def run(self) -> list[Experience]:
            return [self.process_messages_to_experience([], 0.5, {"rounds": 2, "text": "x"})]

    w = Turns(task=Task.of(ASSIGNMENT, {}), model=Model())  # type: ignore[arg-type]
    w.set_repeat_times(1, 3)
    (e,) = w.run()
    assert [float(p) for p in e.logprobs] == [-1, 0, -3] and (e.metrics, e.info) == (
        {"rounds": 2.0},
        {"rounds": 2, "text": "x"},
    )
    assert to_posted([e])["experiences"] == [
        {
            "turn": 1,
            "reward": 0.5,
            "learn": [[0, 1], [2, 3]],
            "metrics": {"rounds": 2.0},
            "info": {"rounds": 2, "text": "x"},
        }
    ]
    later = asyncio.run(w.process_messages_to_experience_async([], 1.0, truncate_status="tokens_truncated"))
    assert (later.reward, later.truncate_status, later.turn) == (1.0, "tokens_truncated", 1)


class _Walk:
    max_step_num = 3

    def step(self, step_num: int) -> bool:
        self.model.chat([])  # type: ignore[attr-defined]
        return step_num < 1

    async def step_async(self, step_num: int) -> bool:
        return self.step(step_num)


class Steps(_Walk, StepWiseRewardWorkflow):  # type: ignore[misc]
    def reward(self, exps: list[Experience], step_num: int) -> float:
        return step_num + 0.5


class AsyncSteps(_Walk, AsyncStepWiseRewardWorkflow):  # type: ignore[misc]
    async def reward_async(self, exps: list[Experience], step_num: int) -> float:
        return step_num + 0.5


class Whole(_Walk, RewardPropagationWorkflow):  # type: ignore[misc]
    def reward(self, exps: list[Experience]) -> float:
        return len(exps)


class AsyncWhole(_Walk, AsyncRewardPropagationWorkflow):  # type: ignore[misc]
    async def reward_async(self, exps: list[Experience]) -> float:
        return len(exps)


@pytest.mark.parametrize(
    ("kind", "rewards"), [(Steps, [0.5, 1.5]), (AsyncSteps, [0.5, 1.5]), (Whole, [2, 2]), (AsyncWhole, [2, 2])]
)
def test_step_by_step(kind: Any, rewards: list[float]) -> None:
    w = kind(task=Task.of(ASSIGNMENT, {}), model=Model())
    out = asyncio.run(w.run_async()) if kind.is_async else w.run()
    assert w.client == "client"
    assert [(e.reward, e.eid.step) for e in out] == [(rewards[0], 0), (rewards[1], 1)]
    if issubclass(kind, RewardPropagationWorkflow):
        assert out[0].metrics == {"actual_env_steps": 2}
    assert kind(task=Task.of(ASSIGNMENT, {}), model=Model(), use_openai_client=False).client is None


def test_what_a_class_lacks() -> None:
    class Lazy(Workflow):
        can_repeat = can_reset = True

    w = Lazy(task=Task.of(ASSIGNMENT, {}), model=Model(), auxiliary_models=[Model()])  # type: ignore[arg-type, list-item]
    assert w.auxiliary_models == ["client"] and w.auxiliary_model_wrappers
    for call, want in (
        (w.run, "Lazy has no run"),
        (lambda: w.reset(w.task), "Lazy says can_reset and has no reset"),
        (lambda: w.set_repeat_times(1, 0), "Lazy says can_repeat and has no set_repeat_times"),
        (lambda: asyncio.run(w.run_async()), "Lazy has no run_async"),
    ):
        with pytest.raises(NotImplementedError, match=want):
            call()


def test_every_name_is_imported(tmp_path: Path) -> None:
    """In a process of its own, since the names are for workers only."""
    (tmp_path / "mine.py").write_text(
        textwrap.dedent("""
        from typing import Optional
        from trinity.common.config import BufferConfig, FormatConfig, GenerationConfig, OperatorConfig
        from trinity.common.experience import EID, CustomField, Experience, group_by
        from trinity.common.models.model import ModelWrapper
        from trinity.common.rewards import REWARD_FUNCTIONS, RewardFn
        from trinity.common.rewards.reward_fn import RewardFn as Other
        from trinity.common.workflows import WORKFLOWS, Task, Workflow
        from trinity.common.workflows.step_wise_workflow import RewardPropagationWorkflow
        from trinity.common.workflows.workflow import WORKFLOWS as ALSO, AsyncMathWorkflow, MultiTurnWorkflow, SimpleWorkflow
        from trinity.utils.annotations import Deprecated, Experimental
        from trinity.utils.log import get_logger
        from trinity.utils.metrics import aggregate_metrics
        from trinity.utils.registry import Registry
        from trinity.utils.timer import Timer
        from verl import DataProto

        @Experimental
        @WORKFLOWS.register_module("mine")
        class Mine(SimpleWorkflow):
            pass

        assert RewardFn is Other and WORKFLOWS is ALSO and Mine._is_experimental and Registry("workflows") is WORKFLOWS
        assert Registry("own").name == "own" and BufferConfig(explorer_input=1).explorer_input == 1
        print(aggregate_metrics([{"a": 1, "n:sum": 2}, {"a": 3, "n:sum": 4, "t": "x"}], "p"))
        with Timer({}, "t") as timer:
            pass
        """)
    )
    code = "from trinity_go import compat\ncompat.install()\nimport mine, sys\nprint(sorted({'torch', 'openai', 'ray'} & {*sys.modules}))"
    path = f"{Path(workflows.__file__).parents[2]}:{tmp_path}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={"PYTHONPATH": path}
    )
    assert done.stdout.splitlines() == ["{'p/a/mean': 2.0, 'p/a/max': 3.0, 'p/a/min': 1.0, 'p/n/sum': 6.0}", "[]"], (
        done.stderr
    )
    code = "import sys, trinity_go.compat\nprint(any('trinity_go' in type(f).__module__ for f in sys.meta_path))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": path}
    )
    assert done.stdout == "False\n"


def test_clients_are_made_when_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class that only chats needs no package openai."""
    from trinity_go.compat.models import ModelWrapper
    from trinity_go.compat.stepwise import StepWiseRewardWorkflow

    monkeypatch.setitem(sys.modules, "openai", None)
    model = ModelWrapper([{"base_url": "http://127.0.0.1:9/v1", "api_key": ""}])
    for kind in (Workflow, StepWiseRewardWorkflow):
        made = kind(task=Task(), model=model, auxiliary_models=[model])
        assert made.auxiliary_model_wrappers == [model]
        with pytest.raises(ImportError):
            _ = made.auxiliary_models
        made.auxiliary_models = ["mine"]
        assert made.auxiliary_models == ["mine"]
    assert kind(task=Task(), model=model).auxiliary_models is None
    with pytest.raises(ImportError):
        _ = made.client
