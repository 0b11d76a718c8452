"""The calculator task with the OpenAI Agents SDK."""

import agents
import calculator
import openai


@agents.function_tool(name_override="CALC", description_override=calculator.DESCRIPTION)
def calc(expression: str) -> str:
    return calculator.calculate(expression)


EXAMPLE = [
    {"role": "user", "content": "What is 12 * 34?"},
    {"role": "assistant", "content": "CALC(12 * 34)"},
    {"type": "function_call_output", "call_id": "example", "output": "408"},
    {"role": "assistant", "content": "The answer is 408."},
]


shared = openai.AsyncOpenAI(base_url="http://each-task-has-its-own.invalid", api_key="each task has its own")


def make_rollout(task):
    # A new client would load the certificates again.
    client = shared.with_options(base_url=task["base_url"], api_key=task["api_key"])
    agent = agents.Agent(
        name="calculator", instructions=calculator.SYSTEM, tools=[calc],
        model=agents.OpenAIChatCompletionsModel("policy", client),
    )  # fmt: skip
    try:
        agents.Runner.run_sync(agent, EXAMPLE + [{"role": "user", "content": task["prompt"]}], max_turns=2)
    except agents.MaxTurnsExceeded:
        pass  # the last reply has no answer, and is scored as it is


agents.set_tracing_disabled(True)
calculator.serve(make_rollout)
