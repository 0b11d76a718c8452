"""The rules of Gymnasium's text environments, recorded with gymnasium 1.4.0: python record_gymnasium.py > gymnasium.json.gz

A table has every transition [probability, state, reward, ended] of each state and action. An episode is played with random actions
after reset(seed): its states begin with the first one, so slips, dealt cards and changed destinations are recorded too.
"""
import gzip
import json
import random
import sys

import gymnasium
from gymnasium.envs.toy_text.frozen_lake import generate_random_map

SEEDS = [0, 1, 7, 42, 2**32 - 1, 2**32, 12345678901234567890]


def table(env):
    p = env.unwrapped.P
    return [[[[float(q), int(s), float(r), bool(t)] for q, s, r, t in p[state][action]] for action in sorted(p[state])] for state in sorted(p)]


def plain(seen):
    return [int(v) for v in seen] if isinstance(seen, tuple) else [int(seen)]


def episodes(env, seeds, limit, actions):
    out = []
    for seed in seeds:
        choose = random.Random(seed)
        seen, _ = env.reset(seed=seed)
        episode = {"seed": str(seed), "states": [plain(seen)], "actions": [], "rewards": [], "ended": False}
        while not episode["ended"] and len(episode["actions"]) < limit:
            action = choose.choice(actions)
            seen, reward, ended, _, _ = env.unwrapped.step(action)
            episode["states"].append(plain(seen))
            episode["actions"].append(action)
            episode["rewards"].append(float(reward))
            episode["ended"] = bool(ended)
        out.append(episode)
    return out


def record(name, args, seeds, limit, actions, with_table=True, **extra):
    env = gymnasium.make(name, **args, **extra)
    case = {"args": args, "episodes": episodes(env, seeds, limit, actions)}
    if with_table:
        case["table"] = table(env)
    return case


def lake(args, limit=40, **extra):
    return record("FrozenLake-v1", args, SEEDS + list(range(100, 120)), limit, [0, 1, 1, 2, 2, 3], **extra)


out = {
    "frozen_lake": [
        lake({"map_name": "4x4", "is_slippery": False}),
        lake({"map_name": "4x4", "is_slippery": True}),
        lake({"map_name": "8x8", "is_slippery": True}),
        lake({"map_name": "4x4", "is_slippery": True, "success_rate": 0.75}),
        lake({"desc": ["SFS", "FHF", "FFG"], "is_slippery": True}),
    ],
    "maps": [
        {"size": size, "p": p, "seed": str(seed), "rows": [str(row) for row in generate_random_map(size, p, seed)]}
        for size, p in [(2, 0.5), (4, 0.8), (5, 0.6), (8, 0.8), (9, 0.65)]
        for seed in SEEDS
    ],
    "cliff_walking": [
        record("CliffWalking-v1", {"is_slippery": slippery}, SEEDS, 60, [0, 0, 1, 1, 1, 2, 3]) for slippery in (False, True)
    ],
    "taxi": [
        record("Taxi-v4", args, SEEDS, 200, [0, 1, 2, 3, 4, 5])
        for args in ({}, {"is_rainy": True}, {"is_rainy": True, "rainy_probability": 0.5})
    ]
    + [record("Taxi-v4", {"fickle_passenger": True, "fickle_probability": 0.9}, list(range(60)), 200, [0, 0, 1, 2, 3, 4, 4, 4], with_table=False)],
    "blackjack": [
        record("Blackjack-v1", args, list(range(400)), 20, actions, with_table=False)
        for args, actions in (({"sab": True}, [0, 1]), ({"sab": False, "natural": False}, [0, 1, 1]), ({"sab": False, "natural": True}, [0, 0, 1]))
    ],
}
sys.stdout.buffer.write(gzip.compress(json.dumps(out, separators=(",", ":")).encode(), mtime=0))
