"""The OpenAI Agents SDK with its default model, over chat completions."""

import agents

agents.set_default_openai_api("chat_completions")
import openai_agents  # noqa: E402,F401
