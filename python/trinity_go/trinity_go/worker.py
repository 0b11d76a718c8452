"""The worker of a run: answers questions about functions and classes of users. `boot.py` starts it."""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import Any, BinaryIO

from . import (
    advantages,
    algorithms,
    classes,
    compat,
    describe,
    losses,
    names,
    operators,
    plugin_dirs,
    rewards,
    rollouts,
    said,
    selectors,
    states,
    wire,
)

CHECKS: dict[str, describe.Check] = {
    "advantage": advantages.describe,
    "algorithm": algorithms.describe,
    "entropy": losses.describe_entropy,
    "kl": losses.describe_kl,
    "loss": losses.describe,
    "operator": operators.describe,
    "reward": rewards.describe,
    "selector": selectors.describe,
    "workflow": rollouts.describe,
}


HANDLERS: dict[str, wire.Handler] = {
    "describe": lambda question: describe.describe(question, CHECKS),
    "registered": lambda question: {
        "are": describe.registered(),
        "files": describe.files(),
        "failed": names.failures(),
    },
    "advantage": advantages.advantage,
    "loss": losses.loss,
    "operate": operators.operate,
    "reward": rewards.reward,
    "rollout": rollouts.rollout,
    "group": rollouts.rollout,
    "select": selectors.select,
}
is_worker = False


def forget() -> None:
    """Close and forget what was made for the run that asks."""
    operators.close()
    for module in (classes.kept, rollouts, states):
        module.forget()


def main(questions: BinaryIO, answers: BinaryIO, options: dict[str, Any]) -> None:
    """Answer questions until the input ends."""
    global is_worker
    is_worker = True
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the run ends it
    lines = said.Lines(sys.stderr)
    sys.stdout = sys.stderr = lines
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(levelname)s %(name)s: %(message)s",
    )
    for name in wire.CLIENTS:
        logging.getLogger(name).setLevel(logging.WARNING)  # else a line for each call, with the key of its rollout
    sys.path[:0] = options["path"]
    compat.install()
    plugin_dirs.install(options.get("plugin_dirs") or [])
    rollouts.at_once = options["concurrency"]
    wire.Server(HANDLERS, answers, options["concurrency"]).run(questions)
    operators.close()
    lines.end()
    os._exit(0)  # threads that run on would keep the process
