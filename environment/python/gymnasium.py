import importlib

env = None


def make(id, kwargs, imports):
    global env
    for name in imports:
        importlib.import_module(name)
    import gymnasium

    if env is not None:
        env.close()
    env = gymnasium.make(id, **kwargs)
    space = env.action_space
    space.seed(0)
    answer = {"space": str(space), "example": plain(space.sample())}
    if type(space).__name__ == "Discrete":
        answer["first"], answer["count"] = int(getattr(space, "start", 0)), int(space.n)
    return answer


def seen(observation, render):
    answer = {"observation": plain(observation)}
    if render:
        answer["text"] = str(env.render())
    return answer


def reset(seed, render):
    observation, _ = env.reset(seed=seed)
    return seen(observation, render)


def step(action, render):
    space = env.action_space
    if hasattr(space, "shape") and space.shape:
        import numpy

        try:
            action = numpy.asarray(action, dtype=space.dtype)
        except (TypeError, ValueError):
            pass
    elif type(space).__name__ == "Tuple" and isinstance(action, list):
        action = tuple(action)
    if not space.contains(action):
        return {"invalid": True}
    observation, reward, terminated, truncated, info = env.step(action)
    answer = seen(observation, render)
    answer.update(reward=float(reward), terminated=bool(terminated), truncated=bool(truncated))
    for name in ("success", "is_success"):
        if name in info:
            answer["success"] = float(info[name])
    return answer


serve({"make": make, "reset": reset, "step": step})
