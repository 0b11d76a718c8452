import hashlib
import os
import re
import shutil
import tempfile

import textworld

env = None
kept = tempfile.TemporaryDirectory()
INFOS = textworld.EnvInfos(objective=True, description=True, admissible_commands=True, won=True, lost=True, max_score=True, score=True)


def made(options, seed, folder):
    """Return the file of the game with these options, which is made once for each folder."""
    folder = folder or kept.name
    key = hashlib.sha256(repr((sorted(options.items()), seed, textworld.__version__)).encode()).hexdigest()[:20]
    path = os.path.join(folder, key)
    if not os.path.exists(path):
        wanted = textworld.GameOptions()
        for name, value in options.items():
            if not hasattr(type(wanted), name) and name not in vars(wanted):
                raise ValueError(f"make: textworld.GameOptions has no {name}")
            setattr(wanted, name, value)
        wanted.seeds = seed % (1 << 31)
        os.makedirs(folder, exist_ok=True)
        own = tempfile.mkdtemp(dir=folder)
        wanted.path = os.path.join(own, "game.z8")
        textworld.make(wanted)
        try:
            os.rename(own, path)
        except OSError:  # another process was first
            shutil.rmtree(own)
    return os.path.join(path, "game.z8")


def text(feedback):
    """Return what a game says without its prompt and status line."""
    return re.sub(r"\n>[^\n]*\Z", "", (feedback or "").rstrip()).strip()


def seen(state, said):
    return {"text": said, "commands": sorted(state.admissible_commands or []), "won": bool(state.won), "lost": bool(state.lost)}


def reset(game, make, seed, folder):
    global env
    if env is not None:
        env.close()
    env = textworld.start(game or made(make, seed, folder), INFOS)
    if hasattr(env, "seed"):
        env.seed(seed % (1 << 31))
    state = env.reset()
    said = text(state.feedback)
    if state.objective:  # the game begins with a banner
        said = state.objective + "\n\n" + text(state.description)
    return seen(state, said)


def step(command):
    state, reward, done = env.step(command)
    answer = seen(state, text(state.feedback))
    answer.update(reward=float(reward or 0), done=bool(done))
    return answer


serve({"reset": reset, "step": step})
