"""Records in forms.json what chat templates of transformers write for messages in each form that they may have: contents that are
null, absent, a text or parts; other keys; the three names of the reasoning; arguments of calls as text and as an object.

The messages pass through transformers' own names of the reasoning. A null content stays, as in transformers 4 and vLLM.
"""
import json
import os

from transformers.utils import chat_template_utils as templates

HERE = os.path.dirname(os.path.abspath(__file__))
CALL = {"id": "call00001", "type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
TEXT_CALL = {"id": "call00001", "type": "function", "function": {"name": "add", "arguments": "{\"a\":1}"}}
USER = {"role": "user", "content": "hi"}
TOOL = {"role": "tool", "tool_call_id": "call00001", "content": "3"}


def reply(**more):
    return {"role": "assistant", **more}


def parts(*texts):
    return [{"type": "text", "text": t} for t in texts]


EACH = "{%- for m in messages -%}"
END = "{%- endfor -%}"
WALK = EACH + "<{{ m.role }}>{%- for p in m.content -%}{%- if p.type == 'text' -%}{{ p.text }}{%- endif -%}{%- endfor -%}</>" + END
BOTH = (EACH + "<{{ m.role }}>{%- if m.content is string -%}{{ m.content }}{%- else -%}{%- for p in m['content'] -%}"
        "{%- if p['type'] == 'text' -%}({{ p['text'] | trim }}){%- endif -%}{%- endfor -%}{%- endif -%}</>" + END)
FIRST = EACH + "{{ m.content[0].text }};" + END
ITERABLE = (EACH + "{%- if m.content is not string and m.content is iterable -%}{{ m.content | map(attribute='text') | join('+') }}"
            "{%- else -%}{{ m.content }}{%- endif -%};" + END)
NONE = (EACH + "{%- if m['role'] == 'assistant' and m['content'] is none -%}{%- for t in m['tool_calls'] -%}"
        "<call>{{ t['function']['name'] }}</call>{%- endfor -%}{%- elif m['role'] == 'assistant' -%}{{ '<A>' + m['content'] }}"
        "{%- else -%}{{ m['content'] }}{%- endif -%}" + END)
IN = (EACH + "{%- if m.role == 'assistant' -%}{%- if 'content' in m and m.content is not none -%}T{{ m.content }}{%- else -%}"
      "C{{ m.tool_calls[0].function.name }}{%- endif -%}{%- endif -%}" + END)
STRING = (EACH + "{%- if m.role == 'assistant' -%}{%- if m.content is string -%}T{{ m.content }}{%- else -%}"
          "C{{ m.tool_calls[0].function.name }}{%- endif -%}{%- endif -%}" + END)
DEFINED = EACH + "{%- if m.content is defined -%}[{{ m.content }}]{%- else -%}-{%- endif -%}" + END
PLAN = (EACH + "<{{ m.role }}>{%- if m.tool_plan -%}<plan>{{ m.tool_plan }}</plan>{%- endif -%}{%- if m.thinking -%}"
        "<think>{{ m.thinking }}</think>{%- endif -%}{{ m.content }}</>" + END)
REASON = EACH + "{{ m.reasoning_content or '-' }}|{{ m.content }};" + END
GET = EACH + "{{ m.get('citations', []) | tojson }}{{ m['weight'] }}" + END
ALL = EACH + "{%- for k in m.keys() | sort -%}{{ k }}={{ m[k] }};{%- endfor -%}" + END
THINKS = (EACH + "{%- if m.content is string -%}{{ m.content }}{%- else -%}{%- for p in m.content -%}{%- if p.type == 'thinking' -%}"
          "[THINK]{{ p.thinking }}[/THINK]{%- elif p.type == 'text' -%}{{ p.text }}{%- endif -%}{%- endfor -%}{%- endif -%};" + END)
ARGUMENTS = EACH + "{%- if m.tool_calls -%}{{ m.tool_calls[0].function.arguments }}{%- else -%}{{ m.content }}{%- endif -%}" + END
JOINED = EACH + "{%- if m.tool_calls -%}{{ '<' + m.tool_calls[0].function.arguments + '>' }}{%- else -%}{{ m.content }}{%- endif -%}" + END
EITHER = (EACH + "{%- if m.tool_calls -%}{%- set a = m.tool_calls[0].function.arguments -%}{%- if a is string -%}{{ a }}{%- else -%}"
          "{{ a | tojson }}{%- endif -%}{%- else -%}{{ m.content }}{%- endif -%}" + END)
QUOTED = EACH + "{%- if m.tool_calls -%}{{ m.tool_calls[0].function.arguments | tojson }}{%- else -%}{{ m.content }}{%- endif -%}" + END

CONTENTS = [dict(content=None), dict(content=""), dict(content="x"), {}]
CASES = [(t, [USER, reply(tool_calls=[CALL], **c), TOOL]) for t in (NONE, IN, STRING, DEFINED) for c in CONTENTS]
CASES += [(t, [{"role": r, "content": parts("one", "two")}, reply(content=parts("ok"))])
          for t in (WALK, BOTH, FIRST, ITERABLE) for r in ("user", "system")]
CASES += [(t, [{"role": "user", "content": "one"}, reply(content=parts("ok")), {"role": "tool", "content": parts("3")}]) for t in (BOTH, ITERABLE)]
CASES += [(t, [{"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]}]) for t in (WALK, BOTH)]
CASES += [(PLAN, [reply(content="y", tool_plan="I will")]), (PLAN, [reply(content="y", reasoning_content="hm")]),
          (EACH + "{{ m.weight }}" + END, [reply(content="y", weight=0)]),
          (GET, [reply(content="y", weight=1.5, citations=[{"a": "<b>"}])]), (ALL, [reply(content="y", other=[1, None, True])])]
CASES += [(REASON, [reply(content="y", **{k: "hm"})]) for k in ("thinking", "reasoning", "reasoning_content")]
CASES += [(PLAN, [reply(content="y", **{k: "hm"})]) for k in ("thinking", "reasoning")]
CASES += [(THINKS, [USER, reply(content=[{"type": "thinking", "thinking": "hm"}, *parts("y", "z")])]), (THINKS, [USER, reply(content="y")])]
CASES += [(t, [reply(content="", tool_calls=[c])]) for t, c in [(ARGUMENTS, TEXT_CALL), (ARGUMENTS, CALL), (JOINED, TEXT_CALL),
                                                                (EITHER, TEXT_CALL), (EITHER, CALL), (QUOTED, CALL)]]

out = []
for template, messages in CASES:
    case = {"template": template, "messages": messages}
    try:
        case["text"] = templates._compile_jinja_template(template).render(messages=templates._alias_reasoning_fields(messages))
    except Exception as e:
        case["error"] = str(e)
    out.append(case)
with open(os.path.join(HERE, "forms.json"), "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in out) + "\n]\n")
print(len(out))
