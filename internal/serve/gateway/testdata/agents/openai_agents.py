"""The OpenAI Agents SDK with its default model, over the Responses API."""

import asyncio

import agents
import common


async def main():
    agents.set_tracing_disabled(True)
    agent = agents.Agent(name="adder", instructions=common.SYSTEM, tools=[agents.function_tool(common.add)])
    if common.STREAM:
        result = agents.Runner.run_streamed(agent, common.QUESTION)
        async for _ in result.stream_events():
            pass
    else:
        result = await agents.Runner.run(agent, common.QUESTION)
    common.finish(result.final_output)


asyncio.run(main())
