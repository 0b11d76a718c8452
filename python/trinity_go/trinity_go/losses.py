"""Losses of users, their KL and entropy terms: what they take of an optimizer step, and the derivatives that they return."""

from __future__ import annotations

import importlib
import inspect
import numbers
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from . import names
from .classes import check_function, kept, library_of, make, parameters
from .operators import check_of, measured, number_of
from .wire import Told, pack, unpack

# What a loss may take of a step, by the names of its parameters. Other names are those of numbers in info.
OFFERED = {
    "logprob": "the current log-probabilities",
    "old_logprob": "the log-probabilities when sampled, or before the update",
    "ref_logprob": "the log-probabilities of the reference model",
    "teacher_logprobs": "the log-probabilities of a teacher",
    "advantages": "the advantages",
    "action_mask": "1 for tokens, 0 for padding",
    "expert_mask": "which sequences are demonstrations",
    "entropy": "the entropies of the distributions",
    "step": "the train step",
}
# veRL's names of the same.
_ALIASES = {
    "log_prob": "logprob",
    "old_log_probs": "old_logprob",
    "ref_log_prob": "ref_logprob",
    "response_mask": "action_mask",
}
_WITH_DERIVATIVES = ("logprob", "entropy")


def describe(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a loss takes. Raises Told if its arguments are wrong."""
    loss = Loss(name, args)
    takes = list(dict.fromkeys(_ALIASES.get(n, n) for n in loss.takes))
    if loss.takes_all:
        takes += [n for n in OFFERED if n not in takes and n != "entropy"]
    needs = [_ALIASES.get(n, n) for n, p in loss.takes.items() if p.default is p.empty]
    return {"takes": takes, "needs": needs, "pairs": loss.pairs}


class Loss:
    """A function, or an instance of a class, with the arguments of a configuration."""

    kind, of = "loss", ("logprob", "log_prob")

    def __init__(self, name: str, args: Mapping[str, Any]) -> None:
        self.name, self.target = name, names.find(name, self.kind)
        if not callable(self.target):
            raise Told(f"{name} is a {type(self.target).__name__}, and no function or class")
        self.fixed: dict[str, Any] = {}
        if inspect.isclass(self.target):
            if not any("__call__" in vars(base) for base in self.target.__mro__):
                raise Told(f"{name} has no method __call__, which computes a loss")
            self.call: Any = make(name, self.target, args)
            self.takes, self.takes_all = parameters(_inner(self.target.__call__))
            self.takes.pop("self", None)
        else:
            self.call = self.target
            self.takes, self.takes_all = parameters(self.target)
            check_function(name, self.target, args, OFFERED)
            self.fixed = dict(args)
            self.takes = {n: p for n, p in self.takes.items() if n not in args}
        # Classes of Trinity-RFT get everything by name, and only what they select.
        selected = getattr(self.call, "_select_keys", None)
        self.by_rows = selected is not None
        if selected is not None:
            self.takes_all = False
        if not self.takes_all and not any(n in self.takes for n in self.of):
            raise Told(
                f"{name} takes no {self.of[0]}: a loss takes, by the names of its parameters, {', '.join(OFFERED)}"
            )
        bases = [base.__name__ for base in getattr(self.target, "__mro__", ())]
        self.pairs = bool(getattr(self.target, "pairs", "DPOLossFn" in bases))
        self.library = library_of(self.target)

    def __call__(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a question about an optimizer step."""
        step = Step(question, _ARRAYS[self.library]())
        have = step.given(self.by_rows)
        if "mode" in question:
            have["loss_agg_mode"] = question["mode"]
        have |= {alias: have[n] for alias, n in _ALIASES.items() if n in have and alias in self.takes}
        arguments = {n: v for n, v in have.items() if self.takes_all or n in self.takes}
        if self.takes_all:
            arguments = {n: v for n, v in arguments.items() if n in self.takes or n in step.names}
        missing = [n for n, p in self.takes.items() if p.default is p.empty and n not in arguments]
        if missing:
            raise Told(f"it takes {missing[0]}, which this step does not have: it has {', '.join(have)}")
        loss, derivatives, metrics = self._parts(self.call(**arguments, **self.fixed))
        if derivatives is None:
            derivatives = step.arrays.derivatives(loss, {n: have[n] for n in _WITH_DERIVATIVES if n in have})
        good, left_out = measured(metrics)
        return {
            "loss": number_of(loss),
            "metrics": good,
            "left_out": left_out,
            "derivatives": {n: pack(step.packed(d, n)) for n, d in derivatives.items()},
        }

    def _parts(self, result: Any) -> tuple[Any, dict[str, Any] | None, dict[str, Any]]:
        """Return the loss, the derivatives if it returned them, and the metrics."""
        parts = list(result) if isinstance(result, (tuple, list)) else [result]
        if not parts or len(parts) > 3 or not all(isinstance(p, Mapping) for p in parts[1:]):
            raise Told(
                'it returned neither a loss, nor (loss, metrics), nor (loss, {"logprob": derivatives}), nor '
                '(loss, {"logprob": derivatives}, metrics)'
            )
        derivatives, metrics = None, {}
        for part in parts[1:]:
            if derivatives is None and any(
                hasattr(part.get(n), "__len__") and _depth(part[n]) for n in _WITH_DERIVATIVES
            ):
                derivatives = dict(part)
            else:
                metrics.update(part)
        unknown = [n for n in derivatives or {} if n not in _WITH_DERIVATIVES]
        if unknown:
            raise Told(f"it returned derivatives by {unknown[0]}: want those by {' and '.join(_WITH_DERIVATIVES)}")
        return parts[0], derivatives, metrics


def _inner(call: Any) -> Any:
    """Return the method that a wrapper of Trinity-RFT's PolicyLossFn calls."""
    for cell in getattr(call, "__closure__", None) or ():
        if inspect.isfunction(cell.cell_contents):
            return cell.cell_contents
    return call


def _depth(value: Any) -> bool:
    """Report whether a value is an array or a list of numbers: derivatives, and no metric."""
    return not isinstance(value, (str, bytes)) and len(getattr(value, "shape", (1,))) > 0


class Step:
    """An optimizer step, as a question has it: the trained tokens of its sequences, one after the other."""

    def __init__(self, question: Mapping[str, Any], arrays: Lists) -> None:
        self.lengths: list[int] = question["lengths"]
        self.width, self.arrays = max([question["width"], *self.lengths]), arrays
        self.question = question
        self.names: set[str] = set(OFFERED)

    def given(self, by_rows: bool) -> dict[str, Any]:
        """Return what the step has, by name. by_rows gives the step's number as one for each sequence."""
        have: dict[str, Any] = {}
        for name, text in self.question["streams"].items():
            have[name] = self.arrays.padded(unpack(text), self.lengths, self.width, name in _WITH_DERIVATIVES)
        ones = array("f", [1.0]) * sum(self.lengths)
        have["action_mask"] = self.arrays.padded(ones, self.lengths, self.width, False)
        have["expert_mask"] = self.arrays.row(self.question["experts"], bool)
        step = self.question["step"]
        have["step"] = self.arrays.row([step] * len(self.lengths), int) if by_rows else step
        for name, values in self.question["fields"].items():
            have[name] = self.arrays.row(values, float)
        return have

    def packed(self, derivatives: Any, name: str) -> array[float]:
        """Return derivatives [sequences, tokens] without their padding."""
        is_array = hasattr(derivatives, "tolist")
        rows = derivatives.tolist() if is_array else derivatives
        if len(rows) != len(self.lengths):
            raise Told(f"the derivatives by {name} have {len(rows)} rows for {len(self.lengths)} sequences")
        out = array("f")
        for i, (row, n) in enumerate(zip(rows, self.lengths, strict=True)):
            if not isinstance(row, Sequence) or len(row) not in (n, self.width):
                got = len(row) if isinstance(row, Sequence) else "no"
                raise Told(
                    f"the derivatives by {name} of sequence {i} are {got} numbers, want {n}, or {self.width} with padding"
                )
            wrong = None if is_array else next((v for v in row[:n] if not isinstance(v, numbers.Real)), None)
            if wrong is not None:
                raise Told(f"the derivatives by {name} of sequence {i} have a {type(wrong).__name__}: want numbers")
            out.extend(row[:n])
        return out


class Lists:
    """Streams as lists of lists."""

    def padded(self, values: array[float], lengths: list[int], width: int, _varies: bool) -> Any:
        rows, at = [], 0
        for n in lengths:
            rows.append([*values[at : at + n], *[0.0] * (width - n)])
            at += n
        return rows

    def row(self, values: list[Any], kind: type) -> Any:
        return [kind(v) for v in values]

    def derivatives(self, loss: Any, by: Mapping[str, Any]) -> dict[str, Any]:
        raise Told(
            'it returned no derivatives: return (loss, {"logprob": derivatives}), or compute the loss with torch, which its '
            "module must import"
        )


class Arrays(Lists):
    """Streams as arrays of numpy."""

    def __init__(self) -> None:
        self.numpy: Any = importlib.import_module("numpy")

    def padded(self, values: array[float], lengths: list[int], width: int, _varies: bool) -> Any:
        numpy, at = self.numpy, 0
        out, flat = numpy.zeros((len(lengths), width), numpy.float32), numpy.frombuffer(values, numpy.float32)
        for i, n in enumerate(lengths):
            out[i, :n] = flat[at : at + n]
            at += n
        return out

    def row(self, values: list[Any], kind: type) -> Any:
        return self.numpy.array(values, self.numpy.float32 if kind is float else kind)


class Tensors(Lists):
    """Streams as tensors of torch, which derives the loss by them."""

    def __init__(self) -> None:
        self.torch: Any = importlib.import_module("torch")
        self.torch.set_num_threads(1)  # of this thread: sums must not depend on the machine

    def padded(self, values: array[float], lengths: list[int], width: int, varies: bool) -> Any:
        out = self.torch.zeros(len(lengths), width)
        if values:
            for row, part in zip(
                out, self.torch.frombuffer(values, dtype=self.torch.float32).split(lengths), strict=True
            ):
                row[: len(part)] = part
        return out.requires_grad_() if varies else out

    def row(self, values: list[Any], kind: type) -> Any:
        kinds = {float: self.torch.float32, int: self.torch.int64, bool: self.torch.bool}
        return self.torch.tensor(values, dtype=kinds[kind])

    def derivatives(self, loss: Any, by: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(loss, self.torch.Tensor) or not loss.requires_grad:
            raise Told(
                "its loss is no tensor that depends on logprob: compute it from logprob without detach and item, or return "
                '(loss, {"logprob": derivatives})'
            )
        if loss.numel() != 1:
            raise Told(
                f"its loss has the shape {list(loss.shape)}: return a single number, such as a mean over action_mask"
            )
        got = self.torch.autograd.grad(loss.reshape(()), list(by.values()), allow_unused=True)
        return {n: self.torch.zeros_like(by[n]) if g is None else g for n, g in zip(by, got, strict=True)}


_ARRAYS: dict[str, type[Lists]] = {"": Lists, "numpy": Arrays, "torch": Tensors}


class Entropy(Loss):
    """An entropy term, which is subtracted from the loss."""

    kind, of = "entropy", ("entropy", "entropy")


describe_entropy = check_of(Entropy)


class KL:
    """An estimate of the KL from the reference model, for each token."""

    # Arguments of the term's weight, which a class need not take.
    WEIGHT = ("kl_coef", "adaptive", "target_kl", "horizon")

    def __init__(self, name: str, args: Mapping[str, Any]) -> None:
        self.name, self.target = name, names.find(name, "kl")
        if not callable(self.target):
            raise Told(f"{name} is a {type(self.target).__name__}, and no function or class")
        takes, takes_all = parameters(self.target)
        args = {n: v for n, v in args.items() if n not in self.WEIGHT or n in takes or takes_all}
        self.fixed: dict[str, Any] = {}
        if inspect.isclass(self.target):
            made = make(name, self.target, args)
            if not callable(getattr(made, "calculate_kl", None)):
                raise Told(f"{name} has no method calculate_kl(logprob, ref_logprob, old_logprob)")
            self.call: Any = made.calculate_kl
        else:
            check_function(name, self.target, args, OFFERED)
            self.call, self.fixed = self.target, dict(args)
        self.takes = parameters(self.call)[0]
        self.library = library_of(self.target)

    def __call__(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a question about an optimizer step."""
        step = Step(question, _ARRAYS[self.library]())
        have = step.given(False)
        names_of = ("logprob", "ref_logprob", "old_logprob")
        result = self.call(**{n: have[n] for n in names_of if n in have and n in self.takes}, **self.fixed)
        if isinstance(result, tuple) and len(result) == 2:
            values, by = result
        else:
            values = result
            if self.library != "torch":
                raise Told(
                    "it returned no derivatives: return (estimates, derivatives by logprob), or compute with torch"
                )
            by = step.arrays.derivatives(values.sum(), {"logprob": have["logprob"]})["logprob"]
        values = values.detach() if hasattr(values, "detach") else values
        return {
            "values": {"logprob": pack(step.packed(values, "logprob"))},
            "derivatives": {"logprob": pack(step.packed(by, "logprob"))},
        }


describe_kl = check_of(KL)


_KINDS: dict[str, Any] = {"loss": Loss, "kl": KL, "entropy": Entropy}


def loss(question: dict[str, Any]) -> dict[str, Any]:
    """Answer a question {"of": …, "name": …, "args": {…}, "step": …, "lengths": […], "streams": {…}, …}."""
    answer: dict[str, Any] = kept.get(_KINDS[question["of"]], question["name"], question["args"])(question)
    return answer
