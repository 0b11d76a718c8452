"""Lines of JSON with numbers: a question a line in, an answer a line out, in any order.

A question is {"id": 7, "do": "reward", …}. Its answer is {"id": 7, …}, or {"id": 7, "error": {"kind": "timeout", "reason": "…"}}.
{"cancel": 7} gives a question up, which is answered, too. Numbers by the token travel as base64 of little-endian values.
"""

from __future__ import annotations

import array
import asyncio
import base64
import concurrent.futures
import contextvars
import functools
import inspect
import json
import math
import os
import queue
import re
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, BinaryIO

Question = dict[str, Any]
Handler = Callable[[Question], Any]


# Packages that code of users asks models with: their lines and their log say nothing of it.
CLIENTS = ("anyio", "anthropic", "httpcore", "httpx", "httpx2", "openai")


class Told(Exception):
    """An error whose text says all that people need. key is that of the argument which is wrong, kind that of the failure."""

    def __init__(self, reason: str, key: str = "", kind: str = "") -> None:
        super().__init__(reason)
        self.key, self.kind = key, kind


# The kinds of failures that a run counts.
KINDS = ("timeout", "model", "environment", "tool", "agent", "reward", "workflow")


def kind_of(error: BaseException) -> str:
    """Return the kind of failure that an exception is; "" leaves it to the one who asked."""
    if isinstance(error, Told):
        return error.kind
    if (kind := getattr(error, "failure_kind", None)) in KINDS:
        return str(kind)
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
        return "timeout"
    if isinstance(error, OSError):  # ConnectionError, too
        return "environment"
    if _package(error) in CLIENTS:  # whose classes are none of Python's own
        names = {base.__name__ for base in type(error).__mro__}
        if names & {"APITimeoutError", "TimeoutException"}:
            return "timeout"
        if names & {"APIConnectionError", "TransportError"}:
            return "environment"
    return ""


def _package(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


def is_of_client(error: BaseException) -> bool:
    """Report whether a client of models has raised an exception."""
    return _package(error) in CLIENTS


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """Return an exception and those that it was raised because of, or while they were handled."""
    seen = list[BaseException]()
    at: BaseException | None = error
    while at is not None and at not in seen:
        seen.append(at)
        yield at
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)


def _at(frame: FrameType, line: int) -> str:
    return f"{os.path.basename(frame.f_code.co_filename)}:{line} in {frame.f_code.co_name}"


def place_of(error: BaseException) -> str:
    """Return where an exception was raised, or a task stood when it was cancelled: the innermost line of users."""
    return _innermost(list(traceback.walk_tb(error.__traceback__)))


def files_of(error: BaseException) -> list[str]:
    """Return the files of users whose code an exception has passed."""
    frames = [f for f, _ in traceback.walk_tb(error.__traceback__) if not _is_library(f)]
    return [f.f_code.co_filename for f in frames]


def _innermost(frames: Sequence[tuple[FrameType, int]]) -> str:
    """Return the innermost line outside of Python's own library, of this package and, if there is any such line, of
    installed ones."""
    own = [(f, line) for f, line in frames if not _is_library(f)] or frames
    of_users = [(f, line) for f, line in own if "site-packages" not in f.f_code.co_filename] or own
    return _at(*of_users[-1]) if of_users else ""


def _is_library(frame: FrameType) -> bool:
    path = frame.f_code.co_filename
    if _is_below(_PACKAGE, path) or any(f"{os.sep}site-packages{os.sep}{name}{os.sep}" in path for name in CLIENTS):
        return True
    return path.startswith(("<frozen", os.path.dirname(os.__file__))) and "site-packages" not in path


def _is_below(folder: str, path: str) -> bool:
    """Report whether a file is in a folder. On Windows the worker's own files have slashes all the same."""
    return path.startswith(folder) and path[len(folder) : len(folder) + 1] in ("/", os.sep)


_PACKAGE = os.path.dirname(_is_library.__code__.co_filename)  # the worker has no __file__


def reason_of(error: BaseException) -> str:
    """Return one line: the type of an exception, what it says, and where it was raised."""
    if isinstance(error, Told):
        return str(error)
    said, place = cut(" ".join(str(error).split())), place_of(error)
    text = type(error).__name__ + (f": {said}" if said else "")
    if re.search("threaded environment|only works in main thread", said):  # of signals, which time limits are made of
        text += "; it needs the main thread: give it by its name, such as my_module.right, with python.concurrency 1"
    return f"{text}; {place}" if place else text


def cut(text: str, most: int = 500) -> str:
    """Return the beginning of a text that is longer than what people read in a line."""
    return text if len(text) <= most else text[:most] + "…"


_loading: contextvars.ContextVar[Callable[[], None] | None] = contextvars.ContextVar("loading", default=None)


def loaded() -> None:
    """Say that the question's handler has imported and made what it needs: the time for its answer begins."""
    if (say := _loading.get()) is not None:
        _loading.set(None)
        say()


def plain(value: Any) -> Any:
    """Return what JSON can say of a value of numpy, torch and the like. Called by json for what it does not know."""
    for name in ("item", "tolist"):
        convert = getattr(value, name, None)
        if callable(convert) and (name == "tolist" or getattr(value, "size", 1) in (1, ())):
            return convert()
    if isinstance(value, (set, frozenset)):
        return list(value)
    raise TypeError(f"a {type(value).__module__}.{type(value).__qualname__} is no number, text, list or dict")


def float_of(value: Any) -> float:
    """Return a number, which may be no finite one. Raises TypeError for what is none, such as a text or a list."""
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{type_of(value)} is no number")
    try:
        return float(value.detach() if hasattr(value, "detach") else value)
    except OverflowError:
        return math.inf
    except (ValueError, RuntimeError) as error:
        raise TypeError(str(error)) from None


def number_of(value: Any) -> float | None:
    """Return a finite number; None for anything else."""
    try:
        number = float_of(value)
    except TypeError:
        return None
    return number if math.isfinite(number) else None


# The names of metrics that a run measures itself.
_RESERVED = ("reward", "response_length", "prompt_length", "environment_length", "untrained_token_count")


def metric_name(name: Any) -> str:
    """Return the name that a metric or a part of a reward has in a run: time/run is time_run, and reward is m_reward."""
    key = re.sub(r"[^\w.-]", "_", str(name))
    return (key if key[:1].isalpha() and key not in _RESERVED else "m_" + key)[:64]


def parts_of(given: Mapping[str, float]) -> dict[str, float]:
    """Return parts of a reward by the names that they have in a run."""
    parts: dict[str, float] = {}
    for name, value in given.items():
        key = metric_name(name)
        parts[key] = parts.get(key, 0) + value  # two may have one name there, and the reward is the sum of all
    return parts


def a_word(word: str) -> str:
    """Return a word behind its article."""
    return ("an " if word[0] in "aeiouAEIO" else "a ") + word


def type_of(value: Any) -> str:
    """Return what people call a value: None, or its type behind an article."""
    return "None" if value is None else a_word(type(value).__name__)


def pack(values: Iterable[float], code: str = "f") -> str:
    """Return numbers as base64 of little-endian float32 (f) or int32 (i)."""
    numbers = array.array(code, values)
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()


def unpack(text: str, code: str = "f") -> array.array[Any]:
    """Return the numbers of pack."""
    numbers: array.array[Any] = array.array(code)
    numbers.frombytes(base64.b64decode(text, validate=True))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


_PATIENCE = 0.5  # seconds for a coroutine to notice that it was cancelled


class _Running:
    """A question in flight: a task of the loop, or a thread."""

    def __init__(self) -> None:
        self.task: concurrent.futures.Future[None] | None = None
        self.thread: threading.Thread | None = None

    def place(self) -> str:
        """Return the innermost line of users at which a thread stands."""
        frame = sys._current_frames().get(self.thread.ident or 0) if self.thread else None
        frames: list[tuple[FrameType, int]] = []
        while frame is not None:
            frames.insert(0, (frame, frame.f_lineno))
            frame = frame.f_back
        return _innermost(frames)


class Server:
    """Answers questions with handlers, each in a thread. A coroutine that a handler returns is a task of one loop.

    With concurrency 1 the main thread answers, because signal handlers, which some libraries set for time limits, work
    in that one alone.
    """

    def __init__(self, handlers: Mapping[str, Handler], answers: BinaryIO, concurrency: int = 64) -> None:
        self._handlers, self._answers, self._most = handlers, answers, concurrency
        self._lock, self._pid = threading.Lock(), os.getpid()
        self._open: dict[int, _Running] = {}
        self._abandoned = 0  # threads that run on after their question was given up
        self._main: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(concurrent.futures.ThreadPoolExecutor(concurrency))
        self._loop_thread = threading.Thread(target=self._run_coroutines, daemon=True)
        self._loop_thread.start()

    def run(self, questions: Iterable[bytes]) -> None:
        """Answer questions until they end. Called by the main thread."""
        if self._most > 1:
            self._read(questions)
            return
        threading.Thread(target=self._read, args=(questions,), daemon=True).start()
        while (answer := self._main.get()) is not None:
            answer()

    def close(self) -> None:
        """Give up what is in flight after run, and close the loop, which nobody needs any more."""
        with self._lock:
            self._open.clear()
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _run_coroutines(self) -> None:
        """Run the loop until close, and close what it has opened."""
        while True:
            try:
                self._loop.run_forever()
                break
            except (KeyboardInterrupt, SystemExit):  # of a task of a function, which hears of it, too
                pass
        if left := asyncio.all_tasks(self._loop):
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.wait(left))
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def _read(self, questions: Iterable[bytes]) -> None:
        try:
            for line in questions:
                question = json.loads(line)
                if "cancel" in question:
                    self._cancel(question["cancel"])
                else:
                    self._take(question)
        finally:
            self._main.put(None)

    def _take(self, question: Question) -> None:
        number, do = question.pop("id"), question.pop("do")
        running = _Running()
        with self._lock:
            self._open[number] = running
        handler = self._handlers.get(do)
        if handler is None:
            self._give(number, {"error": {"kind": "", "reason": f"this version does not know how to {do}"}})
            return
        answer = functools.partial(self._answer, number, running, handler, question)
        if self._most > 1:
            running.thread = threading.Thread(target=answer, daemon=True)
            try:
                running.thread.start()
            except RuntimeError as error:
                reason = f"{error}: lower python.concurrency, or raise python.max_memory_mb"
                self._give(number, {"error": {"kind": "environment", "reason": reason}})
        else:
            running.thread = threading.main_thread()
            self._main.put(answer)

    def _answer(self, number: int, running: _Running, handler: Handler, question: Question) -> None:
        if question.pop("load", False):
            _loading.set(functools.partial(self._say_loaded, number))
        try:
            answer = handler(question)
        except BaseException as error:  # SystemExit of user code, too
            answer = self._failed(number, error)
        _loading.set(None)
        if inspect.isawaitable(answer):
            with self._lock:
                if number in self._open:
                    running.task = asyncio.run_coroutine_threadsafe(self._answer_later(number, answer), self._loop)
                    return
            if inspect.iscoroutine(answer):
                answer.close()  # it was given up
            answer = None
        if not self._give(number, answer):
            with self._lock:
                self._abandoned -= 1

    def _say_loaded(self, number: int) -> None:
        with self._lock:
            if number in self._open:
                self._answers.write(json.dumps({"id": number, "loaded": True}).encode() + b"\n")
                self._answers.flush()

    async def _answer_later(self, number: int, later: Awaitable[Any]) -> None:
        try:
            answer = await later
        except asyncio.CancelledError as error:
            answer = {"error": {"kind": "timeout", "reason": f"it stands at {place_of(error)}"}}
        except BaseException as error:
            answer = self._failed(number, error)
        self._give(number, answer)

    def _failed(self, number: int, error: BaseException) -> dict[str, Any]:
        reason = type(error).__name__
        try:  # the text of an exception is code of users, too, and standard error may be closed
            reason = reason_of(error)
            if not isinstance(error, Told):
                text = "".join(traceback.format_exception(error))
                print(f"question {number}:", text, sep="\n", end="", file=sys.stderr, flush=True)
        except BaseException as another:
            reason += f" (and {type(another).__name__} when it was told)"
        key = {"key": error.key} if isinstance(error, Told) and error.key else {}
        return {"error": {"kind": kind_of(error), "reason": reason} | key}

    def _cancel(self, number: int) -> None:
        with self._lock:
            running = self._open.get(number)
            if running is None:
                return  # it has been answered
            if running.task is not None:
                running.task.cancel()  # its handler answers
                threading.Timer(_PATIENCE, self._blocked, [number]).start()
                return
        place = running.place()
        with self._lock:
            self._abandoned += 1
            ends = self._abandoned > self._most or self._most == 1  # the main thread answers nothing else
        if not self._give(
            number, {"error": {"kind": "timeout", "reason": f"it stands at {place}" if place else "it has ended"}}
        ):
            with self._lock:
                self._abandoned -= 1
        elif ends:
            print(
                f"what was given up runs on ({self._abandoned} threads, one at {place}): the worker ends",
                file=sys.stderr,
                flush=True,
            )
            os._exit(1)

    def _blocked(self, number: int) -> None:
        """Answer a question whose coroutine could not be cancelled, because some coroutine blocks the loop."""
        loop = _Running()
        loop.thread = self._loop_thread
        reason = f"an async function blocks all others at {loop.place()}: await there, or make the function a plain one"
        self._give(number, {"error": {"kind": "timeout", "reason": reason}})

    def _give(self, number: int, answer: Any) -> bool:
        """Write the one answer of a question; report whether this is it."""
        if os.getpid() != self._pid:  # a child that a handler has forked came back from it
            os._exit(0)
        try:
            line = json.dumps({"id": number, **(answer or {})}, default=plain, allow_nan=False).encode() + b"\n"
        except (TypeError, ValueError) as error:
            line = (
                json.dumps({"id": number, "error": {"kind": "", "reason": f"the answer is no JSON: {error}"}}).encode()
                + b"\n"
            )
        with self._lock:
            if self._open.pop(number, None) is None:
                return False
            self._answers.write(line)
            self._answers.flush()
            return True
