"""Records the ids of chats whose last message is continued, from transformers' continue_final_message.

continue.json.gz holds, for every template and chat below, the ids, or the error where the template leaves out the message.
The tokenizer is the one beside it, which record.py makes.
"""
import gzip
import json
import os

from transformers import PreTrainedTokenizerFast

HERE = os.path.dirname(os.path.abspath(__file__))
TEMPLATES = ["qwen25", "qwen3", "llama31", "smollm2", "mistral_tools", "mistral_tekken", "qwen3_coder", "chatml_generation",
             "llama2_like", "gemma_like", "think_split"]
QUESTION = {"role": "user", "content": "What is the capital of France?"}
BEGUN = ["The capital of France is", "The sum is ", "  two\n", "<think>\nLet me", "<think>\nhmm\n</think>\n\nIt is", "{\"a\": 1,", "äöü 漢"]
CHATS = [{"messages": [QUESTION, {"role": "assistant", "content": text}]} for text in BEGUN] + [
    {"messages": [{"role": "system", "content": "Be brief."}, QUESTION, {"role": "assistant", "content": "It"}]},
    {"messages": [QUESTION, {"role": "assistant", "content": "Paris."}, QUESTION, {"role": "assistant", "content": "Again"}]},
    {"messages": [QUESTION, {"role": "assistant", "content": "It", "reasoning_content": "France"}]},
    {"messages": [QUESTION, {"role": "assistant", "content": "It"}], "kwargs": {"enable_thinking": False}},
]

tok = PreTrainedTokenizerFast(tokenizer_file=os.path.join(HERE, "tokenizer", "tokenizer.json"), bos_token="<s>", eos_token="</s>",
                              pad_token="<|endoftext|>")
out = []
for name in TEMPLATES:
    with open(os.path.join(HERE, "..", "internal", "jinja", "testdata", "templates", name + ".jinja")) as f:
        template = f.read()
    for chat in CHATS:
        record = {"template": name, **chat}
        try:
            record["prompt"] = tok.apply_chat_template(chat["messages"], chat_template=template, continue_final_message=True,
                                                       date_string="21 Nov 2026", return_dict=False, **chat.get("kwargs", {}))
        except Exception as e:
            record["error"] = f"{type(e).__name__}: {e}"
        out.append(record)
with gzip.GzipFile(os.path.join(HERE, "continue.json.gz"), "wb", mtime=0) as f:
    f.write(json.dumps(out, ensure_ascii=False).encode())
for r in out:
    print(r["template"], json.dumps(r["messages"][-1]["content"]), r.get("error", "")[:200] or len(r["prompt"]), repr(tok.decode(r.get("prompt", []))[-60:]))
