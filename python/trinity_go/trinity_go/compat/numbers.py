"""Numbers by the token: tensors if something has imported torch, else arrays that become tensors on demand."""

from __future__ import annotations

import array
import importlib
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

# The kinds of numbers, which are the names of torch's, and the codes of their arrays.
_CODES = {"int32": "i", "float32": "f", "bool": "b", "uint8": "B"}


def load(name: str) -> Any:
    """Return a module that may not be installed."""
    return importlib.import_module(name)


def imported_torch() -> Any:
    """Return torch if it is imported; None without it, and while it is being imported."""
    torch = sys.modules.get("torch")
    return None if getattr(getattr(torch, "__spec__", None), "_initializing", False) else torch


class Numbers(Sequence[Any]):
    """A list of numbers of one kind. What a list cannot do, it does as a tensor: that imports torch."""

    __slots__ = ("kind", "values")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, values: Iterable[Any], kind: str) -> None:
        self.kind = kind
        self.values: array.array[Any] = array.array(
            _CODES[kind], (bool(v) for v in values) if kind == "bool" else values
        )

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return Numbers(self.values[at], self.kind)
        try:
            return self._plain(self.values[at])
        except TypeError:  # a mask, or a list of places
            return self.tensor()[at]

    def __setitem__(self, at: Any, value: Any) -> None:
        if isinstance(at, slice):
            places = range(*at.indices(len(self.values)))
            given = list(value) if isinstance(value, Iterable) else [value] * len(places)
            if len(given) != len(places):
                raise ValueError(f"{len(given)} values for {len(places)} places")
            for place, one in zip(places, given):
                self.values[place] = one
        else:
            self.values[at] = value

    def __iter__(self) -> Iterator[Any]:
        return map(bool, self.values) if self.kind == "bool" else iter(self.values)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, (Numbers, list, tuple)):
            return self.tolist() == list(other)
        return self.tensor() == other

    def __ne__(self, other: object) -> Any:
        equal = self == other
        return not equal if isinstance(equal, bool) else ~equal

    def __round__(self, digits: int = 0) -> Any:
        return self.tensor().round(decimals=digits)

    def __repr__(self) -> str:
        return f"Numbers({self.tolist()}, {self.kind!r})"

    def _plain(self, value: Any) -> Any:
        return bool(value) if self.kind == "bool" else value

    def tolist(self) -> list[Any]:
        return list(self)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.values),)

    def numel(self) -> int:
        return len(self.values)

    def tensor(self) -> Any:
        """Return a tensor of the numbers. Imports torch."""
        try:
            torch = load("torch")
        except ImportError as error:
            raise ImportError(
                "numbers by the token are tensors if torch is there, and a list otherwise: install torch, or use tolist()"
            ) from error
        return torch.tensor(self.tolist(), dtype=getattr(torch, self.kind))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.tensor(), name)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return load("numpy").array(self.tolist(), dtype=dtype or self.kind)


def _by_tensor(name: str) -> Callable[..., Any]:
    apply = getattr(operator, name)

    def method(self: Numbers, *others: Any) -> Any:
        return apply(self.tensor(), *(o.tensor() if isinstance(o, Numbers) else o for o in others))

    return method


def _by_tensor_right(name: str) -> Callable[..., Any]:
    apply = getattr(operator, name)
    return lambda self, other: apply(other, self.tensor())


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor"):
    _bare = _name.rstrip("_")
    setattr(Numbers, f"__{_bare}__", _by_tensor(_name))
    setattr(Numbers, f"__r{_bare}__", _by_tensor_right(_name))
for _name in ("neg", "pos", "abs", "invert", "lt", "le", "gt", "ge"):
    setattr(Numbers, f"__{_name}__", _by_tensor(_name))


def numbers_of(value: Any, kind: str) -> Any:
    """Return a value as an attribute by the token holds it: numbers, a tensor, or what it is."""
    if isinstance(value, (list, tuple, range, array.array)):
        return Numbers(value, kind)
    if not isinstance(value, Numbers) and hasattr(value, "__array__") and not hasattr(value, "requires_grad"):
        return Numbers(value.tolist(), kind)  # of numpy
    return value


class ByToken:
    """An attribute with a number for each token."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        value = instance.__dict__.get(self.name)
        if isinstance(value, Numbers) and imported_torch() is not None:
            value = instance.__dict__[self.name] = value.tensor()
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.name] = numbers_of(value, self.kind)


def list_of(value: Any) -> list[Any]:
    """Return what an attribute by the token holds as a list; without one, it is empty."""
    return [] if value is None else list(value.tolist() if hasattr(value, "tolist") else value)
