"""The calculator task with the Anthropic SDK."""

import anthropic
import calculator

TOOL = {
    "name": "CALC",
    "description": calculator.DESCRIPTION,
    "input_schema": {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
}
EXAMPLE = [
    {"role": "user", "content": "What is 12 * 34?"},
    {"role": "assistant", "content": "CALC(12 * 34)"},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "example", "content": "408"}]},
    {"role": "assistant", "content": "The answer is 408."},
]


shared = anthropic.Anthropic(base_url="http://each-task-has-its-own.invalid", api_key="each task has its own")


def make_rollout(task):
    # A new client would load the certificates again.
    client = shared.with_options(base_url=task["base_url"].removesuffix("/v1"), api_key=task["api_key"])
    messages = EXAMPLE + [{"role": "user", "content": task["prompt"]}]
    for _ in range(2):
        reply = client.messages.create(model="policy", max_tokens=100, system=calculator.SYSTEM, messages=messages, tools=[TOOL])
        calls = [block for block in reply.content if block.type == "tool_use"]
        if not calls:
            return
        results = [
            {"type": "tool_result", "tool_use_id": c.id, "content": calculator.calculate(c.input["expression"])} for c in calls
        ]
        messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": results}]


calculator.serve(make_rollout)
