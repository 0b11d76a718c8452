"""Tests of a program in Python: split, answer and judge are three processes. Only answer has code of a model."""

import array
import ast
import builtins
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import inspect
import itertools
import json
import math
import os
import sys

MOST_ITEMS = 100000  # of an iterator
MOST_RANGE = 1000000
MOST_EXPONENT = 10000


class Unsupported(Exception):
    pass


class NoVerdict(BaseException):
    """Two values can only be compared in the program's process."""


class Refused(BaseException):
    """A value cannot be examined outside of the program's process.

    It is wrong if the test expects a plain value: else a program could choose to have no verdict.
    """


# Split.


# Functions whose value says as much as that of their argument, which may be endless or of a class of the program.
CONSUMERS = {"next", "islice", "list", "tuple", "set", "dict", "sorted", "len", "str", "repr", "int", "float", "hasattr"}

# Methods of texts and sets that ask. The judge calls them on the value: a class of the program could say yes to all.
PLAIN_QUESTIONS = {
    "startswith", "endswith", "isdigit", "isalpha", "isalnum", "isupper", "islower", "isspace", "isnumeric", "isdecimal", "istitle",
    "isidentifier", "isprintable", "isascii", "issubset", "issuperset", "isdisjoint",
}

# Functions that ask about a class of the program.
CLASS_QUESTIONS = {"isinstance", "issubclass"}


class Split(ast.NodeTransformer):
    """Replaces the expressions that need the program by __answers[i], and collects them."""

    def __init__(self, known):
        self.known, self.bound, self.queries = known, set(), []

    def take(self, node):
        for name in ast.walk(node):
            if isinstance(name, ast.Name) and name.id in self.bound:
                raise Unsupported("%r depends on the variable %r of a comprehension or lambda" % (ast.unparse(node), name.id))
        self.queries.append(ast.unparse(node))
        answers = ast.Name("__answers", ast.Load())
        return ast.Subscript(answers, ast.Constant(len(self.queries) - 1), ast.Load())

    def of_program(self, node):
        """Report whether an expression is a name of the program with calls, attributes and items of it."""
        while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
            node = node.func if isinstance(node, ast.Call) else node.value
        return isinstance(node, ast.Name) and node.id not in self.known and node.id not in self.bound

    def asks_value(self, node):
        """Report whether a call is a question to the result of a function. A class, by its capital, has its own methods."""
        value = getattr(node.func, "value", None)
        if getattr(node.func, "attr", "") not in PLAIN_QUESTIONS or not isinstance(value, ast.Call) or not self.of_program(value):
            return False
        return not getattr(value.func, "id", "x")[0].isupper()

    def visit_Call(self, node):
        if self.asks_value(node):
            node.func.value = self.visit(node.func.value)
            node.args = [self.visit(a) for a in node.args]
            return node
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        consumes = name in CONSUMERS and node.args and self.of_program(node.args[0])
        consumes = consumes or name in CLASS_QUESTIONS and len(node.args) == 2 and all(map(self.of_program, node.args))
        return self.take(node) if consumes or self.of_program(node) else self.generic_visit(node)

    def visit_Attribute(self, node):
        is_bound = any(isinstance(n, ast.Name) and n.id in self.bound for n in ast.walk(node))
        return self.take(node) if self.of_program(node) and not is_bound else self.generic_visit(node)

    visit_Subscript = visit_Attribute

    def visit_Name(self, node):
        return self.take(node) if self.of_program(node) else node


class Candidate(ast.NodeTransformer):
    """Gives the parameter of check its function."""

    def __init__(self, parameter, function):
        self.parameter, self.function = parameter, function

    def visit_Name(self, node):
        return ast.Name(self.function, node.ctx) if node.id == self.parameter else node


def body_of(test):
    """Return the statements of a test. Those of HumanEval are a function check, which gets the function to test."""
    body = ast.parse(test["assert"]).body
    checks = [s for s in body if isinstance(s, ast.FunctionDef) and s.name == "check" and len(s.args.args) == 1]
    if not test.get("entry") or not checks:
        return body
    all = [s for s in body if isinstance(s, (ast.Import, ast.ImportFrom))]
    renamed = Candidate(checks[0].args.args[0].arg, test["entry"])
    return all + [renamed.visit(s) for s in checks[0].body if not isinstance(s, (ast.Pass, ast.Expr))]


def split(test):
    """Return the imports, the statements and the queries of a test."""
    known, imports, asserts = set(dir(builtins)), [], []
    for statement in body_of(test):
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            imports.append(ast.unparse(statement))
            known.update((a.asname or a.name).split(".")[0] for a in statement.names)
        elif isinstance(statement, ast.Assert):
            asserts.append(statement)
        else:
            raise Unsupported("a test has imports and assert statements only")
    if not asserts:
        raise Unsupported("it asserts nothing")
    splitter, statements = Split(known), []
    for statement in asserts:
        splitter.bound = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
        splitter.bound |= {n.arg for n in ast.walk(statement) if isinstance(n, ast.arg)}
        statements.append(splitter.visit(ast.Assert(statement.test, None)))
    if not splitter.queries:
        raise Unsupported("it asks nothing of the program")
    return "\n".join(imports), statements, splitter.queries


def split_all(job):
    parts = []
    for test in job["tests"]:
        if "call" in test:
            call = test["call"]
            parts.append({"function": call["function"], "arguments": call["arguments"], "by_name": call["by_name"], "queries": [""]})
            continue
        try:
            imports, _, queries = split(test)
            parts.append({"imports": imports, "queries": queries})
        except (SyntaxError, ValueError, RecursionError, Unsupported) as e:
            parts.append({"wrong": str(e) or type(e).__name__})
    return parts


# Answer. What follows may be changed by the program: it decides about values only.

# The rows of function tests come with beginnings of programs that use such names without imports.
PRELUDE = "string re datetime collections heapq bisect copy math random itertools functools json builtins typing".split()


def answer(job):
    with open("solution.py", encoding="utf-8") as f:
        source = f.read()
    names = {"__name__": "solution"}
    if "function" in job:
        sys.setrecursionlimit(50000)
        for module in PRELUDE:
            exec("from %s import *\nimport %s, sys" % (module, module), names)
    exec(job.get("imports", ""), names)
    exec(compile(source, "solution.py", "exec"), names)
    if "function" not in job:
        return [encode(eval(query, names)) for query in job["queries"]]
    function, arguments = named(job["function"], names), job.get("arguments", [])
    if job.get("by_name") and takes(function, arguments[0]):
        return [encode(function(**arguments[0]))]
    return [encode(function(*arguments))]


def named(name, names):
    """Return a function, or a method of class Solution or of the class that stands before a point."""
    owner, _, name = name.replace("()", "").rpartition(".")
    of = names.get(owner or "Solution")
    if isinstance(of, type) and hasattr(of, name):
        return getattr(of(), name)
    if owner not in ("", "Solution"):
        raise NameError(owner)
    return names[name]


def takes(function, arguments):
    """Report whether the keys of an object are the names of a function's parameters."""
    try:
        of = inspect.signature(function)
        of.bind(**arguments)
    except (TypeError, ValueError):
        return False
    return all(p.kind != p.VAR_KEYWORD for p in of.parameters.values())


def items(values):
    return [encode(v) for v in values]


def pairs(d):
    return [[encode(k), encode(v)] for k, v in dict.items(d)]


def encode(v):
    """Return a value in JSON: None, a bool, an int, a finite float and a str as they are, others as [kind, …]."""
    kind = type(v)
    if v is None or kind is bool:
        return v
    if isinstance(v, enum.Enum) and not isinstance(v, (int, str)):
        return ["record", kind.__name__, [["name", v.name, True], ["value", encode(v.value), True]]]
    if isinstance(v, int):
        return int(v)
    if isinstance(v, float):
        return float(v) if math.isfinite(v) else ["float", str(float(v))]
    if isinstance(v, str):
        return str.__str__(v)
    if isinstance(v, complex):
        return ["complex", encode(v.real), encode(v.imag)]
    for plain in (bytes, bytearray):
        if isinstance(v, plain):
            return [plain.__name__, v.hex()]
    if isinstance(v, tuple) and hasattr(kind, "_fields"):
        return ["namedtuple", kind.__name__, list(kind._fields), items(v)]
    for plain in (list, tuple, set, frozenset):
        if isinstance(v, plain):
            return [plain.__name__, items(plain.__iter__(v))]
    if isinstance(v, collections.deque):
        return ["deque", items(v), v.maxlen]
    for mapping in (collections.Counter, collections.OrderedDict, collections.defaultdict, dict):
        if isinstance(v, mapping):
            return [mapping.__name__, pairs(v)]
    if isinstance(v, range):
        return ["range", v.start, v.stop, v.step]
    if isinstance(v, decimal.Decimal):
        return ["Decimal", str(v)]
    if isinstance(v, fractions.Fraction):
        return ["Fraction", str(v)]
    if isinstance(v, array.array):
        return ["array", v.typecode, items(v)]
    if isinstance(v, datetime.timedelta):
        return ["timedelta", v.days, v.seconds, v.microseconds]
    for moment in (datetime.datetime, datetime.date, datetime.time):
        if isinstance(v, moment):
            return [moment.__name__, v.isoformat()]
    for view in ("keys", "items", "values"):
        if kind.__name__ == "dict_" + view:
            return [view, items(v)]
    if hasattr(kind, "__next__"):
        first = list(itertools.islice(v, MOST_ITEMS + 1))
        return ["iterator", items(first[:MOST_ITEMS]), len(first) <= MOST_ITEMS]
    if kind.__module__ == "numpy" and getattr(v, "shape", None) == ():
        return encode(v.item())
    if dataclasses.is_dataclass(v) and not isinstance(v, type) and kind.__dataclass_params__.eq:
        return ["record", kind.__name__, [[f.name, encode(getattr(v, f.name)), f.compare] for f in dataclasses.fields(v)]]
    return ["other", kind.__name__, kind.__module__, callable(v)]


# Judge.


class Own:
    """A value of a class of the program, or a function. It equals no plain value, whatever the class says."""

    def __init__(self, name):
        self.__name = name

    def __eq__(self, other):
        if isinstance(other, (Own, Foreign, Record)):
            raise NoVerdict("values of type %s cannot be compared outside of the program" % self.__name)
        return False

    def refuse(self, *_):
        raise Refused("a value of type %s cannot be examined outside of the program" % self.__name)

    __hash__ = None
    __getattr__ = __instancecheck__ = __subclasscheck__ = refuse


class Callable(Own):
    """A function, a class, or another value of the program that can be called."""

    __call__ = Own.refuse


class Foreign:
    """A value of another type that stayed in the program's process."""

    def __init__(self, name):
        self.__name = name

    def __eq__(self, other):
        if isinstance(other, (Own, Foreign, Record)):
            raise NoVerdict("values of type %s cannot be compared outside of the program" % self.__name)
        if type(other).__module__ not in PLAIN:
            self.refuse()
        return False

    def refuse(self, *_):
        raise Refused("a value of type %s cannot be compared outside of the program" % self.__name)

    __bool__ = __lt__ = __le__ = __gt__ = __ge__ = __len__ = __iter__ = __contains__ = __getitem__ = __hash__ = refuse
    __getattr__ = __instancecheck__ = __subclasscheck__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __call__ = __float__ = refuse
    __int__ = __abs__ = __round__ = __format__ = refuse


class Large(Foreign):
    """A range or a number that would take too long to count or to write out. It can be compared as a whole."""

    def __init__(self, value):
        super().__init__(type(value).__name__)
        self.__value = value

    def __eq__(self, other):
        return self.__value == (other.__value if isinstance(other, Large) else other)


class Record:
    """An instance of a dataclass."""

    def __init__(self, name, fields):
        self.__name = name
        self.__compared = [(k, v) for k, v, is_compared in fields if is_compared]
        self.__dict__.update((k, v) for k, v, _ in fields)

    def __hash__(self):
        return hash(self.__name)

    def __eq__(self, other):
        return isinstance(other, Record) and (self.__name, self.__compared) == (other.__name, other.__compared)


def iterate(values, is_whole):
    yield from values
    if not is_whole:
        raise Refused("an iterator gives more than %d items" % MOST_ITEMS)


VIEWS = {"keys": lambda of: dict.fromkeys(of).keys(), "items": lambda of: dict(of).items(), "values": lambda of: dict(enumerate(of)).values()}


def decode(v):
    """Return the value that encode has written. It runs no code of the program."""
    if not isinstance(v, list):
        return v
    kind, *of = v
    if kind in ("list", "tuple", "set", "frozenset"):
        return getattr(builtins, kind)(map(decode, of[0]))
    if kind in ("dict", "Counter", "OrderedDict"):
        return (dict if kind == "dict" else getattr(collections, kind))({decode(k): decode(x) for k, x in of[0]})
    if kind == "defaultdict":
        return collections.defaultdict(None, {decode(k): decode(x) for k, x in of[0]})
    if kind == "namedtuple":
        return collections.namedtuple(of[0], of[1])(*map(decode, of[2]))
    if kind == "deque":
        return collections.deque(map(decode, of[0]), of[1])
    if kind in ("bytes", "bytearray"):
        return getattr(builtins, kind).fromhex(of[0])
    if kind == "float":
        return float(of[0])
    if kind == "complex":
        return complex(decode(of[0]), decode(of[1]))
    if kind == "range":
        return Large(range(*of)) if range(*of)[MOST_RANGE:] else range(*of)
    if kind == "Decimal":
        number = decimal.Decimal(of[0])
        return Large(number) if number.is_finite() and abs(number.adjusted()) >= MOST_EXPONENT else number
    if kind == "Fraction":
        return fractions.Fraction(of[0])
    if kind == "array":
        return array.array(of[0], map(decode, of[1]))
    if kind == "timedelta":
        return datetime.timedelta(*of)
    if kind in ("datetime", "date", "time"):
        return getattr(datetime, kind).fromisoformat(of[0])
    if kind in VIEWS:
        return VIEWS[kind](map(decode, of[0]))
    if kind == "iterator":
        return iterate([decode(x) for x in of[0]], of[1])
    if kind == "record":
        return Record(of[0], [(name, decode(x), is_compared) for name, x, is_compared in of[1]])
    name, module, is_callable = of
    if module not in ("solution", "builtins"):
        return Foreign(name)
    return Callable(name) if is_callable else Own(name)


class Tolerant(ast.NodeTransformer):
    """Replaces == and != by __near."""

    def visit_Compare(self, node):
        self.generic_visit(node)
        if len(node.ops) != 1 or not isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            return node
        near = ast.Call(ast.Name("__near", ast.Load()), [node.left, node.comparators[0]], [])
        return near if isinstance(node.ops[0], ast.Eq) else ast.UnaryOp(ast.Not(), near)


def nearness(tolerance):
    """Return a comparison for which floats may differ: by tolerance, or by that share of a float beyond 1."""

    def near(got, want):
        numbers = isinstance(got, (int, float)) and isinstance(want, (int, float))
        if tolerance and numbers and (isinstance(got, float) or isinstance(want, float)):
            largest = max(abs(got), abs(want)) if isinstance(got, float) and isinstance(want, float) else 1
            return got == want or largest < math.inf and abs(got - want) <= tolerance * max(1, largest)
        for kind in (list, tuple):
            if isinstance(got, kind) and isinstance(want, kind):
                return len(got) == len(want) and all(map(near, got, want))
        if isinstance(got, dict) and isinstance(want, dict):
            return got.keys() == want.keys() and all(near(got[k], want[k]) for k in got)
        return got == want

    return near


LISTED = (list, tuple, range, collections.deque, array.array, type({}.keys()), type({}.values()), type({}.items()), type(iterate([], True)))


def as_json(v):
    """Return a value as a file of JSON has it: sequences and iterators are lists, and keys are texts."""
    if isinstance(v, LISTED):
        return [as_json(x) for x in v]
    if isinstance(v, dict):
        return {k if isinstance(k, str) else json.dumps(k): as_json(x) for k, x in v.items()}
    return v


def check(test, answers, tolerance):
    """Return whether a test holds."""
    near, given = nearness(tolerance), [decode(json.loads(a)) for a in answers]
    if "call" in test:
        got, want = as_json(given[0]), test["call"]["want"]
        is_wrapped = test["call"]["wrapped"] and isinstance(want, list) and len(want) == 1
        return bool(near(got, want) or is_wrapped and near(got, want[0]))
    imports, statements, _ = split(test)
    names = {"__answers": given, "__near": near}
    exec(imports, names)
    module = ast.Module(statements, [])
    tree = ast.fix_missing_locations(Tolerant().visit(module) if tolerance else module)
    exec(compile(tree, "test", "exec"), names)
    return True


# Modules of plain values, and others of functions and types that make no values of their own.
PLAIN = {"builtins", "collections", "decimal", "fractions", "array", "datetime"}
TOOLS = {"math", "cmath", "itertools", "functools", "operator", "typing", "string", "re", "random", "copy", "heapq", "bisect", "statistics",
         "numbers", "inspect", "types", "json", "time", "sys", "__future__"}


def is_plain(test):
    """Report whether a test expects plain values: it imports no module with values of its own."""
    statements = body_of(test) if "assert" in test else []
    modules = [a.name for s in statements if isinstance(s, ast.Import) for a in s.names]
    modules += [s.module or "" for s in statements if isinstance(s, ast.ImportFrom)]
    return all(m.split(".")[0] in PLAIN | TOOLS for m in modules)


def verdict(test, answers, tolerance):
    if answers is None:
        return {"holds": False}
    try:
        return {"holds": check(test, answers, tolerance)}
    except NoVerdict as e:
        return {"holds": False, "open": str(e)}
    except Refused as e:
        return {"holds": False} if is_plain(test) else {"holds": False, "open": str(e)}
    except BaseException:
        return {"holds": False}


def main():
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)
    job = json.load(sys.stdin)
    out = os.dup(1)
    os.dup2(2, 1)  # what the program prints is no answer
    part = sys.argv[1]
    if part == "split":
        result = split_all(job)
    elif part == "answer":
        result = answer(job)
    else:
        result = [verdict(test, answers, job["tolerance"]) for test, answers in zip(job["tests"], job["answers"])]
    os.write(out, json.dumps(result).encode())


main()
