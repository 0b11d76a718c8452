"""A reward for trinity: score replies in Python.  reward_fn_args: {command: [python3, reward.py]}
With a file of your own that has a function `reward`: command: [python3, reward.py, mine.py]"""


def reward(completion, **row):
    """Return a number, a dict of named parts, or None for a reply that cannot be scored. It may be async.
    row has the columns of the row, and messages, prompt and truth unless columns have these names."""
    return {"right": float(completion.strip() == str(row.get("truth", "")).strip())}


# What follows talks to trinity: one question a line on standard input, one answer a line on standard output.
if __name__ == "__main__":
    import asyncio, importlib.util, inspect, json, math, os, sys, traceback

    questions = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # print() goes to plugins.log
    sys.stdout = sys.stderr
    if len(sys.argv) > 1:
        spec = importlib.util.spec_from_file_location("own_reward", sys.argv[1])
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        reward = module.reward
    takes = inspect.signature(reward).parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in takes.values())
    loop = asyncio.new_event_loop()
    for line in questions:
        try:
            q = json.loads(line)
            row = {**{k: q[k] for k in ("messages", "prompt", "truth")}, **(q["row"] or {})}
            row.pop("completion", None)
            got = reward(q["response"], **{k: v for k, v in row.items() if takes_all or k in takes})
            if inspect.isawaitable(got):
                got = loop.run_until_complete(got)
            if isinstance(got, dict):
                if not got:
                    raise ValueError("reward returned an empty dict: return None for a reply that cannot be scored")
                parts = {k: float(v) for k, v in got.get("parts", {k: v for k, v in got.items() if k != "reward"}).items()}
                value = got.get("reward", sum(parts.values()))
                answer = {"reward": None if value is None else float(value), "parts": parts}
            else:
                answer = None if got is None else float(got)
                parts = {"reward": answer or 0}
            if not all(map(math.isfinite, parts.values())):
                raise ValueError(f"reward returned a number that is not finite: {got!r}")
            text = json.dumps(answer, allow_nan=False)
        except Exception as e:
            traceback.print_exc()
            text = json.dumps({"error": f"{type(e).__name__}: {e}"})
        print(text, file=answers, flush=True)
