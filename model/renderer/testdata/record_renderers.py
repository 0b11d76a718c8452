"""Records the bridges of the package renderers 0.1.12: the tokens between a reply and the next one, null where it renders
the chat anew.

renderers/tokenizer.json is the tokenizer beside it, with the special tokens of Qwen3 and Llama 3. The chats are those of record.py.
"""
import ast
import json
import os

import renderers
from renderers.llama_3 import Llama3Renderer
from renderers.qwen3 import Qwen3Renderer
from tokenizers import AddedToken, Tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "renderers")
SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>", "<|eom_id|>", "<think>", "</think>", "<tool_call>", "</tool_call>",
           "<tool_response>", "</tool_response>"]


class Adapter:
    name_or_path, unk_token_id, eos_token_id = "recorded", None, None

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def encode(self, text, add_special_tokens=False):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids, skip_special_tokens=False):
        return self.tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)

    def convert_tokens_to_ids(self, token):
        return self.tokenizer.token_to_id(token)


def chats():
    """Reads the chats of record.py, which itself needs transformers."""
    names = {}
    for node in ast.parse(open(os.path.join(HERE, "record.py")).read()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in ("TOOLS", "CALL", "AGAIN", "CHATS"):
            exec(compile(ast.Module([node], []), "record.py", "exec"), names)
    return names["CHATS"]


def main():
    tokenizer = Tokenizer.from_file(os.path.join(HERE, "tokenizer", "tokenizer.json"))
    tokenizer.add_special_tokens([AddedToken(s, special=True) for s in SPECIAL])
    tokenizer.save(os.path.join(OUT, "tokenizer.json"))
    tok = Adapter(tokenizer)
    out = []
    for template, renderer, end in [("qwen3", Qwen3Renderer(tok), "<|im_end|>"), ("llama31", Llama3Renderer(tok), "<|eot_id|>")]:
        for number, chat in enumerate(chats()):
            messages, tools = chat["messages"], chat.get("tools")
            replies = [i for i, m in enumerate(messages) if m["role"] == "assistant"]
            for i, j in zip(replies, replies[1:]):
                prompt = renderer.render_ids(messages[:i], tools=tools, add_generation_prompt=True)
                whole = renderer.render_ids(messages[: i + 1], tools=tools)
                if whole[: len(prompt)] != prompt:
                    continue
                reply = whole[len(prompt) : whole.index(tok.convert_tokens_to_ids(end), len(prompt))]
                for ended in (True, False):
                    completion = reply + [tok.convert_tokens_to_ids(end)] * ended
                    bridge = renderer.bridge_to_next_turn(prompt, completion, messages[i + 1 : j], tools=tools)
                    ids = bridge and bridge.token_ids[len(prompt) + len(completion) :]
                    out.append({"template": template, "chat": number, "reply": i, "ended": ended, "bridge": ids})
    with open(os.path.join(OUT, "bridges.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(o) for o in out) + "\n]\n")
    print(renderers.__version__, len(out), sum(o["bridge"] is None for o in out))


main()
