"""The wire: what is answered, in which order, and what a question that was given up says."""

from __future__ import annotations

import asyncio
import io
import json
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from trinity_go import wire


def line_of(text: str) -> int:
    """Return the line of this file that is a text."""
    with open(__file__) as file:
        return next(i for i, line in enumerate(file, 1) if line.strip() == text)


class Told(io.RawIOBase):
    """Keeps the answers."""

    def __init__(self) -> None:
        self.lines: queue.Queue[dict[str, Any]] = queue.Queue()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.lines.put(json.loads(bytes(data)))
        return len(data)


class Asked:
    """Asks a server."""

    def __init__(self, **handlers: Any) -> None:
        self.answers, self.questions = Told(), queue.Queue()
        server = wire.Server(handlers, self.answers, concurrency=8)
        threading.Thread(target=server.run, args=(iter(self.questions.get, None),), daemon=True).start()

    def ask(self, **question: Any) -> None:
        self.questions.put(json.dumps(question).encode())

    def answer(self) -> dict[str, Any]:
        return self.answers.lines.get(timeout=30)


def test_a_server_closes_its_loop() -> None:
    began = threading.Event()
    ended = []

    async def waits(question: dict[str, Any]) -> None:
        began.set()
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append(question)

    def questions() -> Iterator[bytes]:
        yield b'{"id": 1, "do": "waits"}'
        assert began.wait(30)

    server = wire.Server({"waits": waits}, Told(), concurrency=8)
    server.run(questions())
    server.close()
    server._loop_thread.join(30)
    assert server._loop.is_closed()
    assert ended


def test_a_task_that_exits_leaves_the_loop() -> None:
    async def exits(question: dict[str, Any]) -> None:
        async def task() -> None:
            sys.exit(question["status"])

        await asyncio.create_task(task())

    server = Asked(exits=exits)
    for number in (1, 2):
        server.ask(id=number, do="exits", status=number)
        assert server.answer()["error"]["reason"].startswith(f"SystemExit: {number}; test_wire.py")


def test_answers_come_in_any_order() -> None:
    gate = threading.Event()

    def slow(question: dict[str, Any]) -> dict[str, Any]:
        gate.wait(30)
        return {"said": question["text"]}

    async def quick(question: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"said": question["text"]}

    server = Asked(slow=slow, quick=quick)
    server.ask(id=1, do="slow", text="a")
    server.ask(id=2, do="quick", text="b")
    assert server.answer() == {"id": 2, "said": "b"}
    gate.set()
    assert server.answer() == {"id": 1, "said": "a"}
    server.ask(id=3, do="dance")
    assert server.answer() == {"id": 3, "error": {"kind": "", "reason": "this version does not know how to dance"}}


def test_the_main_thread_answers_if_one_question_is_in_flight() -> None:
    def limited(_: dict[str, Any]) -> dict[str, Any]:
        signal.signal(signal.SIGALRM, lambda *_: None)  # works in the main thread alone
        return {"main": threading.current_thread() is threading.main_thread()}

    told = Told()
    wire.Server({"limited": limited}, told, concurrency=1).run(
        [b'{"id": 1, "do": "limited"}', b'{"id": 2, "do": "limited"}']
    )
    assert [told.lines.get(timeout=30) for _ in range(2)] == [{"id": 1, "main": True}, {"id": 2, "main": True}]


def raises(error: BaseException) -> Any:
    def handler(_: dict[str, Any]) -> None:
        raise error

    return handler


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (ValueError("no\nway"), "", "ValueError: no way; RAISED"),
        (TimeoutError("slow"), "timeout", "TimeoutError: slow; RAISED"),
        (ConnectionResetError(), "environment", "ConnectionResetError; RAISED"),
        (SystemExit(3), "", "SystemExit: 3; RAISED"),
        (wire.Told("name a class", kind="reward"), "reward", "name a class"),
        (
            ValueError("signal only works in main thread"),
            "",
            "ValueError: signal only works in main thread; it needs the main thread: give it by its "
            "name, such as my_module.right, with python.concurrency 1; RAISED",
        ),
    ],
)
def test_failures(error: BaseException, kind: str, reason: str, capfd: pytest.CaptureFixture[str]) -> None:
    server = Asked(fail=raises(error))
    server.ask(id=5, do="fail")
    reason = reason.replace("RAISED", f"test_wire.py:{line_of('raise error')} in handler")
    assert server.answer() == {"id": 5, "error": {"kind": kind, "reason": reason}}
    traceback = capfd.readouterr().err
    assert ("question 5:" in traceback and "raise error" in traceback) != isinstance(error, wire.Told)


def test_given_up() -> None:
    gate = threading.Event()

    def hung(_: dict[str, Any]) -> None:
        gate.wait(60)

    async def later(_: dict[str, Any]) -> None:
        await asyncio.sleep(60)

    server = Asked(hung=hung, later=later)
    for number, do, line in ((1, "hung", "gate.wait(60)"), (2, "later", "await asyncio.sleep(60)")):
        server.ask(id=number, do=do)
        time.sleep(0.05)
        server.ask(cancel=number)
        assert server.answer() == {
            "id": number,
            "error": {"kind": "timeout", "reason": f"it stands at test_wire.py:{line_of(line)} in {do}"},
        }
    gate.set()
    server.ask(cancel=1)  # it has been answered
    server.ask(id=3, do="hung")
    assert server.answer() == {"id": 3}


def test_the_line_of_users_comes_before_those_of_packages() -> None:
    space: dict[str, Any] = {}
    for path, text in (
        ("openai/client.py", "def call():\n    raise ValueError\n"),
        ("agents/loop.py", "def run():\n    call()\n"),
    ):
        exec(compile(text, f"/v/site-packages/{path}", "exec"), space)
    call = 'space["run"]()'
    with pytest.raises(ValueError) as error:
        space["run"]()
    assert wire.place_of(error.value) == f"test_wire.py:{line_of(call)} in {error.traceback[0].name}"
    assert error.value.__traceback__ is not None
    error.value.__traceback__ = error.value.__traceback__.tb_next  # a class of an installed package
    assert wire.place_of(error.value) == "loop.py:2 in run"


def test_own_files_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker's files have the names of its program there, too."""
    monkeypatch.setattr("os.sep", "\\")
    assert wire._is_below("trinity_go", "trinity_go/wire.py")
    assert wire._is_below(r"C:\lib\trinity_go", r"C:\lib\trinity_go\wire.py")
    assert not wire._is_below(r"C:\lib\trinity_go", r"C:\lib\trinity_gone\wire.py")


def test_what_is_no_json() -> None:
    class Number:
        size = 1

        def item(self) -> float:
            return 0.5

    server = Asked(give=lambda q: {"value": {"number": Number(), "set": {1}, "object": object()}[q["what"]]})
    server.ask(id=1, do="give", what="number")
    server.ask(id=2, do="give", what="set")
    server.ask(id=3, do="give", what="object")
    answers = sorted((server.answer() for _ in range(3)), key=lambda a: a["id"])
    assert answers[:2] == [{"id": 1, "value": 0.5}, {"id": 2, "value": [1]}]
    assert answers[2]["error"]["reason"] == "the answer is no JSON: a builtins.object is no number, text, list or dict"


def test_pack() -> None:
    assert wire.pack([1.0, -2.5]) == "AACAPwAAIMA="
    assert list(wire.unpack(wire.pack([0.1, 3.0]))) == [pytest.approx(0.1, rel=1e-7), 3.0]
    assert list(wire.unpack(wire.pack([1, -1], "i"), "i")) == [1, -1]
    with pytest.raises(ValueError, match="padding|base64"):
        wire.unpack("A")


def test_numpy() -> None:
    numpy = pytest.importorskip("numpy")
    value = {"a": numpy.float32(0.5), "b": numpy.array([1, 2]), "c": numpy.array(3)}
    assert json.loads(json.dumps(value, default=wire.plain)) == {"a": 0.5, "b": [1, 2], "c": 3}


def test_abandoned_threads_end_the_worker(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    ended = threading.Event()
    monkeypatch.setattr(wire.os, "_exit", lambda _: ended.set())
    gate = threading.Event()
    server = Asked(hung=lambda _: gate.wait(30))
    for number in range(9):
        server.ask(id=number, do="hung")
        time.sleep(0.01)
        server.ask(cancel=number)
    assert ended.wait(30)
    assert "what was given up runs on (9 threads, one at test_wire.py" in capfd.readouterr().err
    gate.set()
    assert sys.stderr


def test_a_coroutine_that_blocks_the_others_is_named() -> None:
    blocked = threading.Event()

    async def blocks(_: dict[str, Any]) -> None:
        blocked.wait(30)

    async def waits(_: dict[str, Any]) -> None:
        await asyncio.sleep(30)

    server = Asked(blocks=blocks, waits=waits)
    server.ask(id=1, do="blocks")
    server.ask(id=2, do="waits")
    server.ask(cancel=2)
    at = f"test_wire.py:{line_of('blocked.wait(30)')} in blocks"
    reason = f"an async function blocks all others at {at}: await there, or make the function a plain one"
    assert server.answer() == {"id": 2, "error": {"kind": "timeout", "reason": reason}}
    blocked.set()
    assert server.answer() == {"id": 1}


def test_kinds_of_failures_are_those_of_a_run() -> None:
    error = ValueError()
    error.failure_kind = "model"  # type: ignore[attr-defined]
    assert wire.kind_of(error) == "model"
    error.failure_kind = "of mine\n"  # type: ignore[attr-defined]
    assert wire.kind_of(error) == ""
