"""What every peer shares: the assignment, and the lines by which the benchmark asks for runs and reads their results."""
import json
import sys

with open(sys.argv[1]) as f:
    spec = json.load(f)


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
