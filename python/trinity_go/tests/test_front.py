"""Runs from Python, with a built program: TRINITY_BINARY, or the one that is installed."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

import trinity_go as tg
from trinity_go import _caller, _config, _results, classes, worker

MODEL = Path(__file__).parents[3] / "examples" / "quickstart" / "model"
ROWS = [{"question": f"{a}+{b}=?", "answer": str(a + b)} for a in range(4) for b in range(4)]
SMALL: dict[str, Any] = {
    "model": MODEL, "dataset": ROWS, "prompt": "question", "answer": "answer", "steps": 2, "batch_size": 4, "repeat_times": 4,
    "max_prompt_tokens": 64, "max_response_tokens": 8, "kl_loss_fn": "none", "config": {"model": {"init": {"style": "fan_in"}}},
}  # fmt: skip

try:
    tg.binary()
except tg.NotInstalled as missing:
    pytest.skip(f"TRINITY_BINARY names no program: {missing}", allow_module_level=True)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRINITY_CHECKPOINT_ROOT_DIR", raising=False)


@pytest.fixture(params=["bare", "full"])
def libraries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With pandas and tqdm, and as if they were missing."""
    if request.param == "bare":
        monkeypatch.setattr(_results, "_optional", lambda _: None)
    else:
        pytest.importorskip("pandas")
        pytest.importorskip("tqdm")
    return str(request.param)


def length(completion: str) -> float:
    return float(len(completion))


def test_a_run(libraries: str, capfd: pytest.CaptureFixture[str]) -> None:
    seen = []

    async def right(completion: str, answer: str, question: str) -> float:
        seen.append(question)
        await asyncio.sleep(0)
        return float(answer in completion)

    run = tg.GRPO(reward=[right, length], name="both", **SMALL).train()
    assert len(seen) == 32
    steps, answers = run.metrics, run.rollouts
    if libraries == "full":
        assert list(steps.index) == [0, 1, 2][-len(steps) :]
        steps, answers = steps.reset_index().to_dict("records"), answers.to_dict("records")
    assert steps[-1]["step"] == 2
    assert steps[-1]["rollout/length/mean"] > 0
    assert len(answers) == 32
    assert {"step", "task", "run", "prompt", "response", "truth", "reward", "right", "length"} <= set(answers[0])
    assert answers[0]["length"] == len(answers[0]["response"])
    assert len(run.failures) == 0
    assert Path(run.model_path, "model.safetensors").is_file()
    assert "both, rollout/reward/mean" in repr(run)
    page = run._repr_html_()
    assert page.startswith("<table>")
    assert "<td>finished</td>" in page
    assert "<polyline" in page
    assert isinstance(run.chat("1+2=?", max_tokens=4), str)
    scored = run.eval(ROWS[:3], n=2, temperature=0)
    scored = scored.to_dict("records") if libraries == "full" else scored
    assert [row["truth"] for row in scored] == ["0", "0", "1", "1", "2", "2"]
    assert scored[0]["response"] == scored[1]["response"]
    said = capfd.readouterr().err
    assert "step" in said
    text = Path("checkpoints/trinity/both/run.yaml").read_text()
    assert "but right: no module has it, so start it from Python" in text
    resumed = tg.GRPO(reward=[right, length], name="both", **{**SMALL, "steps": 3}).train()
    assert "resumes after step 2" in capfd.readouterr().err
    assert resumed.model_path.endswith("global_step_3/actor/huggingface")


def test_the_program_goes_on_alone(tmp_path: Path) -> None:
    (tmp_path / "scores.py").write_text("def digits(completion):\n    return sum(c.isdigit() for c in completion)\n")
    sys.path.insert(0, str(tmp_path))
    try:
        run = tg.GRPO(reward=importlib.import_module("scores").digits, **SMALL).train()
    finally:
        sys.path.remove(str(tmp_path))
        del sys.modules["scores"]
    file = run.folders[0] / "run.yaml"
    assert "caller:scores.digits" in file.read_text()
    done = subprocess.run(
        [tg.binary(), "run", "--config", str(file), "buffer.total_steps=3"],
        capture_output=True, text=True, check=False, env={**os.environ, "TRINITY_PYTHON": sys.executable},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "step 3/3  reward" in done.stderr
    only = tg.GRPO(reward=lambda completion: 1.0, **SMALL)
    done = subprocess.run([tg.binary(), "check", str(only._write())], capture_output=True, text=True, check=False)
    assert "lambda was a function of the Python process that started the run" in done.stderr


def test_what_python_has(capfd: pytest.CaptureFixture[str]) -> None:
    taskset = {
        "path": _config.dataset(ROWS, Path(), "rows"), "format": {"prompt_key": "question", "response_key": "answer"},
        "default_workflow_type": "simple_workflow", "default_reward_fn_type": "python", "reward_fn_args": {"class": "caller:long"},
    }  # fmt: skip
    config = {
        "model": {
            "model_path": str(MODEL),
            "init": {"style": "fan_in"},
            "max_prompt_tokens": 32,
            "max_response_tokens": 8,
        },
        "algorithm": {"algorithm_type": "grpo", "repeat_times": 2},
        "buffer": {"total_steps": 1, "batch_size": 2, "explorer_input": {"taskset": taskset}},
    }
    run = tg.Run(config, long=length).train()
    assert re.fullmatch(r"run-\d{8}-\d{6}", run.name)
    assert len(run.rollouts) == 4
    Path("own.yaml").write_text(_config.yaml(config))
    run = tg.Run("own.yaml", name="other", long=length).train()
    assert run.name == "other"
    assert run.folders[0].name == "other"
    sft = tg.SFT(
        MODEL,
        ROWS,
        prompt="question",
        answer="answer",
        steps=2,
        train_batch_size=4,
        max_model_len=64,
        config=SMALL["config"],
    )
    assert [step for step, _ in sft.train().curve()[1]] == [1, 2]
    assert "mode train, algorithm sft" in capfd.readouterr().err


class Maze:
    def reset(self, question: str, **row: Any) -> str:
        return f"Walk {question}"

    def step(self, by: int) -> str:
        """Walk."""
        return f"You are at {by}."

    def get_reward(self) -> float:
        return 0.25


def test_rollouts_of_ones_own() -> None:
    chats = []

    @tg.workflow
    async def agent(task: tg.Task, model: tg.Model, times: int = 1) -> dict[str, float]:
        replies = [await model.chat(f"{task.row['question']} {i}") for i in range(times)]
        chats.append(replies)
        return {"length": float(sum(map(len, replies))), "seeded": float(task.seed > 0)}

    run = tg.GRPO(workflow=agent, workflow_args={"times": 2}, **SMALL).train()
    assert [len(replies) for replies in chats] == [2] * 32
    assert run.steps()[-1]["rollout/length/mean"] > 0
    with pytest.raises(tg.RunError, match="lambda: ZeroDivisionError: division by zero; test_front.py") as failed:
        tg.GRPO(workflow=tg.workflow(lambda task, model: 1 / 0), **{**SMALL, "name": "agent"}).train()
    assert isinstance(failed.value.__cause__, ZeroDivisionError)
    run = tg.GRPO(environment=Maze, **SMALL).train()
    answers = run.rollouts if isinstance(run.rollouts, list) else run.rollouts.to_dict("records")
    assert answers[0]["prompt"].endswith("Walk " + answers[0]["prompt"].partition("\n")[0])
    assert {row["reward"] for row in answers} == {0.25}
    run = tg.GRPO(tools=length, reward=length, **SMALL).train()
    assert run.steps()[-1]["rollout/reward/mean"] > 0


class Locked(Maze):
    def reset(self, question: str, **row: Any) -> str:
        raise KeyError(question)


class Twice(Maze):
    def length(self) -> int:
        """Say how long it is."""
        return 1


def test_what_tools_and_environments_say(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(tg.RunError, match=r"^test_front\.Locked: KeyError: .*in reset$") as failed:
        tg.GRPO(environment=Locked, **SMALL).train()
    assert isinstance(failed.value.__cause__, KeyError)

    def weather(city: str) -> str:
        return city

    made = tg.GRPO(tools=[weather], reward=length, **SMALL)
    capfd.readouterr()
    again = tg.Run(made._write(), name="again", weather=weather).train()  # its run.yaml says what it asks
    assert len(again.steps()) > 0
    assert "is not asked" not in capfd.readouterr().err
    with pytest.raises(TypeError, match="two tools have the name length"):
        tg.GRPO(environment=Twice, tools=[length], **SMALL)


def test_a_workflow_that_scores_is_not_scored_again(capfd: pytest.CaptureFixture[str]) -> None:
    def agent(task: tg.Task, model: tg.Model) -> float:
        return float(len(model.chat("a")))

    tg.GRPO(workflow=agent, reward=length, **SMALL).train()
    said = capfd.readouterr().err
    assert said.count("agent returns the reward itself, so test_front.length is not asked") == 1


def test_what_learns_of_ones_own() -> None:
    @tg.loss
    def nothing(logprob: Any, action_mask: Any) -> Any:
        return 0.0, {"logprob": [[0.0] * len(row) for row in logprob]}, {"sequences": len(logprob)}

    @tg.advantage
    def ones(exps: Any) -> Any:
        for e in exps:
            e.advantages = [1.0] * (len(e.tokens) - e.prompt_length)
        return exps, {"asked": len(exps)}

    @tg.operator
    def longest(exps: Any) -> Any:
        return sorted(exps, key=lambda e: len(e.response_text))[-4:]

    run = tg.GRPO(reward=length, loss=nothing, advantage=ones, operator=longest, **SMALL).train()
    last = run.steps()[-1]
    assert last["actor/grad_norm"] == 0
    assert last["actor/sequences"] == 4
    assert last["experience_pipeline/experience_count"] == 4


def wrong(completion: str) -> float:
    raise KeyError("nothing")


def no_column(anwser: str) -> float:
    return 0


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=lambda e: type(e).__name__)
def test_async_functions_end_the_run(error: BaseException) -> None:
    async def leaves(completion: str) -> float:
        raise error

    with pytest.raises(tg.RunError, match="leaves: " + type(error).__name__) as failed:
        tg.GRPO(reward=leaves, **SMALL).train()
    assert failed.value.__cause__ is error


class Sized(Maze):
    def __init__(self, size: int) -> None: ...


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"tools": "wether"}, r"run.yaml:\d+:\d+: .*wether: want package.module.wether"),
        ({"tools": ["json.lods"]}, r"run.yaml:\d+:\d+: .*json has no lods: did you mean loads"),
        ({"environment": Sized}, r"run.yaml:\d+:\d+: .*environment .*Sized is made without arguments: missing .*size"),
    ],
    ids=str,
)
def test_tools_and_environments_are_checked(given: dict[str, Any], says: str) -> None:
    with pytest.raises(tg.RunError, match=says):
        tg.GRPO(reward=length, **given, **SMALL).train()


@pytest.mark.parametrize(
    ("reward", "says", "cause"),
    [
        (wrong, r"wrong: KeyError: 'nothing'; test_front.py:\d+ in wrong", KeyError),
        (no_column, r"train.jsonl:1: .*no_column takes anwser, which is no column \(answer, question\)", None),
        ("nothing_reward", r"run.yaml:\d+:\d+: .*unknown reward function \"nothing_reward\"", None),
        (lambda a, /: 0, r"run.yaml:\d+:\d+: .*takes a parameter by its place alone", None),
    ],
)
def test_failures(reward: Any, says: str, cause: type[BaseException] | None) -> None:
    with pytest.raises(tg.RunError, match=says) as failed:
        tg.GRPO(reward=reward, **SMALL).train()
    assert "\n" not in str(failed.value)
    assert isinstance(failed.value.__cause__, cause) if cause else failed.value.__cause__ is None


def test_an_exception_may_be_an_invalid_reward(capsys: pytest.CaptureFixture[str]) -> None:
    count = [0]

    def seldom(completion: str) -> float:
        count[0] += 1
        if count[0] % 8 == 0:
            raise OSError("gone")
        return float(count[0])

    run = tg.GRPO(reward=seldom, on_error="invalid", **SMALL).train()
    assert count[0] == 32
    failures = run.failures if isinstance(run.failures, list) else run.failures.to_dict("records")
    assert len(failures) == 4
    assert failures[0]["reason"].endswith("OSError: gone; test_front.py:" + failures[0]["reason"].rpartition(":")[2])
    assert capsys.readouterr().err.count("OSError: gone\n") == 1


@pytest.mark.parametrize(
    ("more", "error", "says"),
    [
        ({"lrr": 1}, TypeError, "lrr is no argument and no key of a configuration"),
        ({"total_steps": 1}, TypeError, "total_steps may be buffer.total_steps or trainer.total_steps: set it with config="),
        ({"reward": 3}, TypeError, "reward is an int: want a function, or the name of one"),
        ({"reward": tg.tool(lambda a: a)}, TypeError, "<lambda> is marked as @tg.tool, and given as reward"),
        ({"workflow": length, "tools": [length]}, TypeError, "workflow makes the rollout itself"),
        ({"reward": None}, TypeError, "grpo learns from rewards: give reward, workflow, tools or environment"),
        ({"dataset": []}, ValueError, "the dataset has no rows"),
        ({"dataset": [{"a": object()}]}, TypeError, "row 0 of the dataset, column a: a builtins.object is no number"),
        ({"dataset": [{"a": 1}, {"a": "x\ud800"}]}, TypeError, r"row 1 of the dataset, column a: it has \ud800, half of a character"),
        ({"dataset": {"a": [1]}}, TypeError, "the dataset is a dict: want a path, a hub name, or rows as dicts"),
        ({"on_error": "ignore"}, ValueError, "on_error is 'ignore': want 'stop' or 'invalid'"),
        ({"bach_size": 3}, TypeError, "bach_size is no argument and no key of a configuration (did you mean batch_size?)"),
        ({"reward": None, "rewrd": length}, TypeError, "rewrd is no argument and no key of a configuration (did you mean reward?)"),
        ({"rewards": 3}, TypeError, "rewards is no argument and no key of a configuration (did you mean reward?)"),
        ({"dataset": [{"a": 1}, {"a": 1, "b": math.nan}]}, TypeError, "row 1 of the dataset, column b: nan is no value: want"),
        ({"kl_loss_fn": tg.loss(lambda logprob: logprob)}, TypeError, "<lambda> is marked as @tg.loss, and given as kl"),
        ({"workflow_args": {"f": length}}, TypeError, "workflow_args.f is the function length"),
        ({"config": {"a": {"b": math.nan}}}, TypeError, "a.b: Out of range float"),
        ({"config": "x.yaml"}, TypeError, "config is a str: want a dict. tg.Run takes the path"),
        ({"model": None}, TypeError, "model is None: want a directory, a GGUF file, or a hub name"),
        ({"tools": [length, tg.tool(lambda a: a), tg.tool(lambda b: b)]}, TypeError, "two tools have the name <lambda>"),
        ({"environment": Maze()}, TypeError, "environment is an instance of Maze: give the class"),
    ],
)  # fmt: skip
def test_mistakes(more: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=re.escape(says)):
        tg.GRPO(**{"reward": length, **SMALL, **more})


class Distance:
    """A KL of this process, with its own weight for each token."""

    def __init__(self, weight: float) -> None:
        self.weight, self.asked = weight, 0

    def calculate_kl(self, logprob: Any, ref_logprob: Any) -> Any:
        self.asked += 1
        values = [
            [self.weight * (a - b) for a, b in zip(*rows, strict=True)]
            for rows in zip(logprob, ref_logprob, strict=True)
        ]
        return values, [[self.weight] * len(row) for row in logprob]


class InTurn:
    def __init__(self, data_source: Any, config: Any) -> None:
        self.length, self.drawn = data_source.dataset_size, 0
        chosen.clear()

    def get_indices(self, batch_size: int) -> list[int]:
        self.drawn += batch_size
        chosen.append(self.drawn)
        return [i % self.length for i in range(self.drawn - batch_size, self.drawn)]

    def state_dict(self) -> dict[str, int]:
        return {"drawn": self.drawn}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.drawn = state["drawn"]


chosen: list[int] = []


def test_parts_of_this_process() -> None:
    asked = []

    def bonus(entropy: Any, action_mask: Any) -> Any:
        asked.append(len(entropy))
        return 0

    more: dict[str, Any] = {
        **SMALL, "kl_loss_fn": (loss := Distance(0.5)), "kl_penalty_fn": (penalty := Distance(2.0)), "entropy_loss_fn": bonus,
        "advantage_fn": "reinforceplusplus",
        "config": {
            "model": {"init": {"style": "fan_in"}},
            "buffer": {"explorer_input": {"taskset": {"data_selector": {"selector_type": InTurn}}}},
        },
    }  # fmt: skip
    run = tg.GRPO(reward=length, name="parts", **more).train()
    assert asked == [16, 16]
    assert (loss.asked, penalty.asked, chosen) == (2, 2, [4, 8])
    assert len(run.steps()) == 2


def test_a_dataset_has_no_reward() -> None:
    for kind in (tg.DPO, tg.SFT):
        with pytest.raises(TypeError, match="trains on the dataset itself: leave reward, workflow, tools and"):
            kind(MODEL, ROWS, reward=length)


class Unsaid(Exception):
    def __str__(self) -> str:
        raise RuntimeError("nothing to say")


def test_exceptions_of_functions_are_causes() -> None:
    def unsaid(completion: str) -> float:
        raise Unsaid

    with pytest.raises(
        tg.RunError, match=r"unsaid: Unsaid \(and RuntimeError when it was told\); test_front.py"
    ) as failed:
        tg.GRPO(reward=unsaid, **SMALL).train()
    assert isinstance(failed.value.__cause__, Unsaid)
    with pytest.raises(tg.RunError) as failed:
        tg.GRPO(reward=wrong, on_error="invalid", **SMALL).train()
    assert isinstance(failed.value.__cause__, KeyError)


def configuration(tmp_path: Path, reward: str = "caller:rw") -> dict[str, Any]:
    return {
        "model": {"model_path": str(MODEL), "init": {"style": "fan_in"}, "max_prompt_tokens": 32, "max_response_tokens": 8},
        "algorithm": {"algorithm_type": "grpo", "repeat_times": 2},
        "buffer": {"total_steps": 1, "batch_size": 2, "explorer_input": {"taskset": {
            "path": _config.dataset(ROWS, tmp_path, "rows"), "format": {"prompt_key": "question", "response_key": "answer"},
            "default_workflow_type": "simple_workflow", "default_reward_fn_type": reward,
        }}},
    }  # fmt: skip


def test_a_file_is_evaluated_as_it_trains(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(_config.yaml(configuration(tmp_path)))
    scored = tg.Run("r.yaml", rw=length).train().eval(ROWS[:3], n=2)
    scored = scored if isinstance(scored, list) else scored.to_dict("records")
    assert [row["truth"] for row in scored] == ["0", "0", "1", "1", "2", "2"]


@pytest.mark.parametrize("of", ["dict", "file"])
def test_functions_are_those_of_the_configuration(of: str, tmp_path: Path) -> None:
    config: Any = configuration(tmp_path)
    if of == "file":
        (tmp_path / "r.yaml").write_text("# not caller:this\n" + _config.yaml(config))
        config = tmp_path / "r.yaml"
    tg.Run(config, rw=length)
    for more, error, says in (
        ({"lr": 0.5}, TypeError, "lr is a float: want a function, which the configuration names caller:lr; keys of"),
        (
            {"nme": "x"},
            TypeError,
            "nme is a str: want a function, which the configuration names caller:nme (did you mean name?)",
        ),
        ({"wr": wrong}, ValueError, "the configuration names caller:rw, and the functions given are: rw, wr"),
    ):
        with pytest.raises(error, match=re.escape(says)):
            tg.Run(config, rw=length, **more)
    with pytest.raises(ValueError, match="the configuration names caller:rw, and the functions given are: none"):
        tg.Run(config)


def test_a_refused_run_leaves_the_good_one(tmp_path: Path) -> None:
    run = tg.GRPO(reward=length, name="good", **SMALL).train()
    folder = run.folders[0]

    def files() -> dict[str, str]:
        own = [folder / "run.yaml", *(folder / "data").iterdir()]
        return {str(file): file.read_text() for file in own}

    before = files()
    other = {**SMALL, "dataset": [{"question": "a", "answer": "b"}]}
    with pytest.raises(TypeError):
        tg.GRPO(reward=length, name="good", lrr=1, **other)
    tg.GRPO(reward=length, name="good", **other)
    assert files() == before
    with pytest.raises(tg.RunError, match=r"refused.yaml:\d+:\d+: .*nothing_reward"):
        tg.GRPO(reward="nothing_reward", name="good", **other).train()
    assert files() == before
    assert "nothing_reward" in (folder / "refused.yaml").read_text()
    again = tg.GRPO(reward=length, name="good", **{**SMALL, "steps": 3}).train()
    assert again.model_path.endswith("global_step_3/actor/huggingface")
    assert not list(folder.rglob("*.before"))
    assert not list(folder.rglob("*.part"))
    fresh = [tg.GRPO(reward=length, **SMALL).name for _ in range(3)]
    assert len(set(fresh)) == 3
    assert not (folder.parent / fresh[0]).exists()


def test_a_name_trains_once() -> None:
    refused = []

    def again(completion: str) -> float:
        if not refused:
            with pytest.raises(
                tg.RunError, match="another run of this process, which trains now, has the name 'one'"
            ) as said:
                tg.GRPO(reward=length, name="one", **SMALL).train()
            refused.append(said)
        return 1

    tg.GRPO(reward=again, name="one", **SMALL).train()
    assert refused


def test_texts_have_ends_of_lines() -> None:
    rows = [{"question": "a\x85b\u2028c\x1cd\r", "answer": "1"}] * 4
    run = tg.GRPO(reward=length, **{**SMALL, "dataset": rows, "steps": 1}).train()
    answers = run.rollouts
    assert len(answers if isinstance(answers, list) else answers.to_dict("records")) == 16
    assert len(run.eval(rows)) == 4


def test_a_class_that_cannot_be_made_is_told_briefly(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Its error is not raised again and again: that would have more frames each time."""

    class Needs:
        def __init__(self) -> None:
            raise ValueError("no key")

        def __call__(self, completion: str) -> float:
            return 1.0

    run = tg.GRPO(reward=Needs, on_error="invalid", **{**SMALL, "steps": 1})
    with pytest.raises(tg.RunError):
        run.train()
    assert capfd.readouterr().err.count("raise ValueError") == 1
    fails = classes.Kept()
    for _ in range(20):
        with pytest.raises((ValueError, classes.Told), match="no key") as raised:
            fails.get(_make_needs, "needs", {})
    assert len(raised.traceback) < 5
    assert fails.all() == []


def _make_needs(name: str, args: Any) -> Any:
    raise ValueError("no key")


def test_names_may_have_spaces() -> None:
    run = tg.GRPO(reward=length, name="my run: 1", **SMALL)
    assert "<td>not finished</td>" in run._repr_html_()
    run.train()
    assert [folder.name for folder in run.folders] == ["my run: 1"]
    assert "rollout/reward/mean" in repr(run)
    Path("r.yaml").write_text(_config.yaml(configuration(Path())))
    other = tg.Run("r.yaml", name="other run", rw=length)
    assert other._repr_html_().startswith("<table>")
    assert other.train().folders[0].name == "other run"
    assert len(other.steps()) > 0


def test_chats_are_sent_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []

    def program(args: list[str], **options: Any) -> Any:
        sent.append(json.loads(options["input"])["messages"])
        return SimpleNamespace(returncode=0, stdout=json.dumps({"text": "a\n\n"}))

    run = tg.GRPO(reward=length, **SMALL)
    monkeypatch.setattr(type(run), "model_path", "m")
    with monkeypatch.context() as patch:
        patch.setattr(_results, "subprocess", SimpleNamespace(run=program))
        chat = [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": ""},
        ]
        for text in ("a\n  b\n", "/help", "", chat):
            assert run.chat(text, system="s") == "a\n\n"
            own = [{"role": "user", "content": text}] if isinstance(text, str) else text
            assert sent[-1] == [{"role": "system", "content": "s"}, *own]
        for wrong_text in ([], ["a"], 3):
            with pytest.raises(TypeError, match="want a question, or a list of messages with role and content"):
                run.chat(wrong_text)  # type: ignore[arg-type]


def test_classes_are_those_of_the_program() -> None:
    offline = {name for name in _config.algorithms().values() if _config.reads_a_dataset(name)}
    assert offline == {"bradley_terry", "cpt", "dpo", "kto", "sft"}
    assert tg.DrGRPO.algorithm == tg.DR_GRPO.algorithm == "dr_grpo"
    assert tg.DPO.__doc__.startswith("Direct preference optimization")
    assert {"GRPO", "DAPO", "RLOO", "SFT", "DPO", "Run", "RunError"} <= set(dir(tg))
    with pytest.raises(AttributeError, match="trinity_go has no Nothing"):
        _ = tg.Nothing


def test_tables_are_datasets(tmp_path: Path) -> None:
    arrow = SimpleNamespace(to_pylist=lambda: ROWS)
    polars = SimpleNamespace(to_dicts=lambda: ROWS, to_dict=None, columns=["question", "answer"])
    expected = [json.dumps(row) for row in ROWS]
    assert Path(_config.dataset(arrow, tmp_path, "arrow")).read_text().splitlines() == expected
    assert Path(_config.dataset(polars, tmp_path, "polars")).read_text().splitlines() == expected
    assert Path(_config.dataset(iter(ROWS), tmp_path, "iterator")).read_text().splitlines() == expected
    assert _config.dataset("openai/gsm8k", tmp_path, "hub") == "openai/gsm8k"
    assert _config.dataset(tmp_path / "arrow.jsonl", tmp_path, "path") == str(tmp_path / "arrow.jsonl")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([{"a": 1, "t": pandas.Timestamp("2026-01-02")}, {"a": None, "t": pandas.NaT}])
    text = Path(_config.dataset(frame, tmp_path, "frame")).read_text()
    assert text == '{"a": 1.0, "t": "2026-01-02T00:00:00"}\n{"a": null, "t": null}\n'


def test_configurations_are_yaml() -> None:
    text = _config.yaml({"a": {"b": [1, {"c": "x: y"}]}, "l": [{"k": 1, "m": {"n": None}}, {"k": True}], "odd key": {}})
    assert _config.text("a\x85\u2028") == r'"a\u0085\u2028"'  # ends of lines for YAML
    assert text == ('a:\n  b: [1, {"c": "x: y"}]\nl:\n  - k: 1\n    m:\n      n: null\n  - k: true\n"odd key": {}\n')


def test_asynchronous_training_can_be_stopped() -> None:
    async def main() -> tg.Run:
        run = tg.GRPO(reward=length, name="long", **{**SMALL, "steps": 100_000})
        training = asyncio.create_task(run.train_async())
        while not run.curve()[1]:
            await asyncio.sleep(0.05)
        training.cancel()
        with pytest.raises(asyncio.CancelledError):
            await training
        return run

    run = asyncio.run(asyncio.wait_for(main(), 120))
    assert run.interrupted
    assert Path(run.model_path).is_dir()


def test_a_stop_before_the_program_runs_is_kept() -> None:
    run = tg.GRPO(reward=length, **{**SMALL, "steps": 300})
    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(asyncio.wait_for(run.train_async(), 0.0001))
    assert run.interrupted
    again = tg.GRPO(reward=length, name=run.name, **SMALL)
    again.stop()
    assert again.train().interrupted
    assert not again.train().interrupted

    async def stopped() -> tg.Run:
        training = asyncio.create_task(again.train_async())
        again.stop()
        return await training

    again._config["buffer"]["total_steps"] = 300
    assert asyncio.run(asyncio.wait_for(stopped(), 60)).interrupted


def test_an_error_of_an_evaluation_stops_no_training() -> None:
    def fails(completion: str) -> float:
        return 1 / over[0]

    over = [1]
    run = tg.GRPO(reward=fails, name="evaluated", **SMALL).train()
    over[0] = 0
    with contextlib.suppress(RuntimeError):
        run.eval(ROWS[:1])
    over[0] = 1
    run._config["buffer"]["total_steps"] = 3
    assert not run.train().interrupted


def test_keys_of_the_section_python(tmp_path: Path) -> None:
    run = tg.GRPO(reward=length, concurrency=3, plugin_dirs=[str(tmp_path)], **SMALL)
    assert run._config["python"] == {
        "path": [os.path.abspath(sys.path[0])], "concurrency": 3, "plugin_dirs": [str(tmp_path)],
    }  # fmt: skip


def test_a_run_of_a_dict_finds_the_modules_of_its_script() -> None:
    assert tg.Run({})._config["python"] == {"path": [os.path.abspath(sys.path[0])]}
    assert tg.Run({"python": {"path": ["mine"]}})._config["python"] == {"path": ["mine"]}


class Counted:
    """An operator that counts what became of its instances."""

    made: ClassVar[list[Counted]] = []

    def __init__(self) -> None:
        self.steps, self.closed = 0, 0
        self.made.append(self)

    def process(self, exps: Any) -> Any:
        assert not self.closed
        self.steps += 1
        return exps, {}

    def close(self) -> None:
        self.closed += 1


def test_runs_of_a_process_share_nothing() -> None:
    """Two runs have functions of one name, and instances of one class. The first to end leaves the other's alone."""
    Counted.made.clear()
    both = threading.Barrier(2, timeout=60)
    met: set[int] = set()

    def reward(number: int) -> Any:
        def meet(completion: str) -> float:
            if number not in met:
                met.add(number)
                both.wait()
            return float(number)

        return meet

    short = tg.GRPO(reward=reward(1), operator=Counted, **SMALL)
    long = tg.GRPO(reward=reward(2), operator=Counted, **{**SMALL, "steps": 20})

    async def main() -> None:
        await asyncio.gather(short.train_async(), long.train_async())

    asyncio.run(asyncio.wait_for(main(), 120))
    for run, number in ((short, 1), (long, 2)):
        assert {row["rollout/reward/mean"] for row in run.steps() if "rollout/reward/mean" in row} == {number}
    assert sorted((c.steps, c.closed) for c in Counted.made if c.steps) == [(2, 1), (20, 1)]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no signals to send to a process")
def test_a_signal_reaches_a_loop_that_waits() -> None:
    """As ipykernel does, a handler cancels the task. Nothing else wakes the loop."""

    async def main() -> tg.Run:
        run = tg.GRPO(reward=length, **{**SMALL, "steps": 100_000})
        training = asyncio.create_task(run.train_async())
        before = signal.signal(signal.SIGINT, lambda *_: training.cancel())

        def interrupt() -> None:
            end = time.monotonic() + 60
            while not run.curve()[1] and time.monotonic() < end:
                time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt).start()
        try:
            with pytest.raises(asyncio.CancelledError):
                await training
        finally:
            signal.signal(signal.SIGINT, before)
        return run

    assert asyncio.run(asyncio.wait_for(main(), 100)).interrupted


@pytest.mark.skipif(os.name == "nt", reason="Windows has no signals to send to a process")
def test_interrupts(tmp_path: Path) -> None:
    """Ctrl-C stops the run with a checkpoint, and the script goes on. The end of the script stops the run, too."""
    small = {**SMALL, "model": str(MODEL), "steps": 100_000}
    (tmp_path / "script.py").write_text(
        textwrap.dedent(f"""
        import signal, sys
        import trinity_go as tg

        signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background ignore it

        def length(completion):
            return len(completion)

        if __name__ == "__main__":
            run = tg.GRPO(reward=length, name=sys.argv[1], **{small!r}).train()
            print("went on", run.interrupted, run.model_path)
        """)
    )
    for number, name in ((signal.SIGINT, "interrupted"), (signal.SIGKILL, "killed")):
        child = subprocess.Popen([sys.executable, "script.py", name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env={**os.environ, "PYTHONPATH": str(Path(tg.__file__).parents[1])})  # fmt: skip
        assert child.stderr is not None
        for line in child.stderr:
            if re.search(r"step [34]/|[34]/100000", line):
                break
        child.send_signal(number)
        out, err = child.communicate(timeout=120)
        if number == signal.SIGINT:
            assert out.startswith("went on True "), err
        newest = Path(f"checkpoints/trinity/{name}/latest_checkpointed_iteration.txt")
        end = time.monotonic() + 120  # nobody waits for a run whose script was killed
        while not newest.exists() and time.monotonic() < end:
            time.sleep(0.05)
        assert newest.exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no signals to send to a process")
def test_a_studio_ends_with_its_process(tmp_path: Path) -> None:
    tg.GRPO(reward=length, name="shown", **{**SMALL, "steps": 1}).train()
    script = "import os, sys, trinity_go as tg; print(tg.Run({'name': 'shown'}).studio(), flush=True); os.kill(os.getpid(), 9)"
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=False, timeout=100,
                          env={**os.environ, "PYTHONPATH": str(Path(tg.__file__).parents[1])})  # fmt: skip
    found = re.search(r"//([\d.]+|localhost):(\d+)", done.stdout)
    assert found, done.stdout
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with socket.socket() as to:
            if to.connect_ex((found[1], int(found[2]))):
                return
        time.sleep(0.05)
    pytest.fail("the studio is still there")


def test_only_the_run_connects() -> None:
    failed: list[str] = []
    with _caller.Caller(worker.HANDLERS, True, lambda error, line: failed.append(line)) as caller:
        host, port = caller.address.split(":")

        def ask(token: str) -> bytes:
            with socket.create_connection((host, int(port)), timeout=30) as connection:
                connection.sendall(token.encode() + b'\n{"id": 1, "do": "nothing"}\n')
                connection.shutdown(socket.SHUT_WR)
                try:
                    return connection.makefile("rb").read()
                except ConnectionError:
                    return b""

        assert ask("wrong") == ask("x" * 1000) == b""
        assert b"does not know how to nothing" in ask(caller.token)
        with pytest.raises(OSError, match=r".*"):
            ask(caller.token)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no signals to send to a process")
def test_a_run_is_killed() -> None:
    def kill(completion: str) -> float:
        assert run._child is not None
        run._child.kill()
        return 0

    run = tg.GRPO(reward=kill, **SMALL)
    with pytest.raises(tg.RunError, match="the run was killed by SIGKILL"):
        run.train()


def test_a_worker_starts_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "is_worker", True)
    with pytest.raises(tg.RunError, match="put that under if __name__"):
        tg.GRPO(reward=length, **SMALL).train()
