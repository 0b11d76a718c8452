package studio

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/trace"
)

// Roles come from the markers of a template; without one, from the mask.
func TestRolesOfTokens(t *testing.T) {
	for name, of := range map[string]struct{ tokens, learned, roles string }{
		"brackets": {
			"<s> [INST] Hi [/INST] Yo </s> [INST] Sum? [/INST] 2 </s>", "9 10",
			"- user user user assistant assistant user user user assistant assistant",
		},
		"brackets with tools": {
			"<s> [SYSTEM_PROMPT] Be [/SYSTEM_PROMPT] [AVAILABLE_TOOLS] [] [/AVAILABLE_TOOLS] [INST] Hi [/INST] [TOOL_CALLS] f </s> " +
				"[TOOL_RESULTS] 3 [/TOOL_RESULTS] ok </s>", "10 11 12 16 17",
			"- system system system system system system user user user assistant assistant assistant tool tool tool assistant assistant",
		},
		"plain":               {"1 + 1 = 2 .", "4 5", "prompt prompt prompt prompt assistant assistant"},
		"plain, two turns":    {"q a obs b", "1 3", "prompt assistant prompt assistant"},
		"plain with thoughts": {"q <think> hm </think> 2", "1 2 3 4", "prompt think think assistant assistant"},
		"plain with ends":     {"<s> q a </s> obs b </s>", "2 3 5", "- prompt assistant assistant prompt assistant -"},
		"nothing is learned":  {"q a", "", "- -"},
		"bracket in a text":   {"a[INST]b c", "1", "prompt assistant"},
		"named": {
			"<|im_start|> user\n Hi <|im_end|> \n <|im_start|> assistant\n Yo <|im_end|>", "7 8",
			"user user user user - assistant assistant assistant assistant",
		},
		"words": {"<s> <|user|> Hi <|assistant|> Yo", "4", "- user user assistant assistant"},
	} {
		t.Run(name, func(t *testing.T) {
			a, texts := &trace.Answer{}, map[int32]string{}
			for i, text := range strings.Split(of.tokens, " ") {
				a.Tokens, a.Mask, texts[int32(i)] = append(a.Tokens, int32(i)), append(a.Mask, false), text
			}
			for _, at := range strings.Fields(of.learned) {
				i, err := strconv.Atoi(at)
				if err != nil {
					t.Fatal(err)
				}
				a.Mask[i] = true
			}
			roles := spell(a, texts).Roles
			for i, role := range roles {
				if role == "" {
					roles[i] = "-"
				}
			}
			if found := strings.Join(roles, " "); found != of.roles {
				t.Errorf("%s\nwant %s", found, of.roles)
			}
		})
	}
}

// The calls of tools are read in the format of the run, or in that which the message tells.
func TestCallsOfTools(t *testing.T) {
	for name, of := range map[string]struct{ parser, pattern, tokens, want string }{
		"mistral": {
			"", "", `[INST] f? [/INST] [TOOL_CALLS] [{"name":"f","arguments":{"x":1}}] </s>`,
			`[{"at":3,"text":"","calls":[{"name":"f","arguments":{"x":1}}]}]`,
		},
		"llama": {
			"", "", "<|start_header_id|> assistant <|end_header_id|> \n\n {\"name\":\"f\",\"parameters\":{}} <|eot_id|>",
			`[{"at":0,"text":"","calls":[{"name":"f","arguments":{}}]}]`,
		},
		"coder": {
			"", "", "<|im_start|> assistant\n ok <tool_call>\n<function=f>\n<parameter=x>\n7\n</parameter>\n</function>\n</tool_call> <|im_end|>",
			`[{"at":0,"text":"ok","calls":[{"name":"f","arguments":{"x":7}}]}]`,
		},
		"pythonic": {
			"pythonic", "", "<|im_start|> assistant\n [f(x=2)] <|im_end|>",
			`[{"at":0,"text":"","calls":[{"name":"f","arguments":{"x":2}}]}]`,
		},
		"plain": {
			"plain", `RUN:(?P<name>\w+)\((?P<x>\d+)\)`, "<|im_start|> assistant\n RUN:f(3) <|im_end|>",
			`[{"at":0,"text":"","calls":[{"name":"f","arguments":{"x":3}}]}]`,
		},
		"of the user":        {"", "", `[INST] <tool_call>{"name":"f","arguments":{}}</tool_call> [/INST]`, `[]`},
		"broken":             {"", "", "<|im_start|> assistant\n <tool_call>{</tool_call> <|im_end|>", `[]`},
		"no format so named": {"other", "", "<|im_start|> assistant\n <tool_call>{} <|im_end|>", `[]`},
	} {
		t.Run(name, func(t *testing.T) {
			a, texts := &trace.Answer{}, map[int32]string{}
			for i, text := range strings.Split(of.tokens, " ") {
				a.Tokens, texts[int32(i)] = append(a.Tokens, int32(i)), text
			}
			set := &settings{flat: map[string]any{}}
			for key, value := range map[string]string{"parser": of.parser, "pattern": of.pattern} {
				if value != "" {
					set.flat["explorer.rollout_model.tool_call_"+key] = value
				}
			}
			s := spell(a, texts)
			found, err := json.Marshal(callsIn(s, set))
			if err != nil || string(found) != of.want {
				t.Errorf("%s, %v\nwant %s", found, err, of.want)
			}
		})
	}
}
