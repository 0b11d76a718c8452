"""Helpers of Trinity-RFT: loggers, timers, marks, means of metrics."""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def get_logger(name: str | None = None, level: int | None = None, in_ray_actor: bool = False) -> logging.Logger:
    """Return a logger whose records go to plugins.log."""
    logger = logging.getLogger(f"trinity.{name}" if name else "trinity")
    if level is not None:
        logger.setLevel(level)
    return logger


def get_buffer_reader(config: Any) -> Any:
    """Refuse: a class that reads buffers itself is not offered."""
    raise NotImplementedError(
        "get_buffer_reader: the run reads its buffers itself, and this version offers none to Python"
    )


class Timer:
    """Measures a block in seconds, under a key of a dict."""

    def __init__(self, metrics_dict: MutableMapping[str, Any], key_name: str) -> None:
        self.metrics, self.key = metrics_dict, key_name

    def __enter__(self) -> Timer:  # noqa: PYI034
        self.start_time = time.time()
        return self

    def __exit__(self, *exception: object) -> None:
        self.metrics[self.key] = time.time() - self.start_time


def experimental(target: T) -> T:
    """Mark a class or a function as one that may change."""
    target._is_experimental = True  # type: ignore[attr-defined]
    return target


def deprecated(target: T) -> T:
    """Mark a class or a function as one that new code does not use."""
    target._is_deprecated = True  # type: ignore[attr-defined]
    return target


_MEASURES: dict[str, Callable[[list[float]], float]] = {
    "mean": statistics.fmean,
    "max": max,
    "min": min,
    "std": statistics.pstdev,
    "sum": sum,
    "last": lambda values: values[-1],
}


def aggregate_metrics(
    metric_dicts: Iterable[Mapping[str, Any]], prefix: str = "", default_output_stats: Sequence[str] | None = None
) -> dict[str, float]:
    """Return mean, max and min of each number, as prefix/name/mean and so on. A name may end with the measure that it
    wants, as in count:sum."""
    values: dict[tuple[str, str], list[float]] = {}
    for one in metric_dicts:
        for name, value in one.items():
            if isinstance(value, (int, float)):
                bare, colon, measure = name.rpartition(":")
                known = colon and measure in ("mean", "sum", "max", "min", "last")
                key = (bare, "" if measure == "mean" else measure) if known else (name, "")
                values.setdefault(key, []).append(float(value))
    usual = ("mean", "max", "min") if default_output_stats is None else default_output_stats
    out: dict[str, float] = {}
    for (name, measure), numbers in values.items():
        for each in (measure,) if measure else usual:
            out[f"{prefix}/{name}/{each}" if prefix else f"{name}/{each}"] = _MEASURES[each](numbers)
    return out
