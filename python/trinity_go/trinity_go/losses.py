"""Losses of users, their KL and entropy terms: what they take of an optimizer step, and the derivatives that they return."""

from __future__ import annotations

import dis
import importlib
import inspect
import numbers
from array import array
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any, Protocol

from . import names, states
from .classes import library_of, make
from .describe import check_names, has_base, parameters
from .operators import check_of, measured
from .wire import Told, number_of, pack, type_of, unpack

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
    may_be_constant = False

    def __init__(self, name: str, args: Mapping[str, Any]) -> None:
        self.name, self.target = name, names.find(name, self.kind)
        if not callable(self.target):
            raise Told(f"{name} is {type_of(self.target)}, and no function or class")
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
            check_names(name, self.target, args, OFFERED)
            self.fixed = dict(args)
            self.takes = {n: p for n, p in self.takes.items() if n not in args}
        self.made = self.call  # which may have a state
        states.has(name, self.made)
        # Classes of Trinity-RFT get everything by name, and only what they select.
        selected = getattr(self.call, "_select_keys", None)
        self.by_rows = selected is not None
        if selected is not None:
            self.takes_all = False
        if not self.takes_all and not any(n in self.takes for n in self.of):
            raise Told(
                f"{name} takes no {self.of[0]}: a loss takes, by the names of its parameters, {', '.join(OFFERED)}"
            )
        _check_plain(name, self.call)
        self.pairs = bool(getattr(self.target, "pairs", has_base(self.target, "DPOLossFn")))
        self.library = _library_of(self.target)

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
        loss, derivatives, metrics = self._parts(_called(self, arguments))
        if derivatives is None and self.may_be_constant and step.arrays.is_constant(loss):
            derivatives = {}
        elif derivatives is None:
            derivatives = step.arrays.derivatives(loss, {n: have[n] for n in _WITH_DERIVATIVES if n in have})
        good, left_out = measured(metrics)
        return {
            "loss": number_of(loss),
            "metrics": good,
            "left_out": left_out,
            "derivatives": {n: pack(step.packed(d, f"the derivatives by {n}")) for n, d in derivatives.items()},
        }

    def _parts(self, result: Any) -> tuple[Any, dict[str, Any] | None, dict[str, Any]]:
        """Return the loss, the derivatives if it returned them, and the metrics."""
        parts = list(result) if isinstance(result, (tuple, list)) else [result]
        is_loss = [hasattr(p, "__float__") for p in parts[:1]] + [isinstance(p, Mapping) for p in parts[1:]]
        if len(parts) > 3 or not parts or not all(is_loss):
            said = type_of(result) if parts[0] is result else f"({', '.join(type_of(p) for p in parts)})"
            by = f'{{"{self.of[0]}": derivatives}}'
            raise Told(f"it returned {said}: want a loss, (loss, metrics), (loss, {by}) or (loss, {by}, metrics)")
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


def _check_plain(name: str, call: Any) -> None:
    """Refuse a coroutine: a loss is computed while the engine waits."""
    if inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None)):  # noqa: B004
        raise Told(f"{name} is async: a loss is a plain function, without await")


def _library_of(target: Any) -> str:
    """Return the library that the modules of a loss import, or else that the loss itself imports where it is called."""
    owners = inspect.getmro(target) if inspect.isclass(target) else [target]
    found = {
        library
        for owner in owners
        for function in (vars(owner).values() if inspect.isclass(owner) else [owner])
        for library in _imported(getattr(inspect.unwrap(function), "__code__", None))
    }
    return library_of(target) or next((library for library in ("torch", "numpy") if library in found), "")


def _imported(code: CodeType | None) -> set[str]:
    """Return the packages that a function imports when it is called, with those within it."""
    if code is None:
        return set()
    found = {str(i.argval).partition(".")[0] for i in dis.get_instructions(code) if i.opname == "IMPORT_NAME"}
    return found.union(*(_imported(part) for part in code.co_consts if isinstance(part, CodeType)))


class _Computes(Protocol):
    library: str
    fixed: dict[str, Any]
    call: Callable[..., Any]


def _called(of: _Computes, arguments: Mapping[str, Any]) -> Any:
    """Return what a loss or a term of it returns for streams."""
    try:
        return of.call(**arguments, **of.fixed)
    except (TypeError, AttributeError) as error:
        if not of.library and "list" in str(error):
            error.args = (f"{error} (streams are lists: neither the loss nor its module imports torch or numpy)",)
        raise


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

    def packed(self, values: Any, what: str) -> array[float]:
        """Return numbers [sequences, tokens] without their padding. what says what they are."""
        is_array = hasattr(values, "tolist")
        rows = values.tolist() if is_array else values
        if not isinstance(rows, Sequence) or isinstance(rows, str):
            raise Told(f"{what} are {type_of(values)}: want a number for each token, [sequences, tokens]")
        if len(rows) != len(self.lengths):
            raise Told(f"{what} have {len(rows)} rows for {len(self.lengths)} sequences")
        out = array("f")
        for i, (given, n) in enumerate(zip(rows, self.lengths, strict=True)):
            row = given.tolist() if hasattr(given, "tolist") else given
            if not isinstance(row, Sequence) or len(row) not in (n, self.width):
                got = len(row) if isinstance(row, Sequence) else "no"
                raise Told(f"{what} of sequence {i} are {got} numbers, want {n}, or {self.width} with padding")
            row = row[:n] if is_array else [_number(v) for v in row[:n]]
            wrong = [v for v in row if not isinstance(v, numbers.Real)]
            if wrong:
                raise Told(f"{what} of sequence {i} have {type_of(wrong[0])}: want numbers")
            out.extend(row)
        return out


def _number(value: Any) -> Any:
    """Return a tensor or an array of one number as that number."""
    return value.tolist() if getattr(value, "shape", None) == () else value


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

    def is_constant(self, value: Any) -> bool:
        """Report whether a term is known to depend on no stream: nobody forgets the derivatives of 0."""
        return not getattr(value, "shape", ()) and number_of(value) == 0

    def derivatives(self, loss: Any, by: Mapping[str, Any]) -> dict[str, Any]:
        raise Told(
            'it returned no derivatives: return (loss, {"logprob": derivatives}), or compute the loss with torch, which its '
            "module or the loss itself must import"
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

    def is_constant(self, value: Any) -> bool:
        return not value.requires_grad if isinstance(value, self.torch.Tensor) else super().is_constant(value)

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
    may_be_constant = True
    offered = ("entropy", "logprob", "action_mask", "expert_mask", "step", "loss_agg_mode")

    def __init__(self, name: str, args: Mapping[str, Any]) -> None:
        super().__init__(name, args)
        _check_offered(name, {_ALIASES.get(n, n): p for n, p in self.takes.items()}, self.offered)


describe_entropy = check_of(Entropy)


def _check_offered(what: str, takes: Mapping[str, inspect.Parameter], offered: Sequence[str]) -> None:
    """Refuse a parameter without a default that a term of a loss does not get."""
    for n, p in takes.items():
        if p.default is p.empty and n not in offered:
            raise Told(f"{what} takes {n}, which a run does not give it: it gives {', '.join(offered)}")


class KL:
    """An estimate of the KL from the reference model, for each token."""

    kind = "kl"
    # Arguments of the term's weight, which a class need not take.
    WEIGHT = ("kl_coef", "adaptive", "target_kl", "horizon")
    offered = ("logprob", "ref_logprob", "old_logprob")

    def __init__(self, name: str, args: Mapping[str, Any]) -> None:
        self.name, self.target = name, names.find(name, self.kind)
        is_instance = not inspect.isclass(self.target) and callable(getattr(self.target, "calculate_kl", None))
        if not is_instance and not callable(self.target):
            raise Told(f"{name} is {type_of(self.target)}, and no function or class")
        takes, takes_all = ({}, False) if is_instance else parameters(self.target)
        args = {n: v for n, v in args.items() if n not in self.WEIGHT or n in takes or takes_all}
        self.fixed: dict[str, Any] = {}
        self.made: Any = self.target
        if inspect.isclass(self.target):
            self.made = make(name, self.target, args)
            if not callable(getattr(self.made, "calculate_kl", None)):
                raise Told(f"{name} has no method calculate_kl(logprob, ref_logprob, old_logprob)")
            self.call: Any = self.made.calculate_kl
        elif is_instance:
            if args:
                raise Told(f"{name} is an instance, which has its arguments", f"args.{next(iter(args))}")
            self.call = self.made.calculate_kl
        else:
            check_names(name, self.target, args, OFFERED)
            self.call, self.fixed = self.target, dict(args)
        states.has(name, self.made)
        takes, takes_all = parameters(self.call)
        self.takes = {n: p for n, p in takes.items() if n not in self.fixed} | (
            dict.fromkeys(self.offered) if takes_all else {}
        )
        what = name if self.call is self.target else f"calculate_kl of {name}"
        if "logprob" not in self.takes:
            raise Told(f"{what} takes no logprob: it takes, by the names of its parameters, {', '.join(self.offered)}")
        _check_plain(name, self.call)
        _check_offered(what, {n: p for n, p in self.takes.items() if p is not None}, self.offered)
        self.library = _library_of(self.target)

    def __call__(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a question about an optimizer step."""
        step = Step(question, _ARRAYS[self.library]())
        have = step.given(False)
        result = _called(self, {n: have[n] for n in self.offered if n in have and n in self.takes})
        zeros = [[0.0] * n for n in step.lengths]
        if isinstance(result, tuple) and len(result) == 2:
            values, by = result
        elif Lists.is_constant(step.arrays, result) and not getattr(result, "requires_grad", False):
            values, by = zeros, zeros
        elif len(getattr(result, "shape", [0] if isinstance(result, list) else [])) == 0:
            raise Told(f"it returned {type_of(result)}: want an estimate for each token, [sequences, tokens]")
        elif self.library == "torch" and hasattr(result, "requires_grad"):
            values = result
            by = zeros
            if result.requires_grad:
                by = step.arrays.derivatives(values.sum(), {"logprob": have["logprob"]})["logprob"]
        elif any(step.packed(result, "the estimates")):
            raise Told("it returned no derivatives: return (estimates, derivatives by logprob), or compute with torch")
        else:
            values, by = zeros, zeros
        values = values.detach() if hasattr(values, "detach") else values
        return {
            "values": {"logprob": pack(step.packed(values, "the estimates"))},
            "derivatives": {"logprob": pack(step.packed(by, "the derivatives by logprob"))},
        }


describe_kl = check_of(KL)


_KINDS: dict[str, Any] = {"loss": Loss, "kl": KL, "entropy": Entropy}


def loss(question: dict[str, Any]) -> Any:
    """Answer a question {"of": …, "name": …, "args": {…}, "instance": {…}, "step": …, "lengths": […], "streams": {…}, …}."""
    made = _KINDS[question["of"]]
    return states.answer(question, made.kind, made)
