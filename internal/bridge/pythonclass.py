import importlib.util
import inspect
import math
import random
import re
import threading
import traceback

env = shown = full = None  # the object that plays; the path of its file as people know it, and in full
patience = 30.0
loop = None  # runs async methods


def line_of(thing):
    """Return "file:line" of a class or function of the file, else "file"."""
    try:
        return f"{shown}:{inspect.findsource(inspect.unwrap(thing))[1] + 1}"
    except (OSError, TypeError):
        return shown


def line_in(frames, otherwise):
    """Return "file:line" of the innermost of the frames that is in the file."""
    lines = [line for path, line in frames if path == full]
    return f"{shown}:{lines[-1]}" if lines else otherwise


def called(name, f, *args, **named):
    """Return what a function of the file returns. Its errors, and that it takes too long, are one line."""
    global loop
    main, ended = threading.main_thread().ident, threading.Event()

    def watch():
        if ended.wait(patience):
            return
        frames = list(traceback.walk_stack(sys._current_frames()[main]))[::-1]
        where = line_in([(frame.f_code.co_filename, line) for frame, line in frames], shown)
        give({"error": f"{where}: {name} has not returned after {patience:g} s (timeout): it is at this line"})
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    try:
        got = f(*args, **named)
        if inspect.isawaitable(got):
            if loop is None:
                import asyncio

                loop = asyncio.new_event_loop()
            got = loop.run_until_complete(got)
        return got
    except BaseException as e:
        where = line_in([(frame.filename, frame.lineno) for frame in traceback.extract_tb(e.__traceback__)], shown)
        if isinstance(e, SyntaxError) and e.filename == full:
            where = f"{shown}:{e.lineno}"
            e = f"SyntaxError: {e.msg}"
        else:
            e = traceback.format_exception_only(type(e), e)[-1].strip()
        raise Told(f"{where}: {name}: " + " ".join(e.split()))
    finally:
        ended.set()


def load(file, name, kwargs, timeout, log):
    """Load the class and make its object. Return whether reset takes a seed, and which columns it needs."""
    global env, shown, full, patience
    shown, full, patience = file, os.path.abspath(file), timeout
    if log:
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), 1)
        sys.stdout.reconfigure(line_buffering=True)
    sys.path.insert(0, os.path.dirname(full))
    spec = importlib.util.spec_from_file_location("trinity_environment", full)
    if spec is None:
        raise Told(f"{shown}: want a file of Python, .py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    called("loading the file", spec.loader.exec_module, module)
    of = chosen(module, name)
    for method, says in (("reset", "reset(self, **row), which begins an episode"), ("step", "step(self, text), which takes a reply")):
        if not callable(getattr(of, method, None)):
            raise Told(f"{line_of(of)}: class {of.__name__} has no method {says}")
    env = called(f"{of.__name__}({', '.join(kwargs)})", of, **kwargs)
    takes = inspect.signature(env.reset).parameters.values()
    needs = [p.name for p in takes if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return {"class": of.__name__, "needs": [n for n in needs if n != "seed"]}


def chosen(module, name):
    """Return the class of that name, else the only one with a method reset or step."""
    classes = {n: c for n, c in vars(module).items() if inspect.isclass(c) and not n.startswith("_")}
    if name:
        if name not in classes:
            raise Told(f"{shown}: there is no class {name}: the file has {', '.join(classes) or 'none'}")
        return classes[name]
    for has in (all, any):
        for own in (True, False):
            found = {n: c for n, c in classes.items()
                     if (c.__module__ == module.__name__) == own and has(callable(getattr(c, m, None)) for m in ("reset", "step"))}
            if own:  # a class that others are made of is none to play with
                found = {n: c for n, c in found.items() if not any(c is not d and issubclass(d, c) for d in found.values())}
            if len(found) > 1:
                raise Told(f"{shown}: several classes have reset and step: say which one with class: {' or '.join(found)}")
            if found:
                return next(iter(found.values()))
    raise Told(f"{shown}: there is no class with the methods reset(self, **row) and step(self, text)")


def rows():
    """Return the rows that the class or the file offers; null if it offers none."""
    has = inspect.getattr_static(type(env), "rows", None)
    if not inspect.isfunction(has) or inspect.signature(has).parameters:  # one without self is called as it is
        has = getattr(env, "rows", getattr(sys.modules["trinity_environment"], "rows", None))
    if has is None:
        return {"rows": None}
    if callable(has):
        has = called("rows", has)
    try:
        has = list(has)
    except TypeError:
        raise Told(f"{shown}: rows is of type {type(has).__name__}: want a list of dicts")
    for i, row in enumerate(has):
        try:
            if not isinstance(row, dict):
                raise TypeError(f"want a dict, got {row!r:.60}")
            json.dumps(row, allow_nan=False)
        except (TypeError, ValueError) as e:
            raise Told(f"{shown}: rows[{i}]: {e}")
    return {"rows": has}


def messages(value, method):
    """Return what a method tells the policy as messages."""
    if isinstance(value, str) and value.strip():
        return [{"role": "user", "content": value}]
    if isinstance(value, dict):
        value = [value]
    if isinstance(value, list) and value and all(
        isinstance(m, dict) and m.get("role") in ("system", "user", "assistant", "tool") and isinstance(m.get("content"), str) for m in value
    ):
        return [{"role": m["role"], "content": m["content"]} for m in value]
    raise Told(f"{line_of(getattr(env, method))}: {method} gives the policy {value!r:.60}: want a text that is not empty, "
               "or a list of messages, dicts with role and content")


def reset(row, seed):
    """Begin an episode, with the columns that reset takes. Equal seeds draw equal random numbers."""
    seed %= 1 << 32
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
    takes = inspect.signature(env.reset).parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in takes.values())
    given = {"seed": seed, **row}
    lacks = [n for n, p in takes.items() if n not in given and p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if lacks:
        raise Told(f"{line_of(env.reset)}: reset takes {', '.join(lacks)}, and the row has {', '.join(row) or 'no columns'}: "
                   "add the column, or give the parameter a default")
    given = {n: v for n, v in given.items() if n in takes or takes_all and n in row}
    got = called("reset", env.reset, **given)
    if isinstance(got, tuple) and len(got) == 2 and isinstance(got[1], dict):  # as Gymnasium returns it
        got = got[0]
    return {"messages": messages(got, "reset")}


def step(text):
    """Take a reply."""
    got = called("step", env.step, text)
    where = line_of(env.step)
    if not isinstance(got, (tuple, list)) or len(got) not in (3, 4, 5):
        raise Told(f"{where}: step returned {got!r:.60}: want (text, reward, done), "
                   "or as Gymnasium (text, reward, terminated, truncated, info)")
    says, reward, done = got[:3]
    truncated = got[3] if len(got) == 5 else False
    info = got[-1] if len(got) > 3 else {}
    for name, flag in (("done", done), ("truncated", truncated)):
        if not (isinstance(flag, bool) or type(flag).__name__ in ("bool_", "bool")):
            raise Told(f"{where}: step returned {flag!r:.60} as {name}: want True or False")
    try:
        reward = None if reward is None else float(reward)
        if isinstance(got[1], str) or reward is not None and not math.isfinite(reward):
            raise ValueError
    except (TypeError, ValueError):
        raise Told(f"{where}: step returned {got[1]!r:.60} as reward: want a finite number, or None for a reply that is not scored")
    ends = bool(done) or bool(truncated)
    answer = {"reward": reward, "done": bool(done), "truncated": bool(truncated), "metrics": metrics(info)}
    answer["messages"] = [] if ends and (says is None or says == "") else messages(says, "step")
    return answer


def metrics(info):
    """Return the numbers of an info."""
    if not isinstance(info, dict):
        raise Told(f"{line_of(env.step)}: step returned {info!r:.60} as info: want a dict")
    numbers = {}
    for name, value in info.items():
        try:
            if isinstance(name, str) and re.fullmatch(r"[\w.-]+", name) and not isinstance(value, str) and math.isfinite(float(value)):
                numbers[name] = float(value)
        except (TypeError, ValueError):
            pass
    return numbers


serve({"load": load, "rows": rows, "reset": reset, "step": step})
if callable(getattr(env, "close", None)):
    called("close", env.close)
