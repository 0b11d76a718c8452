"""What the peers share: the assignment, and the lines by which the benchmark asks for runs and reads their results."""
import json
import os
import sys

with open(sys.argv[1]) as f:
    spec = json.load(f)

os.environ["OMP_NUM_THREADS"] = str(spec["threads"])
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import torch

torch.set_num_threads(spec["threads"])
torch.manual_seed(0)


def say(**message):
    print("BENCH " + json.dumps(message), flush=True)


def asked():
    """True when another run is wanted, False at the end."""
    return sys.stdin.readline().strip() == "run"


def serve(run):
    """The first run warms up, each of the others is asked for."""
    run(0)
    say(ready=True)
    number = 0
    while asked():
        number += 1
        say(**run(number))


def load(**kwargs):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(spec["peer_model"], dtype=torch.float32, **kwargs)
