import asyncio
import os

import common
from agentscope.agent import Agent
from agentscope.credential import OpenAICredential
from agentscope.message import UserMsg
from agentscope.model import OpenAIChatModel
from agentscope.permission import PermissionBehavior, PermissionDecision
from agentscope.tool import FunctionTool, Toolkit

key = OpenAICredential(api_key=os.environ["OPENAI_API_KEY"], base_url=os.environ["OPENAI_BASE_URL"])
allowed = PermissionDecision(behavior=PermissionBehavior.ALLOW, message="it only adds")
agent = Agent(
    "adder", common.SYSTEM, OpenAIChatModel(key, "gpt-5", stream=common.STREAM), Toolkit([FunctionTool(common.add, permission=allowed)])
)
reply = asyncio.run(agent.reply(UserMsg("user", common.QUESTION)))
common.finish(reply.get_text_content())
