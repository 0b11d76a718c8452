"""The worker of a run: answers questions about functions and classes of users. `boot.py` starts it."""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import Any, BinaryIO

from . import compat, rewards, wire


def describe(question: dict[str, Any]) -> dict[str, Any]:
    return {"is": {"reward": rewards.describe}[question["kind"]](question["name"], question["args"])}


HANDLERS: dict[str, wire.Handler] = {"describe": describe, "reward": rewards.reward}
is_worker = False


def main(questions: BinaryIO, answers: BinaryIO, options: dict[str, Any]) -> None:
    """Answer questions until the input ends."""
    global is_worker
    is_worker = True
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the run ends it
    logging.basicConfig(
        level=os.environ.get("TRINITY_LOG_LEVEL", "INFO"),
        stream=sys.stderr,
        format="%(levelname)s %(name)s: %(message)s",
    )
    sys.path[:0] = options["path"]
    compat.install()
    wire.Server(HANDLERS, answers, options["concurrency"]).run(questions)
    sys.stderr.flush()
    os._exit(0)  # threads that run on would keep the process
