"""The tool of both agents, and the chat that they begin with."""

import ast
import json
import math
import operator
import sys
import urllib.request

SYSTEM = "Use the tool CALC(a * b). You are told its result."
DESCRIPTION = "Computes an expression of numbers with + - * / ** and parentheses."
OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Pow: operator.pow,
    ast.UAdd: operator.pos, ast.USub: operator.neg,
}  # fmt: skip


def calculate(expression):
    """Returns the value of an expression, or a text that begins with "error:", as the environment calculator does."""
    try:
        tree = ast.parse(expression, mode="eval").body
        return format(value(tree), ".15g")
    except (SyntaxError, TypeError, KeyError):
        return "error: %s is no expression of numbers" % json.dumps(expression)
    except (ArithmeticError, ValueError):
        return "error: %s has no value" % json.dumps(expression)


def value(node):
    if isinstance(node, ast.Constant):
        number = float(node.value)
    elif isinstance(node, ast.UnaryOp):
        number = OPERATORS[type(node.op)](value(node.operand))
    elif isinstance(node, ast.BinOp):
        number = OPERATORS[type(node.op)](value(node.left), value(node.right))
    else:
        raise SyntaxError
    if not math.isfinite(number):
        raise ArithmeticError
    return number


def serve(agent):
    """Lets agent(task) make a rollout for each line of the input. The run's reward function scores it."""
    for line in sys.stdin:
        task = json.loads(line)
        agent(task)
        urllib.request.urlopen(task["base_url"] + "/commit", b"").close()  # ends the rollout
