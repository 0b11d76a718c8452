import os

import common
import smolagents

# The agent asks for tool_choice "required" by default, which the gateway refuses.
model = smolagents.OpenAIModel(
    "gpt-5", api_base=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"], tool_choice="auto"
)
agent = smolagents.ToolCallingAgent([smolagents.tool(common.add)], model, stream_outputs=common.STREAM, verbosity_level=0)
common.finish(str(agent.run(common.QUESTION)))
