"""Rollouts of functions and classes: what they get, and what is posted about them."""

from __future__ import annotations

import asyncio
import http.server
import inspect
import io
import json
import random
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from trinity_go import rollouts, said, wire
from trinity_go.compat.registry import registries
from trinity_go.compat.rewards import RewardFn
from trinity_go.compat.workflows import SimpleWorkflow, Task, Workflow
from trinity_go.wire import Told


class Endpoint:
    """An endpoint of a rollout, which says its number."""

    def __init__(self) -> None:
        self.posted: list[tuple[str, str, Any]] = []  # key, path and body
        self.calls: dict[str, int] = {}
        self.scored: dict[str, Any] = {"reward": 0.75, "parts": {"a": 0.5, "b": 0.25}}
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                key = self.headers["Authorization"].removeprefix("Bearer ")
                status, answer = outer.answer(key, self.path, body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, key: str, path: str, body: Any) -> tuple[int, Any]:
        if path == "/score":
            self.posted.append((key, path, body))
            return 200, self.scored
        if path == "/chat/completions":
            if body["model"] == "judge":
                return 400, {"error": {"message": "the judge is away"}}
            if body["model"] == "friend":
                return 200, {
                    "choices": [{"message": {"role": "assistant", "content": "0.25"}, "finish_reason": "stop"}]
                }
            turn = self.calls.get(key, 0)
            self.calls[key] = turn + 1
            ids = [7, 8, int(key)]
            return 200, {
                "prompt_token_ids": [1, 2],
                "choices": [{
                    "message": {"role": "assistant", "content": f"I am {key}"}, "finish_reason": "stop", "token_ids": ids,
                    "logprobs": {"content": [{"logprob": -0.5}] * 3},
                    "recorded": {"turn": turn, "prompt_length": 2, "text": f"I am {key}"},
                }],
            }  # fmt: skip
        self.posted.append((key, path, body))
        if path == "/experiences" and body["experiences"][0].get("learn") == [[0, 1]]:
            return 400, {
                "error": {"message": "experiences: learn of call 0 names token 0, which the policy did not sample"}
            }
        return 200, {"ok": True}

    def assignment(self, run: int = 0, **more: Any) -> dict[str, Any]:
        return {
            "task": "t/1", "eval": False, "prompt": "1+2", "truth": "3", "row": {"question": "1+2", "answer": "3"}, "seed": 5,
            "base_url": f"http://127.0.0.1:{self.server.server_port}", "api_key": str(run), "run": run, "repeat_times": 3, "step": 2,
            "batch_id": 2, "index": {"taskset": "t", "index": 1}, "format": {"prompt_key": "question", "response_key": "answer"},
            "rollout_args": {"temperature": 0.5}, **more,
        }  # fmt: skip


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    one = Endpoint()
    yield one
    one.server.shutdown()
    one.server.server_close()


def ask(endpoint: Endpoint, target: Any, runs: int = 1, args: Any = None, **more: Any) -> Any:
    """Ask for rollouts of something of this file."""
    question = {
        "name": f"{__name__}.{target.__name__}", "args": args or {},
        "assignments": [endpoint.assignment(run, **more) for run in range(runs)],
    }  # fmt: skip
    answer = rollouts.rollout(question)
    return asyncio.run(_awaited(answer)) if inspect.isawaitable(answer) else answer


async def _awaited(later: Any) -> Any:
    return await later


def number(task: rollouts.Task, model: rollouts.Model, factor: int = 1) -> float:
    assert (task.row["answer"], task.prompt, task.truth, task.seed, task.run_id) == ("3", "1+2", "3", 5, 0)
    return factor * len(model.chat("Who?"))


async def parts(task: rollouts.Task, model: rollouts.Model) -> dict[str, float]:
    replies = await asyncio.gather(*(model.chat([{"role": "user", "content": "?"}]) for _ in range(3)))
    return {"said so": len(set(replies)), "asked": model.request_count}


def nothing(task: rollouts.Task, model: rollouts.Model) -> None:
    pass


def returns(value: Any) -> Any:
    def function(task: Any) -> Any:
        return value

    function.__name__ = "returned"
    globals()["returned"] = function
    return function


def ranks(task: Any, model: rollouts.Model) -> list[float | None]:
    return [1.0, None, float("nan")]


class Right(RewardFn):
    def __call__(self, response: str, truth: str, **kwargs: Any) -> dict[str, float]:
        return {"right": float(truth in response), "long": len(response) / 100}


class Simple(SimpleWorkflow):
    pass


class Later(Workflow):
    is_async = True

    async def run_async(self) -> Any:
        await asyncio.sleep(0)
        (one,) = await self.model.chat_async([{"role": "user", "content": "?"}])
        one.reward, one.action_mask = 1, [False, True, False]
        return one


class Wrong(Workflow):
    def run(self) -> Any:
        (one,) = self.model.chat([{"role": "user", "content": "?"}])
        one.reward, one.action_mask = 1, [True, False, False]
        return [one]


class Group(Workflow):
    def set_repeat_times(self, repeat_times: int, run_id_base: int) -> None:
        self.n, self.first = repeat_times, run_id_base

    def run(self) -> Any:
        replies = self.model.chat([{"role": "user", "content": "?"}], n=self.n)
        for i, e in enumerate(replies):
            e.reward = self.first + i
        return replies[:2]


def judged(task: Any, auxiliary_models: list[Any]) -> Any:
    return auxiliary_models[0].chat([{"role": "user", "content": "?"}])


def misspelt(task: Any, model: rollouts.Model) -> Any:
    return model.chat("?", temprature=9.0)


async def misspelt_later(task: Any, model: rollouts.Model) -> Any:
    return await model.chat("?", top_q=1)


class Alone:
    def __init__(self, task: Any, model: Any) -> None: ...

    def run(self) -> Any: ...


class More(Alone):
    def __init__(self, task: Any, model: Any, extra: int, auxiliary_models: Any = None) -> None: ...


class NoTask:
    def run(self) -> Any:
        pass


def test_rewards_of_functions(endpoint: Endpoint) -> None:
    assert ask(endpoint, number, args={"factor": 2}) == {"answer": {"scored": [True]}}
    assert ask(endpoint, parts) == {"answer": {"scored": [True]}}
    assert ask(endpoint, nothing, reward_fn="math_reward") == {"answer": {"scored": [False]}}
    assert endpoint.posted == [
        ("0", "/reward", {"value": 12.0}),
        ("0", "/reward", {"parts": {"said_so": 1.0, "asked": 3.0}}),
    ]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "it returned None: want a number, a dict of numbers, or experiences"),
        (float("inf"), "it returned inf: want a number"),
        ("5", "it returned '5': want a number"),
        (10**400, "it returned 1000000"),
        ({}, "it returned {}, which is no reward"),
        ({"a": 1, "b": None}, "it returned None for b, which is no finite number"),
        ({"a": 1e308, "b": 1e308}, "which is no reward"),
    ],
)
def test_what_is_no_reward(endpoint: Endpoint, value: Any, says: str) -> None:
    with pytest.raises(Told) as told:
        ask(endpoint, returns(value))
    assert says in str(told.value) and told.value.kind == "reward" and endpoint.posted == []


def test_arguments_of_a_call(endpoint: Endpoint) -> None:
    with pytest.raises(TypeError, match=r'takes no argument temprature \(did you mean "temperature"\?\)'):
        ask(endpoint, misspelt)
    with pytest.raises(TypeError, match="takes no argument top_q"):
        ask(endpoint, misspelt_later)


def test_rewards_of_a_group(endpoint: Endpoint) -> None:
    assert ask(endpoint, ranks, runs=3, reward_fn="own") == {"answer": {"scored": [True, False, True]}}
    wrong = f"{__name__}.ranks returned nan: want a number, a dict of numbers, or experiences"
    assert endpoint.posted == [
        ("0", "/reward", {"value": 1.0}),
        ("2", "/fail", {"kind": "reward", "reason": wrong}),
    ]
    with pytest.raises(Told, match=r"it returned 1 for a group: want 3 rewards, or experiences"):
        ask(endpoint, returns(1), runs=3)


def test_experiences(endpoint: Endpoint) -> None:
    name = f"python:{__name__}.Right"
    assert ask(endpoint, Simple, reward_fn=name) == {"answer": {"scored": [True]}}
    assert ask(endpoint, Later) == {"answer": {"scored": [True]}}
    (_, path, first), (_, _, second) = endpoint.posted
    assert path == "/experiences" and first["experiences"][0]["turn"] == 0
    assert first["experiences"][0]["reward"] == pytest.approx(0.06)
    assert first["experiences"][0]["metrics"] == pytest.approx({"right": 0, "long": 0.06})
    assert second == {"experiences": [{"turn": 1, "reward": 1.0, "learn": [[1, 2]]}]}
    with pytest.raises(Told, match=r"^experiences: learn of call 0 names token 0, which the policy did not sample$"):
        ask(endpoint, Wrong)


def test_experiences_of_a_group(endpoint: Endpoint) -> None:
    ask(endpoint, Group, runs=3)
    assert endpoint.posted == [
        ("0", "/experiences", {"experiences": [{"turn": 0, "reward": 0.0}]}),
        ("1", "/experiences", {"experiences": [{"turn": 0, "reward": 1.0}]}),
        ("2", "/fail", {"kind": "agent", "reason": f"{__name__}.Group returned no experience of this rollout"}),
    ]


async def asks_a_friend(task: Any, auxiliary_models: list[Any]) -> float:
    return float(await auxiliary_models[0].chat("How good?"))


def test_an_auxiliary_model(endpoint: Endpoint) -> None:
    friend = [{"name": "friend", "base_url": endpoint.assignment()["base_url"], "api_key": "0"}]
    ask(endpoint, asks_a_friend, auxiliary=friend)
    assert endpoint.posted == [("0", "/reward", {"value": 0.25})]


def test_an_auxiliary_model_that_fails(endpoint: Endpoint) -> None:
    judge = [{"name": "judge", "base_url": endpoint.assignment()["base_url"], "api_key": "0"}]
    with pytest.raises(RuntimeError, match="the judge is away") as error:
        ask(endpoint, judged, auxiliary=judge)
    assert wire.kind_of(error.value) == "model"


def test_a_reward_function_of_the_program(endpoint: Endpoint) -> None:
    assert ask(endpoint, Simple, reward_fn="own_reward") == {"answer": {"scored": [True]}}
    (key, path, asked), (_, _, posted) = endpoint.posted
    assert (key, path, asked["response"]) == ("0", "/score", "I am 0")
    assert posted["experiences"][0]["reward"] == 0.75
    assert ask(endpoint, Later, reward_fn="own_reward") == {"answer": {"scored": [True]}}
    endpoint.scored = {"reward": None, "reason": "it cannot tell"}
    with pytest.raises(Told, match="^own_reward: it cannot tell$") as told:
        ask(endpoint, Simple, reward_fn="own_reward")
    assert told.value.kind == "reward"


def test_a_reward_function_has_the_name_of_a_built_in_one(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registries["reward"].modules, "math_reward", Right)
    ask(endpoint, Simple, reward_fn="math_reward")
    ask(endpoint, Simple, reward_fn="python:math_reward")
    ask(endpoint, Simple, reward_fn=f"python:{__name__}.Right")
    assert [path for _, path, _ in endpoint.posted] == ["/score", "/experiences", "/experiences", "/experiences"]


def test_described() -> None:
    def check(target: Any, **args: Any) -> dict[str, Any]:
        return rollouts.describe(f"{__name__}.{target.__name__}", args)

    assert check(number, factor=3) == {"steps": False}
    assert check(Simple, anything=1) == {"steps": False}
    assert rollouts.describe("trinity_go.compat.stepwise.StepWiseRewardWorkflow", {}) == {"steps": True}
    for target, args, says, at in [
        (number, {"facter": 1}, 'has no argument facter (did you mean "factor"?)', "args.facter"),
        (number, {"task": 1}, "is what the run gives it", "args.task"),
        (Right, {}, "has no method run, which makes a rollout", ""),
        (NoTask, {}, "got an unexpected keyword argument 'task'", ""),
        (Alone, {}, "got an unexpected keyword argument 'auxiliary_models': a workflow is made with", ""),
        (
            More,
            {},
            "missing a required argument: 'extra': a workflow is made with task, model and auxiliary_models",
            "",
        ),
        (Task.of, {}, "takes assignment, which is nothing of the run (task, model, auxiliary_models)", ""),
    ]:
        name = "trinity_go.compat.workflows.Task.of" if target == Task.of else f"{__name__}.{target.__name__}"
        with pytest.raises(Told) as told:
            rollouts.describe(name, args)
        assert says in str(told.value) and told.value.key == at


def test_seeds(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def draws(task: Any) -> float:
        drawn.append(random.random())
        return 1

    monkeypatch.setitem(globals(), "draws", draws)
    monkeypatch.setattr(rollouts, "at_once", 1)
    for _ in range(2):
        ask(endpoint, draws)
    monkeypatch.setattr(rollouts, "at_once", 2)
    ask(endpoint, draws)
    assert drawn[0] == drawn[1] != drawn[2]


def test_lines_have_their_rollout() -> None:
    out = io.StringIO()
    lines = said.Lines(out)
    with said.by("a"):
        print("one", end="", file=lines)
        lines.flush()
    with said.by("b"):
        print("two", file=lines)
    print("three", end="", file=lines)
    lines.flush()
    with said.by("a"):
        print(" more\nnext", file=lines)
        print("end", end="", file=lines)
    lines.end()
    assert out.getvalue() == "b: two\nthreea: one more\na: next\na: end\n"


def test_the_last_line_of_a_rollout_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    below = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    lines = said.Lines(below)
    monkeypatch.setattr(sys, "stderr", lines)
    with said.by("a"):
        lines.reconfigure(line_buffering=True)
        print("one", end="", file=lines)
    with said.by("a"):
        print("two", end="", file=lines)
    assert not lines._begun
    lines.buffer.write(b"raw\n")
    lines.flush()
    assert below.detach().getvalue() == b"a: one\na: two\nraw\n"  # type: ignore[attr-defined]
