"""What code prints, with the rollout that it is of."""

from __future__ import annotations

import contextlib
import contextvars
import io
import sys
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO, TextIO

_of: contextvars.ContextVar[str] = contextvars.ContextVar("of", default="")


@contextlib.contextmanager
def by(who: str) -> Iterator[None]:
    """Put who before each line that is written in this context, and end the last one."""
    token = _of.set(who)
    try:
        yield
    finally:
        _of.reset(token)
        if isinstance(sys.stderr, Lines):
            sys.stderr.end(who)


class Lines(io.TextIOBase):
    """Writes whole lines, each with who has written it before it."""

    def __init__(self, to: TextIO) -> None:
        self._to, self._lock = to, threading.RLock()
        self._begun: dict[str, str] = {}  # the last line of each, without its end

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        who = _of.get()
        with self._lock:
            *lines, rest = (self._begun.pop(who, "") + text).split("\n")
            if rest:
                self._begun[who] = rest
            if lines:
                self._to.write("".join(f"{who}: {line}\n" if who else line + "\n" for line in lines))
                self._to.flush()
        return len(text)

    def flush(self) -> None:
        """Write what nobody known has begun. The lines of others go on."""
        with self._lock:
            if not _of.get() and "" in self._begun:
                self._to.write(self._begun.pop(""))
            self._to.flush()

    def end(self, *whose: str) -> None:
        """Write what these have begun, or all."""
        with self._lock:
            for who in whose or tuple(self._begun):
                if rest := self._begun.pop(who, ""):
                    self._to.write(f"{who}: {rest}\n" if who else rest)
            self._to.flush()

    def reconfigure(self, **_: Any) -> None:
        """Do nothing: the log is UTF-8, and each line is written at once."""

    @property
    def buffer(self) -> BinaryIO:
        """The stream below, whose lines have nobody before them."""
        return self._to.buffer

    def fileno(self) -> int:
        return self._to.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._to.encoding
