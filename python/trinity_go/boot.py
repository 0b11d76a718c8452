"""Starts the worker in a `python -c`. The first line of the input has its modules, so that they are those of the program that asks."""

import sys

sys.path[:] = [folder for folder in sys.path if folder]  # a user's json.py in the working directory is not ours

import importlib.abc
import importlib.util
import json
import linecache
import os

if sys.version_info < (3, 10):
    sys.exit("%s is Python %d.%d: functions of yours need 3.10 or later" % (sys.executable, *sys.version_info[:2]))
questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # what libraries read is no question
os.dup2(2, 1)  # what they print is no answer
sys.stdout = sys.stderr
first = json.loads(questions.readline())


class Modules(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds the modules of the first line before all others."""

    def path(self, name):
        base = name.replace(".", "/")
        return next((p for p in (base + "/__init__.py", base + ".py") if p in first["modules"]), None)

    def find_spec(self, name, path=None, target=None):
        at = self.path(name)
        if at is None:
            return None
        return importlib.util.spec_from_loader(name, self, origin=at, is_package=at.endswith("/__init__.py"))

    def get_source(self, name):
        return first["modules"][self.path(name)]

    def exec_module(self, module):
        at = self.path(module.__name__)
        text = first["modules"][at]
        linecache.cache[at] = (len(text), None, text.splitlines(True), at)
        exec(compile(text, at, "exec"), module.__dict__)


sys.meta_path.insert(0, Modules())
from trinity_go.worker import main

main(questions, answers, first["options"])
