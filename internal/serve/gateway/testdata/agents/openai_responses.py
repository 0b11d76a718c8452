import json

import common
import openai

client = openai.OpenAI()
tool = {"type": "function", "name": "add", "description": "adds", "parameters": common.PARAMETERS, "strict": True}
items, before = [{"role": "user", "content": common.QUESTION}], None
while True:
    request = {"model": "gpt-5", "instructions": common.SYSTEM, "input": items, "tools": [tool], "previous_response_id": before}
    if common.STREAM:
        with client.responses.stream(**request) as stream:
            for _ in stream:
                pass
            response = stream.get_final_response()
    else:
        response = client.responses.create(**request)
    kept = client.responses.retrieve(response.id)
    assert kept.id == response.id and kept.output_text == response.output_text, kept
    calls = [item for item in response.output if item.type == "function_call"]
    if not calls:
        break
    before = response.id
    items = [{"type": "function_call_output", "call_id": c.call_id, "output": str(common.add(**json.loads(c.arguments)))} for c in calls]
common.finish(response.output_text)
