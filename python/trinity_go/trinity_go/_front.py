"""Runs from Python: a configuration is made of arguments, and the program trains in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import json
import os
import queue
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from . import _config, _marks, _results, tools, worker
from ._binary import binary
from ._caller import Caller, Functions
from .wire import Told, type_of

_STEP = re.compile(r"^\d\d:\d\d:\d\d +step (\d+)(?:/(\d+))? +(.*)$")
_WRITES = re.compile(r"^(.+?): mode \w+, algorithm .*; writes to (.+)$")
_NAMED = re.compile(r"caller:([A-Za-z_]\w*)(?![\w.:/\\])")  # functions that no other process finds
_INTERRUPTED = 130
# Words of the expressions of hybrid_reward.
_VARIABLES = {
    "and", "or", "not", "in", "matches", "if", "else", "let", "true", "false", "nil", "response", "response_tokens",
    "truncated", "truth",
}  # fmt: skip


# Keys of a configuration that take a function or a class of this process, and what it is for.
_PARTS = {
    "kl_loss_fn": "kl", "kl_penalty_fn": "kl", "entropy_loss_fn": "entropy", "selector_type": "selector",
    "policy_loss_fn": "loss", "advantage_fn": "advantage",
}  # fmt: skip


_lock = threading.Lock()
_names: set[Path] = set()  # folders of the runs that this process has named
_trains: set[Path] = set()  # those that it trains now


class RunError(RuntimeError):
    """A run failed. The text is its one line; `__cause__` is the first exception of a function of yours."""


class Run(_results.Results):
    """A run of a configuration, a dict or the path of a YAML file.

    Each further keyword argument is a function of this process, which the configuration calls caller:NAME. The same name
    resumes a run. An exception of a function ends the run, unless on_error is "invalid": then its rollout has no valid
    reward.
    """

    algorithm = ""  # its type, where the class has one

    def __init__(
        self,
        config: Mapping[str, Any] | str | os.PathLike[str],
        *,
        name: str | None = None,
        on_error: Literal["stop", "invalid"] = "stop",
        **functions: Any,
    ) -> None:
        if on_error not in ("stop", "invalid"):
            raise ValueError(f"on_error is {on_error!r}: want 'stop' or 'invalid'")
        super().__init__()
        self._functions, self._on_error = Functions(), on_error
        self._overrides: list[str] = []
        self._file: Path | None = None
        self._texts: dict[Path, str] = {}  # of the rows of this process, by the files that they become
        self._begun = False
        self._stops = 0  # of the training that runs, or of the next one: the child may not be there yet
        self._failure: tuple[BaseException, str] | None = None
        for given, function in functions.items():
            if not callable(function):
                raise TypeError(
                    f"{given} is {type_of(function)}: want a function, which the configuration names caller:{given}"
                    f"{_config.near(given, ('name', 'on_error')) or '; keys of a configuration stand in it'}"
                )
            self._functions.name(function, given)
        if isinstance(config, Mapping):
            _config.check(config)
            self._check_names(_config.text(config))
            self._config = dict(config)
            below = {"project": "trinity", "python": {"path": [os.path.abspath(sys.path[0] or ".")]}}
            self._config = _config.merge(below, self._config)
            self.name = str(name or self._config.get("name") or self._new())
            self._config["name"] = self.name
        else:
            self._file, self._config = Path(config), {}
            with contextlib.suppress(OSError):  # the program says that there is no such file
                self._check_names(re.sub(r"(?m)(?:^|\s)#.*$", "", self._file.read_text(encoding="utf-8")))
            self.name = name or self._file.stem
            if name:
                self._overrides.append(f"name={_config.text(name)}")

    def _check_names(self, text: str) -> None:
        """Raise ValueError unless the functions of a configuration are those that were given."""
        named, given = set(_NAMED.findall(text)), set(self._functions.given)
        if named == given:
            return
        asks = ", ".join(f"caller:{name}" for name in sorted(named)) or "no function of yours"
        got = ", ".join(sorted(given)) or "none"
        raise ValueError(f"the configuration names {asks}, and the functions given are: {got}")

    # What a run does.

    def train(self) -> Run:
        """Train until the run ends, and return it. Ctrl-C stops it with a checkpoint."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            if "ipykernel" not in sys.modules:
                raise RuntimeError("a loop of asyncio runs here: await run.train_async()")
        with self._interruptible():
            self._train()
        return self

    async def train_async(self) -> Run:
        """Train as train does, while the loop of asyncio goes on. A cancelled task stops the run with a checkpoint."""
        training = asyncio.create_task(asyncio.to_thread(self._train))
        try:
            while not training.done():  # a loop that only waits hears of no signal, so no Ctrl-C in a notebook
                await asyncio.wait([training], timeout=0.5)
            await training
        except asyncio.CancelledError:
            self.stop()
            await training
            raise
        return self

    def stop(self) -> None:
        """Stop the run as Ctrl-C does: with a checkpoint. A second call ends it at once."""
        self._stops += 1
        self._pass_on()

    def _pass_on(self) -> None:
        """Tell the child that it was stopped, and how often."""
        child = self._child
        if child is None or child.stdin is None or not self._stops:
            return
        if self._stops > 1:
            child.terminate()
        with contextlib.suppress(OSError):
            child.stdin.close()

    def eval(self, rows: Any, *, n: int = 1, temperature: float | None = None) -> Any:
        """Let the trained model answer other rows with the same columns, and return the answers with their rewards: a
        DataFrame if pandas is there, else a list of dicts."""
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            path, out = _config.dataset(rows, place, "rows"), place / "answers.jsonl"
            file, overrides = self._file, list(self._overrides)
            if file is not None:
                overrides += self._evaluated(file)
            else:
                explores = self._config.get("buffer", {}).get("explorer_input", {})
                if "taskset" not in explores:
                    raise RuntimeError("the run has no reward, which would score the answers")
                held = {key: value for key, value in explores["taskset"].items() if key != "repeat_times"}
                held |= {"name": "eval", "path": path}
                more = {
                    "checkpoint_root_dir": str(self._root()),
                    **_config.nested("buffer.explorer_input.eval_tasksets", [held]),
                }
                file = place / "eval.yaml"
                file.write_text(_config.yaml(_config.merge(self._config, more)), encoding="utf-8")
            args = ["eval", "--config", str(file), "--data", path, "--model", self.model_path, "--output", str(out)]
            at = "buffer.explorer_input.eval_tasksets.0."
            overrides.append(f"{at}repeat_times={n}")
            if temperature is not None:
                overrides.append(f"{at}rollout_args.temperature={temperature}")
            with self._answering() as caller:
                _config.ask(*args, *overrides, environment=self._environment(caller))
            return _results.table([json.loads(line) for line in _results.lines(out)])

    def _evaluated(self, file: Path) -> list[str]:
        """Return the setting of an evaluation taskset for a file that has none: its taskset."""
        said = json.loads(_config.ask("check", "--json", "--no-python", "--config", str(file), *self._overrides))[
            "config"
        ]
        for config in [stage["config"] for stage in said["stages"]] if "stages" in said else [said]:
            explores = config.get("buffer", {}).get("explorer_input", {})
            if explores.get("eval_tasksets"):
                return []
            taskset = explores.get("taskset")
        if not taskset:
            raise RuntimeError(f"{file} has no taskset, whose reward would score the answers")
        held = {key: value for key, value in taskset.items() if key not in ("repeat_times", "data_selector")}
        return [f"buffer.explorer_input.eval_tasksets={_config.text([held | {'name': 'eval'}])}"]

    def _environment(self, caller: Caller) -> dict[str, str]:
        return {"TRINITY_PYTHON": sys.executable, **os.environ, **caller.environment()}

    def _train(self) -> None:
        if worker.is_worker:
            raise RunError(
                "a worker of a run imports this file, which starts a run itself: put that under if __name__ == '__main__':"
            )
        if self._child is not None:
            raise RunError("the run has begun already")
        self._failure, self._begun = None, False
        with self._alone(), tempfile.TemporaryFile() as summary, self._answering(self.stop) as caller:
            program = binary()  # before anything is written
            args = ["run", "--config", str(self._write()), "--json", *self._overrides]
            self._child = subprocess.Popen(
                [program, *args],
                stdin=subprocess.PIPE,
                stdout=summary,
                stderr=subprocess.PIPE,
                env=self._environment(caller),
                start_new_session=True,  # Ctrl-C is for this process, which passes it on
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
            try:
                self._pass_on()
                said = self._follow(self._child)
                status = self._child.wait()
            except BaseException:
                self._child.kill()
                self._child.wait()
                raise
            finally:
                self._child = None
                refused = self._settle(self._begun)
            summary.seek(0)
            with contextlib.suppress(ValueError):
                self._stages = json.loads(summary.read()).get("stages") or self._stages
                if all(stage.get("checkpoint") for stage in self._stages):
                    self._folders = {stage["name"]: Path(stage["checkpoint"]).parent for stage in self._stages}
        self.interrupted = status == _INTERRUPTED
        error, line = self._failure or (None, "")
        if error is not None and self._on_error == "stop":
            raise RunError(line) from error
        if status and not self.interrupted:
            how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
            if refused is not None:
                said = said.replace(str(refused.with_name("run.yaml")), str(refused))
            raise RunError(said or f"the run {how}") from error
        if self.interrupted:
            print(f"name={self.name!r} resumes it", file=sys.stderr)

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Let Ctrl-C stop the run, if it would raise KeyboardInterrupt."""
        main = threading.current_thread() is threading.main_thread()
        if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        signal.signal(signal.SIGINT, lambda *_: self.stop())
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _answering(self, stop: Callable[[], None] = lambda: None) -> Caller:
        def failed(error: BaseException, line: str) -> None:
            if self._failure is None:
                self._failure = (error, line)
                if self._on_error == "stop":
                    stop()

        return Caller(worker.HANDLERS, self._on_error == "stop", failed, self._functions.given)

    def _follow(self, child: subprocess.Popen[bytes]) -> str:
        """Show what the run says until it ends. Return its error."""
        lines: queue.Queue[str | None] = queue.Queue()

        def read() -> None:
            assert child.stderr is not None
            for line in child.stderr:
                lines.put(line.decode(errors="replace").rstrip())
            lines.put(None)

        threading.Thread(target=read, daemon=True).start()
        said = ""
        with _results.Progress(self.name) as progress:
            while True:
                try:
                    line = lines.get(timeout=1)
                    if line is None:
                        return said
                except queue.Empty:
                    continue
                if line.startswith("trinity: "):
                    said = said or line.removeprefix("trinity: ")
                elif step := _STEP.match(line):
                    progress.step(int(step[1]), int(step[2] or 0), step[3], line)
                else:
                    if writes := _WRITES.match(line):
                        self._folders[writes[1]] = Path(writes[2])
                        self._begun = True
                        self._settle(True)
                    progress.say(line)

    # The configuration.

    def _new(self) -> str:
        """Return a name that no run has."""
        first = time.strftime(f"{self.algorithm or 'run'}-%Y%m%d-%H%M%S")
        project = self._root() / str(self._config["project"])
        with _lock:
            for number in itertools.count():
                folder = project / (f"{first}-{number}" if number else first)
                if folder not in _names and not folder.exists():
                    _names.add(folder)
                    break
        return folder.name

    def _root(self) -> Path:
        root = self._config.get("checkpoint_root_dir") or os.environ.get("TRINITY_CHECKPOINT_ROOT_DIR") or "checkpoints"
        return Path(os.path.abspath(root))

    def _folder(self) -> Path:
        """Return the folder of a run whose configuration is made here."""
        return self._root() / str(self._config["project"]) / self.name

    def _write(self) -> Path:
        """Return the configuration's file. One that is made here is run.yaml in the run's folder, beside the rows. What was
        there before is kept until _settle."""
        if self._file is not None:
            return self._file
        folder = self._folder()
        config = {"checkpoint_root_dir": str(self._root())} | self._config
        here = self._functions.only_here()
        head = f"# Made by trinity_go. `trinity run --config {folder / 'run.yaml'}` goes on with it"
        if here:
            head += f",\n# but {', '.join(here)}: no module has {'them' if len(here) > 1 else 'it'}, so start it from Python"
        path = folder / "run.yaml"
        for file, text in {**self._texts, path: f"{head}.\n{_config.yaml(config)}"}.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            part = file.with_name(f"{file.name}.{secrets.token_hex(4)}.part")
            part.write_text(text, encoding="utf-8")
            with contextlib.suppress(FileNotFoundError):
                os.replace(file, _before(file))
            os.replace(part, file)
        return path

    def _settle(self, begun: bool) -> Path | None:
        """Drop what the files of a run were before it. If it has not begun, they are that again: return the file in which
        the refused configuration is then."""
        if self._file is not None:
            return None
        path, refused = self._folder() / "run.yaml", None
        for file in [*self._texts, path]:
            before = _before(file)
            if begun:
                before.unlink(missing_ok=True)
            elif before.exists():
                if file == path:
                    refused = path.with_name("refused.yaml")
                    os.replace(path, refused)
                os.replace(before, file)
        return refused

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Refuse to train in a folder in which another run of this process trains."""
        folder = Path(self.name) if self._file is not None else self._folder()
        with _lock:
            if self._file is None and folder in _trains:
                raise RunError(f"another run of this process, which trains now, has the name {self.name!r}")
            _trains.add(folder)
        try:
            yield
        finally:
            self._stops = 0  # a later one is of the next training
            with _lock:
                _trains.discard(folder)


def _before(file: Path) -> Path:
    return file.with_name(file.name + ".before")


class Recipe(Run):
    """A run of one algorithm. The classes are those of the algorithms of the program: tg.GRPO, tg.DAPO, tg.SFT, tg.DPO, …

    model is a directory, a GGUF file or a hub name. dataset is a path, a hub name, a list of dicts, or a table of pandas,
    pyarrow or datasets. prompt and answer are columns, messages one of chats. reward is a function, the name of one, or a list of them, whose
    sum is the reward. workflow makes the rollouts; tools and environment are functions and a class whose methods the
    model may call. Without all these the run trains on the dataset itself, as SFT and DPO do. loss, advantage and
    operator are functions or names in place of the algorithm's. Further
    keyword arguments are keys of a configuration, such as lr, batch_size and repeat_times; the program checks them.
    config lies over what is made of all this.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        dataset: Any,
        *,
        reward: Any = None,
        workflow: Any = None,
        tools: Any = (),
        environment: Any = None,
        loss: Any = None,
        advantage: Any = None,
        operator: Any = None,
        prompt: str | None = None,
        answer: str | None = None,
        messages: str | None = None,
        steps: int | None = None,
        eval_dataset: Any = None,
        name: str | None = None,
        config: Mapping[str, Any] | None = None,
        on_error: Literal["stop", "invalid"] = "stop",
        **keys: Any,
    ) -> None:
        if not self.algorithm:
            raise TypeError("Recipe has no algorithm: use tg.GRPO, tg.SFT, …")
        if model is None:
            raise TypeError("model is None: want a directory, a GGUF file, or a hub name")
        if config is not None and not isinstance(config, Mapping):
            raise TypeError(f"config is {type_of(config)}: want a dict. tg.Run takes the path of a configuration")
        settings = [_config.nested(_config.key_of(key, _ARGUMENTS), value) for key, value in keys.items()]
        tools = [tools] if isinstance(tools, str) or callable(tools) else list(tools or ())
        top = {k: v for k, v in (config or {}).items() if not isinstance(v, Mapping)}
        super().__init__(top, name=name, on_error=on_error)
        overlay, settings = self._with_parts(config or {}), [self._with_parts(setting) for setting in settings]
        for setting in [overlay, *settings]:
            _config.check(setting)
        path = os.fspath(model)
        made: dict[str, Any] = {
            "model": {"model_path": os.path.abspath(path) if os.path.exists(path) else path},
            "algorithm": {"algorithm_type": self.algorithm},
            "buffer": {"total_steps": steps} if steps is not None else {},
        }
        columns = {"prompt_key": prompt, "response_key": answer, "messages_key": messages}
        form = {key: column for key, column in columns.items() if column is not None}
        if reward is None and workflow is None and not tools and environment is None:
            if not _config.reads_a_dataset(self.algorithm):
                raise TypeError(f"{self.algorithm} learns from rewards: give reward, workflow, tools or environment")
            form = {"prompt_type": "plaintext", **form} if prompt else form
            rows = {"path": self._dataset(dataset, "train"), "format": form}
            made = _config.merge(made, {"mode": "train", "buffer": {"trainer_input": {"experience_buffer": rows}}})
            if eval_dataset is not None:
                raise TypeError("eval_dataset needs a reward, which scores the answers")
        elif _config.reads_a_dataset(self.algorithm):
            raise TypeError(
                f"{self.algorithm} trains on the dataset itself: leave reward, workflow, tools and environment out"
            )
        else:
            scored = self._workflow(workflow, tools, environment) | ({} if reward is None else self._reward(reward))
            rows = {"path": self._dataset(dataset, "train"), "format": form} | scored
            made = _config.merge(made, {"mode": "both", "buffer": {"explorer_input": {"taskset": rows}}})
            if eval_dataset is not None:
                held = {"name": "eval", "path": self._dataset(eval_dataset, "eval"), "format": form} | scored
                made["buffer"]["explorer_input"]["eval_tasksets"] = [held]
        made = _config.merge(made, self._algorithm(loss, advantage, operator))
        for setting in settings:
            made = _config.merge(made, setting)
        lengths = {"max_prompt_tokens": 512, "max_response_tokens": 256}  # those of TRL; the program has none
        given = {**made["model"], **(overlay.get("model") or {})}
        if "max_model_len" not in given:
            made["model"] = {**lengths, **made["model"]}
        self._config = _config.merge(_config.merge(self._config, made), {**overlay, "name": self.name})

    def _dataset(self, rows: Any, name: str) -> str:
        """Return the path of a dataset. Rows of this process become a file of the run's folder when it trains."""
        if isinstance(rows, (str, os.PathLike)):
            return _config.place(rows)
        path = self._folder() / "data" / f"{name}.jsonl"
        self._texts[path] = _config.lines(rows)
        return str(path)

    def _named(self, kind: str, given: Any) -> str:
        """Return what a configuration calls a function, or the name of one."""
        if isinstance(given, str):
            return given
        _marks.check(kind, given)
        return self._functions.name(given)

    def _with_parts(self, config: Any) -> Any:
        """Return a configuration in which the functions that stand at keys of plug-ins are named."""
        if isinstance(config, (list, tuple)):
            return [self._with_parts(one) for one in config]
        if not isinstance(config, Mapping):
            return config
        named = {}
        for key, value in config.items():
            kind = _PARTS.get(key)
            is_own = callable(value) or callable(getattr(value, "calculate_kl", None))
            named[key] = self._named(kind, value) if kind and is_own else self._with_parts(value)
        return named

    def _reward(self, reward: Any) -> dict[str, Any]:
        """Return the keys of a taskset for a function, a name, or a list of them, whose sum is the reward."""
        if not isinstance(reward, (list, tuple)):
            return {"default_reward_fn_type": self._named("reward", reward)}
        if len(reward) == 1:
            return self._reward(reward[0])
        if not reward:
            raise ValueError("reward is an empty list")
        parts: dict[str, str] = {}
        for plugin in (self._named("reward", one) for one in reward):
            own = re.sub(r"\W", "_", plugin.split(":")[-1].split(".")[-1])
            if own in _VARIABLES or not own[:1].isalpha():
                own = f"reward_{own}"
            name, number = own, 1
            while name in parts:
                number += 1
                name = f"{own}_{number}"
            parts[name] = plugin
        args = {
            "rewards": [{"reward": plugin, "name": name} for name, plugin in parts.items()],
            "value": " + ".join(parts),
        }
        return {"default_reward_fn_type": "hybrid_reward", "reward_fn_args": args}

    def _workflow(self, workflow: Any, given: Sequence[Any], environment: Any) -> dict[str, Any]:
        """Return the keys of a taskset for a function that makes rollouts, or for the loop of tool calls."""
        if workflow is not None and (given or environment is not None):
            raise TypeError("workflow makes the rollout itself: give it, or tools and environment")
        if workflow is not None:
            return {"default_workflow_type": self._named("workflow", workflow)}
        if not given and environment is None:
            return {"default_workflow_type": "simple_workflow"}
        args: dict[str, Any] = {"tools": [self._named("tool", one) for one in given]}
        is_instance = not isinstance(environment, str) and not inspect.isclass(environment)
        if environment is not None and is_instance and (hasattr(environment, "reset") or not callable(environment)):
            raise TypeError(
                f"environment is an instance of {type(environment).__name__}: give the class, of which each rollout makes one"
            )
        functions = [one for one in given if not isinstance(one, str)]
        functions += tools.methods(environment) if inspect.isclass(environment) else []
        try:
            tools.by_name(functions)
        except Told as error:
            raise TypeError(str(error)) from None
        if environment is not None:
            args["environment"] = self._named("environment", environment)
        return {"default_workflow_type": f"caller:{tools.PLAY}", "workflow_args": args}

    def _algorithm(self, loss: Any, advantage: Any, operator: Any) -> dict[str, Any]:
        """Return the keys of a configuration for what makes a batch and learns from it."""
        made: dict[str, Any] = {}
        if loss is not None:
            made = _config.merge(made, {"algorithm": {"policy_loss_fn": self._named("loss", loss)}})
        if advantage is not None:
            made = _config.merge(made, {"algorithm": {"advantage_fn": self._named("advantage", advantage)}})
        if operator is not None:
            several = operator if isinstance(operator, (list, tuple)) else [operator]
            steps = [{"name": self._named("operator", one)} for one in several]
            made = _config.merge(made, _config.nested("data_processor.experience_pipeline.operators", steps))
        return made


_ARGUMENTS = tuple(p for p in inspect.signature(Recipe).parameters if p != "keys")


def recipe(name: str) -> type[Recipe] | None:
    """Return the class of an algorithm of the program; None if it has none of this name."""
    algorithm = _config.algorithm(name)
    if algorithm is None:
        return None
    doc = f"{_config.explain('algorithm', algorithm)}\n\n{Recipe.__doc__}"
    return type(name, (Recipe,), {"algorithm": algorithm, "__doc__": doc, "__module__": "trinity_go"})
