"""What a run has written, for people who look at it in Python."""

from __future__ import annotations

import atexit
import contextlib
import csv
import html
import importlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

from . import _config
from ._binary import binary

_FAILED = re.compile(r"^(\S+) (\w+): task (.*), run (\d+)(?:, [^:]*)?: (.*)$")


def _optional(name: str) -> Any:
    """Return a module that may be missing."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


@final
class Progress:
    """Shows the steps of a run: with tqdm if it is there, else with a line."""

    def __init__(self, name: str) -> None:
        tqdm = _optional("tqdm.auto")
        self._bar: Any = tqdm.tqdm(desc=name, unit="step", leave=True) if tqdm else None
        self._rewrites = self._bar is None and sys.stderr.isatty()
        self._open = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
        self._end()

    def step(self, step: int, total: int, values: str, line: str) -> None:
        if self._bar is not None:
            if total:
                self._bar.total = total
            self._bar.update(step - self._bar.n)
            shown = re.findall(r"(?:^|  )(reward|loss) (\S+)", values)
            if shown:
                self._bar.set_postfix_str("  ".join(f"{name} {value}" for name, value in shown))
        elif self._rewrites:
            print("\r\x1b[K" + line[: os.get_terminal_size(2).columns - 1], end="", file=sys.stderr, flush=True)
            self._open = True
        else:
            print(line, file=sys.stderr, flush=True)

    def say(self, line: str) -> None:
        if self._bar is not None:
            self._bar.write(line, file=sys.stderr)
            return
        self._end()
        print(line, file=sys.stderr, flush=True)

    def _end(self) -> None:
        if self._open:
            print(file=sys.stderr)
        self._open = False


class Results:
    """The results of a run, also while it trains and after it has failed."""

    name: str
    interrupted = False  # Ctrl-C has stopped it; the same name resumes it

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._stages: list[dict[str, Any]] = []
        self._folders: dict[str, Path] = {}
        self._metrics: tuple[tuple[float, ...], list[dict[str, Any]]] = ((), [])

    def _folder(self) -> Path:
        raise NotImplementedError

    @property
    def folders(self) -> list[Path]:
        """The folders of the run, one for each stage."""
        if self._folders:
            return list(self._folders.values())
        try:
            return [self._folder()]
        except KeyError:
            raise RuntimeError("the run has not begun, so it has no folder") from None

    @property
    def metrics(self) -> Any:
        """The metrics by step: a DataFrame if pandas is there, else a list of dicts."""
        return table(self.steps(), "step")

    @property
    def rollouts(self) -> Any:
        """The answers of the policy with their rewards, oldest first: a DataFrame, or a list of dicts."""
        return table(list(self._answers()))

    @property
    def failures(self) -> Any:
        """The rollouts that failed or have no valid reward: time, kind, task, run, reason."""
        failed = []
        for folder in self.folders:
            for line in lines(folder / "log" / "failed_rollouts.log"):
                found = _FAILED.match(line)
                names = ("time", "kind", "task", "run", "reason")
                failed.append(dict(zip(names, found.groups())) if found else {"reason": line})
        return table(failed)

    @property
    def model_path(self) -> str:
        """The trained model, a Hugging Face directory: of the end, or of the newest checkpoint."""
        for stage in reversed(self._stages):
            if stage.get("model"):
                return str(stage["model"])
        for folder in reversed(self.folders):
            for step in lines(folder / "latest_checkpointed_iteration.txt"):
                model = folder / f"global_step_{step.strip()}" / "actor" / "huggingface"
                if model.is_dir():
                    return str(model)
        raise RuntimeError(f"the run {self.name} has no checkpoint yet")

    def chat(
        self,
        text: str | Sequence[Mapping[str, Any]],
        *,
        system: str | None = None,
        temperature: float = 0,
        max_tokens: int | None = None,
    ) -> str:
        """Return the model's reply to a question, or to a chat: [{"role": "user", "content": …}, …]."""
        messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system is not None else []
        if isinstance(text, str):
            messages.append({"role": "user", "content": text})
        elif isinstance(text, Sequence) and text and all(isinstance(m, Mapping) and "role" in m for m in text):
            messages += [dict(m) for m in text if not isinstance(m, str)]
        else:
            raise TypeError(f"chat got {text!r:.80}: want a question, or a list of messages with role and content")
        args = ["generate", "--model", self.model_path, "--temperature", str(temperature), "--input", "-", "--json"]
        if max_tokens is not None:
            args += ["--max-tokens", str(max_tokens)]
        line = _config.text({"messages": messages}) + "\n"
        done = subprocess.run([binary(), *args], input=line, capture_output=True, encoding="utf-8", check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip().removeprefix("trinity: "))
        return str(json.loads(done.stdout)["text"])

    def studio(self) -> str:
        """Show the run in the studio, and return the page's address. The server ends with this process."""
        child = subprocess.Popen(
            [binary(), "studio", "--dir", str(self.folders[0].parent), "--port", "0", "--read-only"],
            stdin=subprocess.PIPE,  # its end, also by a signal, ends the server; the variable says so, and nobody is asked
            env={**os.environ, "TRINITY_CALLER": "127.0.0.1:0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )
        atexit.register(child.kill)
        assert child.stdout is not None
        said = child.stdout.readline()
        found = re.search(r"https?://\S+", said)
        if not found:
            child.kill()
            raise RuntimeError(said.strip() or "the studio did not start")
        return found[0]

    def steps(self) -> list[dict[str, Any]]:
        """Return the metrics of each step, which are read again if their files have changed."""
        files = [folder / "monitor" / "metrics.jsonl" for folder in self.folders]
        stamp = tuple(float(p.stat().st_mtime_ns) for p in files if p.exists())
        if not stamp:
            return []
        if stamp != self._metrics[0]:
            folders = [str(f.parents[1]) for f in files if f.exists()]
            rows = csv.DictReader(io.StringIO(_config.ask("export", "--csv", *folders)))
            steps = [{k: _number(v) for k, v in row.items() if v != ""} for row in rows]
            if len(folders) == 1:
                for row in steps:
                    row.pop("run", None)
            self._metrics = (stamp, steps)
        return self._metrics[1]

    def _answers(self) -> Iterator[dict[str, Any]]:
        for folder in self.folders:
            for path in sorted((folder / "buffer" / "explorer_output.jsonl").glob("step-*.jsonl")):
                for line in lines(path):
                    row = json.loads(line)
                    reward = row.get("reward") or {}
                    value = reward.get("value") if reward.get("valid") else None
                    parts = {k: v for k, v in (reward.get("parts") or {}).items() if k != "reward"}
                    texts = {k: row.get(k) for k in ("prompt", "response", "truth")}
                    yield {**row["id"], **texts, "reward": value, **parts}

    def curve(self) -> tuple[str, list[tuple[int, float]]]:
        """Return the metric that says most about the run, and its values by step."""
        for name in ("rollout/reward/mean", "actor/final_loss", "actor/loss", "actor/pg_loss"):
            points = [(row["step"], row[name]) for row in self.steps() if isinstance(row.get(name), (int, float))]
            if points:
                return name, points
        return "", []

    def __repr__(self) -> str:
        name, points = self.curve() if self._folders else ("", [])
        said = f", {name} {points[0][1]:.3g} to {points[-1][1]:.3g} in {points[-1][0]} steps" if points else ""
        return f"<{type(self).__name__} {self.name}{said}>"

    def _repr_html_(self) -> str:
        name, points = self.curve() if self._folders else ("", [])
        rows = [("run", self.name), ("state", self._state())]
        with contextlib.suppress(RuntimeError):  # it has not begun
            rows.append(("folder", str(self.folders[0])))
        if points:
            rows += [("steps", str(points[-1][0])), (name, f"{points[0][1]:.4g} → {points[-1][1]:.4g}")]
        cells = "".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in rows)
        return f"<table>{cells}</table>{_svg(name, points)}"

    def _state(self) -> str:
        if self._child is not None:
            return "trains"
        if self.interrupted:
            return "interrupted: the same name resumes it"
        return "finished" if self._stages else "not finished"


def _svg(name: str, points: Sequence[tuple[float, float]]) -> str:
    """Return a curve as an image of its own."""
    if len(points) < 2:
        return ""
    width, height, left, low = 480, 160, 56, 20
    steps, values = [p[0] for p in points], [p[1] for p in points]
    first, last, least, most = min(steps), max(steps), min(values), max(values)
    across, up = (width - left - 8) / ((last - first) or 1), (height - low - 8) / ((most - least) or 1)
    line = " ".join(f"{left + (s - first) * across:.1f},{height - low - (v - least) * up:.1f}" for s, v in points)
    label = 'font-size="11" fill="currentColor" font-family="sans-serif"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img">'
        f"<title>{html.escape(name)} by step</title>"
        f'<polyline points="{line}" fill="none" stroke="#3b82f6" stroke-width="1.5"/>'
        f'<text x="{left - 4}" y="14" text-anchor="end" {label}>{most:.3g}</text>'
        f'<text x="{left - 4}" y="{height - low}" text-anchor="end" {label}>{least:.3g}</text>'
        f'<text x="{left}" y="{height - 4}" {label}>{first}</text>'
        f'<text x="{width - 8}" y="{height - 4}" text-anchor="end" {label}>step {last}</text></svg>'
    )


def table(rows: list[dict[str, Any]], index: str = "") -> Any:
    pandas = _optional("pandas")
    if pandas is None:
        return rows
    frame = pandas.DataFrame(rows)
    return frame.set_index(index) if index and index in frame else frame


def lines(path: Path) -> list[str]:
    """Return the lines of a file, which a line feed alone ends: texts of models have others of Unicode in them."""
    try:
        return [line for line in path.read_bytes().decode().split("\n") if line]
    except FileNotFoundError:
        return []


def _number(text: Any) -> Any:
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text
