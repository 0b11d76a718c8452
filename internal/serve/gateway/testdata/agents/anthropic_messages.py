import anthropic
import common

client = anthropic.Anthropic()
tool = {"name": "add", "description": "adds", "input_schema": common.PARAMETERS}
messages = [{"role": "user", "content": common.QUESTION}]
while True:
    request = {"model": "claude", "max_tokens": 100, "system": common.SYSTEM, "messages": messages, "tools": [tool]}
    if common.STREAM:
        with client.messages.stream(**request) as stream:
            reply = stream.get_final_message()
    else:
        reply = client.messages.create(**request)
    messages.append({"role": "assistant", "content": reply.content})
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": str(common.add(**block.input))}
        for block in reply.content
        if block.type == "tool_use"
    ]
    if not results:
        break
    messages.append({"role": "user", "content": results})
common.finish(reply.content[-1].text)
