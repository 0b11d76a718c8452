import json

import common
import openai

client = openai.OpenAI()
tool = {"type": "function", "function": {"name": "add", "description": "adds", "parameters": common.PARAMETERS, "strict": True}}
messages = [{"role": "developer", "content": common.SYSTEM}, {"role": "user", "content": common.QUESTION}]
while True:
    if common.STREAM:
        with client.chat.completions.stream(model="gpt-5", messages=messages, tools=[tool]) as stream:
            for _ in stream:
                pass
            message = stream.get_final_completion().choices[0].message
    else:
        message = client.chat.completions.create(model="gpt-5", messages=messages, tools=[tool]).choices[0].message
    messages.append(message)
    if not message.tool_calls:
        break
    for call in message.tool_calls:
        messages.append({"role": "tool", "tool_call_id": call.id, "content": str(common.add(**json.loads(call.function.arguments)))})
common.finish(message.content)
