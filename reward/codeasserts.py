"""Assert statements of tests: split, answer and judge are three processes. Only answer has code of a model."""

import ast
import builtins
import json
import os
import sys


class Unsupported(Exception):
    pass


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

    def visit_Call(self, node):
        root = node.func
        while isinstance(root, (ast.Attribute, ast.Call, ast.Subscript)):
            root = root.func if isinstance(root, ast.Call) else root.value
        if isinstance(root, ast.Name) and root.id not in self.known and root.id not in self.bound:
            return self.take(node)
        return self.generic_visit(node)

    def visit_Name(self, node):
        if node.id in self.known or node.id in self.bound:
            return node
        return self.take(node)


def split(text):
    """Return the imports, the statements and the queries of a test."""
    known, imports, asserts = set(dir(builtins)), [], []
    for statement in ast.parse(text).body:
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
    for text in job["tests"]:
        try:
            imports, _, queries = split(text)
            parts.append({"imports": imports, "queries": queries, "wrong": ""})
        except (SyntaxError, ValueError, RecursionError, Unsupported) as e:
            parts.append({"imports": "", "queries": [], "wrong": str(e) or type(e).__name__})
    return parts


def answer(job):
    with open("solution.py", encoding="utf-8") as f:
        source = f.read()
    names = {"__name__": "solution"}
    exec(job["imports"], names)
    exec(compile(source, "solution.py", "exec"), names)
    return [repr(eval(query, names)) for query in job["queries"]]


def value(text):
    if len(text) > 1 << 16:
        raise ValueError("too long")
    if text in ("nan", "inf", "-inf"):
        return float(text)
    return ast.literal_eval(text)


def holds(text, answers):
    if answers is None:
        return False
    try:
        imports, statements, _ = split(text)
        names = {"__answers": [value(a) for a in answers]}
        exec(imports, names)
        tree = ast.fix_missing_locations(ast.Module(statements, []))
        exec(compile(tree, "test", "exec"), names)
    except BaseException:
        return False
    return True


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
        result = [holds(text, answers) for text, answers in zip(job["tests"], job["answers"])]
    os.write(out, json.dumps(result).encode())


main()
