"""An agent that multiplies with a tool. It speaks the OpenAI API and nothing else."""

import json
import os
import re
import sys
import urllib.request

CHAT = [
    {"role": "system", "content": "Use the tool CALC(a * b). You are told its result."},
    {"role": "user", "content": "What is 12 * 34?"},
    {"role": "assistant", "content": "CALC(12 * 34)"},
    {"role": "user", "content": "Result: 408"},
    {"role": "assistant", "content": "The answer is 408."},
]


def ask(messages):
    """Returns the model's reply to a chat."""
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps({"model": "gpt-4o-mini", "messages": messages}).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
    )
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)["choices"][0]["message"]


def post_reward(reward):
    """Gives the rollout its reward. What the program prints has no effect, because the model may have written it."""
    urllib.request.urlopen(os.environ["OPENAI_BASE_URL"] + "/reward", json.dumps(reward).encode()).close()


def main():
    task = json.load(sys.stdin)
    messages = CHAT + [{"role": "user", "content": task["prompt"]}]
    reply = ask(messages)
    call = re.search(r"CALC\((\d{1,6}) \* (\d{1,6})\)", reply["content"])
    if call:
        result = int(call[1]) * int(call[2])
        messages += [reply, {"role": "user", "content": "Result: %d" % result}]
        reply = ask(messages)
    numbers = re.findall(r"\d+", reply["content"])
    right = float(bool(numbers) and numbers[-1] == task["truth"])
    post_reward({"value": right, "parts": {"accuracy": right, "called": float(bool(call))}})


main()
