"""Answers a run's questions about functions of this process. The run connects to a loopback address, once."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import inspect
import os
import re
import secrets
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, cast, final

from . import names, tools, wire, worker

_FOREVER = 10**6  # threads that a run has given up end with this process, never the other way round
_GREETING = 128  # bytes of the line that has the token


def importable(function: Any) -> str:
    """Return the name under which another process finds a function, such as /path/to/script.py:right; "" if none does."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if not module or not re.fullmatch(r"\w+(\.\w+)*", name):
        return ""
    found: Any = sys.modules.get(module)
    path = getattr(found, "__file__", None) if module == "__main__" else None
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not function or module == "__main__" and (not path or not path.endswith(".py")):
        return ""
    return f"{os.path.abspath(path)}:{name}" if path else f"{module}.{name}"


class Functions:
    """The functions of this process that a run asks, by the names that its configuration has."""

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}

    def name(self, function: Any, name: str = "") -> str:
        """Return what a configuration calls a function."""
        own = name or importable(function)
        if not own:
            plain = getattr(function, "__name__", "") or type(function).__name__
            own = re.sub(r"\W+", "_", plain).strip("_") or "function"
        given, number = own, 1
        while self.given.get(given, function) is not function:
            number += 1
            given = f"{own}_{number}"
        self.given[given] = function
        return "caller:" + given

    def only_here(self) -> list[str]:
        """Return the names under which no other process finds a function."""
        return [name for name, function in self.given.items() if importable(function) != name]


@final
class Caller:
    """Listens for a run, and answers it. `failed` is called with the first exception of a function.

    Other runs of the process may have other functions of the same names, and other instances of the same classes.
    """

    def __init__(
        self,
        handlers: Mapping[str, wire.Handler],
        stops: bool,
        failed: Callable[[BaseException, str], None],
        functions: Mapping[str, Any] | None = None,
    ) -> None:
        self.token = secrets.token_hex(32)
        self._asker = names.Asker(dict(functions or {}))
        self._stops, self._failed = stops, failed
        self._told: set[str] = set()
        self._handlers = {do: self._guarded(handler) for do, handler in handlers.items()}
        self._door = socket.create_server(("127.0.0.1", 0), backlog=1)
        self._connection: socket.socket | None = None
        self._ended = threading.Event()
        host, port = self._door.getsockname()[:2]
        self.address = f"{host}:{port}"
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        for end in (self._door, self._connection):
            if end is not None:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
        before = names.asker.set(self._asker)
        try:
            worker.forget()
        finally:
            names.asker.reset(before)
            self._ended.set()

    def environment(self) -> dict[str, str]:
        return {"TRINITY_CALLER": self.address, "TRINITY_CALLER_TOKEN": self.token}

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._door.accept()
            except OSError:  # closed
                return
            connection.settimeout(10)
            questions = connection.makefile("rb")
            try:
                greeting = questions.readline(_GREETING)
                if hmac.compare_digest(greeting.strip(), self.token.encode()):
                    break
            except OSError:
                pass
            questions.close()
            connection.close()
        self._connection = connection
        self._door.close()
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server = wire.Server(self._handlers, cast(BinaryIO, _Answers(connection)), _FOREVER)
        with contextlib.suppress(OSError, ValueError):  # the run has ended
            server.run(questions)
        questions.close()
        connection.close()
        self._ended.wait()  # what operators close, they close in the loop
        server.close()

    def _guarded(self, handler: wire.Handler) -> wire.Handler:
        async def later(answer: Any, question: wire.Question) -> Any:
            try:
                return self._say_scored(await answer, question)
            except asyncio.CancelledError:  # the run has given it up
                raise
            except BaseException as error:
                raise self._take(error, question) from error

        def guarded(question: wire.Question) -> Any:
            names.asker.set(self._asker)  # of this thread, and of the task that a coroutine becomes
            try:
                answer = handler(question)
            except BaseException as error:
                raise self._take(error, question) from error
            return later(answer, question) if inspect.isawaitable(answer) else self._say_scored(answer, question)

        return guarded

    def _take(self, error: BaseException, question: wire.Question) -> wire.Told:
        """Keep an exception of a function, and return what the run is told."""
        try:
            reason = wire.reason_of(error)
        except Exception as another:  # the text of an exception is code of users, too
            reason = f"{type(error).__name__} (and {type(another).__name__} when it was told); {wire.place_of(error)}"
        if "kind" not in question:  # a question that describes a function ends the run by its answer
            who = _who(question)
            self._failed(error, reason if reason.startswith(f"{who}: ") else f"{who}: {reason}")
        if isinstance(error, wire.Told):
            return error
        if not self._stops and (place := wire.place_of(error)) not in self._told:
            self._told.add(place)
            traceback.print_exception(error)
        return wire.Told(reason, wire.kind_of(error))

    def _say_scored(self, answer: Any, question: wire.Question) -> Any:
        """Say once that a function has scored the rollout itself, though a reward function was given. Return the answer."""
        given = answer.get("answer") if isinstance(answer, dict) else None
        scored = isinstance(given, dict) and any(given.get("scored") or ())
        function = question["assignments"][0].get("reward_fn") if scored else None
        who = _who(question)
        if function and who not in self._told and not inspect.isclass(names.find(question["name"])):
            self._told.add(who)
            print(
                f"{who} returns the reward itself, so {function.removeprefix('python:').removeprefix('caller:')} is not asked",
                file=sys.stderr,
            )
        return answer


def _who(question: wire.Question) -> str:
    """Return the name of what users have written of a question."""
    if question.get("name", "").removeprefix("caller:") == tools.PLAY:
        args = question["args"]
        return str(args.get("environment") or ", ".join(args.get("tools", ()))).replace("caller:", "")
    return str(question.get("name"))


class _Answers:
    """The end of a connection that answers are written to."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def write(self, line: bytes) -> None:
        with contextlib.suppress(OSError):  # nobody waits for it any more
            self._connection.sendall(line)

    def flush(self) -> None:
        pass
