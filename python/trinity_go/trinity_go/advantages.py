"""Advantage functions of users: over experiences, as operators, or over a batch of the trainer."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import states
from .describe import has_base
from .operators import Operator, measured, packed_of
from .wire import Told, pack, unpack

# What a batch has, of what the run has. Numbers are [sequences, tokens after the prompt], or [sequences].
KEYS = (
    "token_level_rewards", "token_level_scores", "response_mask", "attention_mask", "values", "old_log_probs", "ref_log_prob",
    "rollout_log_probs", "teacher_logprobs", "entropys", "necs", "reward_baselines", "responses",
)  # fmt: skip
_STREAMS = (
    "token_level_rewards",
    "values",
    "old_log_probs",
    "ref_log_prob",
    "rollout_log_probs",
    "teacher_logprobs",
    "entropys",
    "necs",
)


def describe(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an advantage function takes. Raises Told if its arguments are wrong."""
    of = Advantage(name, args)
    if of.in_trainer:
        return {"compute_in_trainer": True, "needs": sorted(_keys_of(of.target))}
    return {"compute_in_trainer": False, "needs": ["group"] if has_base(of.target, "GroupAdvantage") else []}


def _keys_of(target: Any) -> set[str]:
    """Return the keys of a batch that the text of a class names."""
    found: set[str] = set()
    for owner in inspect.getmro(target):
        try:
            text = inspect.getsource(owner)
        except (OSError, TypeError):
            continue
        found.update(re.findall(r"batch\[\s*[\"'](\w+)[\"']\s*\](?!\s*=[^=])", text))
    unknown = sorted(found - {*KEYS, "advantages", "returns", "uid"})
    if unknown:
        raise Told(
            f"{target.__name__} reads batch[{unknown[0]!r}], which a run does not have: it has {', '.join(KEYS)}"
        )
    return found & set(KEYS)


class Advantage(Operator):
    """A function over experiences, or an instance of a class."""

    kind = "advantage"

    def __init__(self, name: str, args: Mapping[str, Any]) -> None:
        super().__init__(name, args)
        states.has(name, self.made)
        asked = getattr(self.made, "compute_in_trainer", None)
        self.in_trainer = bool(asked() if callable(asked) else asked)

    def method_of(self, made: Any) -> Callable[..., Any]:
        method = getattr(made, "process", None) or getattr(made, "__call__", None)  # noqa: B004
        if method is None:
            raise Told(f"{self.name} has neither a method process(exps) nor __call__(exps)")
        called: Callable[..., Any] = method
        return called

    def __call__(self, question: Mapping[str, Any]) -> Any:
        if not self.in_trainer:
            return super().__call__(question)
        sent = question["experiences"]
        batch = Batch(sent)
        with self.lock:
            result = self.made(batch)
        batch, metrics = result if isinstance(result, tuple) and len(result) == 2 else (result, {})
        if not hasattr(batch, "batch") or "advantages" not in batch.batch:
            raise Told('it returned no batch with "advantages"')
        edits: list[dict[str, Any]] = [{"index": one["index"]} for one in sent]
        for name in ("advantages", "returns", "response_mask"):
            if name not in batch.batch:
                continue
            rows = batch.batch[name]
            if len(rows) != len(sent):
                raise Told(f"{name} have {len(rows)} rows for {len(sent)} sequences")
            for edit, row, one in zip(edits, rows, sent, strict=True):
                row = row[: len(_mask(one))]
                if name != "response_mask":
                    edit[name] = packed_of(row, name)
                elif (mask := pack([bool(v) for v in row], "b")) != one["mask"]:
                    edit["mask"] = mask
        numbers, left_out = measured(metrics)
        return {"experiences": edits, "metrics": numbers, "left_out": left_out}


def _mask(sent: Mapping[str, Any]) -> Sequence[int]:
    return unpack(sent["mask"], "b")


class Columns(dict[str, Any]):
    """The tensors of a batch by their keys."""

    def __missing__(self, key: str) -> Any:
        raise Told(f"it reads batch[{key!r}], which this run does not have: it has {', '.join(self)}")

    @property
    def batch_size(self) -> tuple[int]:
        return (len(self["response_mask"]),)


class Batch:
    """A batch of the trainer, as veRL's DataProto has it: batch, and the uid of each task in non_tensor_batch."""

    def __init__(self, sent: Sequence[Mapping[str, Any]]) -> None:
        torch: Any = importlib.import_module("torch")
        torch.set_num_threads(1)  # of this thread: sums must not depend on the machine
        masks = [_mask(one) for one in sent]
        width = max(map(len, masks))

        def padded(rows: Sequence[Any], dtype: Any) -> Any:
            out = torch.zeros(len(rows), width, dtype=dtype)
            for i, row in enumerate(rows):
                out[i, : len(row)] = torch.tensor(list(row), dtype=dtype)
            return out

        self.batch = Columns()
        for name in _STREAMS:
            if all(name in one["streams"] for one in sent):
                self.batch[name] = padded([unpack(one["streams"][name]) for one in sent], torch.float32)
        self.batch["response_mask"] = padded(masks, torch.bool)
        scores = torch.zeros(len(sent), width)
        for i, (one, mask) in enumerate(zip(sent, masks, strict=True)):
            last = max((k for k, trained in enumerate(mask) if trained), default=None)
            if last is not None:
                scores[i, last] = one["reward"]
        self.batch["token_level_scores"] = scores
        ids = [unpack(one["tokens"], "i")[one["prompt_length"] :] for one in sent]
        self.batch["responses"] = padded(ids, torch.int64)
        self.batch["attention_mask"] = padded([[1] * len(mask) for mask in masks], torch.int64)
        if all("reward_baseline" in one for one in sent):
            self.batch["reward_baselines"] = torch.tensor([one["reward_baseline"] for one in sent], dtype=torch.float32)
        self.non_tensor_batch: dict[str, Any] = {"uid": [f"{one['batch']}/{one['task']}" for one in sent]}
        self.meta_info: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self.batch["response_mask"])


def advantage(question: dict[str, Any]) -> Any:
    """Answer a question {"name": …, "args": {…}, "instance": {…}, "experiences": […]}."""
    return states.answer(question, Advantage.kind, Advantage)
