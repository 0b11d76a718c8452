package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// Continue reads the last message alone, and the rest of the reply with the message before it.
func (bytesRenderer) Continue(m []trinity.Message, _ json.RawMessage) ([]int32, trinity.Renderer, error) {
	return bytesRenderer{}.Encode(m[len(m)-1].Content), rest{}, nil
}

// rest reads replies without their first character.
type rest struct{ bytesRenderer }

func (rest) ReadText(tokens []int32) trinity.Message {
	m := bytesRenderer{}.ReadText(tokens)
	m.Content = strings.TrimPrefix(m.Content, "a")
	return m
}

func (rest) Settled(tokens []int32, _ json.RawMessage) trinity.Message {
	m := rest{}.ReadText(tokens)
	m.Content = strings.TrimRight(m.Content, "\uFFFD")
	return m
}

// A reply continues the last message if the request says so, and what reads the rest reads it.
func TestAMessageIsContinued(t *testing.T) {
	web, _ := start(t)
	const chat = `"messages":[{"role":"user","content":"question"},{"role":"assistant","content":"ab"}]`
	for _, c := range []struct{ keys, want string }{
		{`"continue_final_message":true`, `"content":"£c!"`},
		{`"continue_final_message":true,"add_generation_prompt":false`, `"prompt_tokens":2`},
		{`"continue_final_message":true,"stream":true`, `"content":"£"`},
		{`"add_generation_prompt":true`, `"prompt_tokens":8`},
		{`"continue_final_message":false`, `"prompt_tokens":8`},
		{`"continue_final_message":true,"add_generation_prompt":true`, `"param":"continue_final_message"`},
		{`"add_generation_prompt":false`, `"param":"add_generation_prompt"`},
	} {
		if _, text := ask(t, web, chatPath, "t", `{`+chat+`,`+c.keys+`}`); !strings.Contains(text, c.want) {
			t.Errorf("%s: %s, want %s", c.keys, text, c.want)
		}
	}
}

// An error quotes a field and a value of one line. It never quotes a part of an object.
func TestErrorsQuoteFields(t *testing.T) {
	web, _ := start(t)
	long := strings.Repeat("x", 2*maxShown)
	for keys, want := range map[string]string{
		`"response_format":{"type":"json_schema","json_schema":{"name":"` + long + `"}}`: `response_format.type: \"json_schema\" is not`,
		`"response_format":{"json_schema":{"name":"x"}}`:                                 `"message":"response_format is not supported:`,
		`"tool_choice":{"type":"function","function":{"name":"f"}}`:                      `tool_choice.type: \"function\" is not supported`,
		`"tool_choice":"required"`:                                                       `tool_choice: \"required\" is not supported`,
		`"logit_bias":{"50256":-100,"1":2}`:                                              `has the key \"50256\"; want a token id, 0 to 255`,
		`"bad_words":["` + long + `"]`:                                                   `"message":"bad_words is not supported: leave it out"`,
		`"suffix":"` + long + `"`:                                                        `"message":"suffix is not supported: a reply continues`,
		`"thinking_token_budget": 5`:                                                     `thinking_token_budget: 5 is not supported`,
		`"response_format":{"type":"` + long + `"}`:                                      `"message":"response_format.type is not supported`,
	} {
		status, text := ask(t, web, chatPath, "t", `{"messages":[{"role":"user","content":"hi"}],`+keys+`}`)
		if status != 400 || !strings.Contains(text, want) || strings.Contains(text, "xxx") {
			t.Errorf("%s: %d %s, want %s", keys, status, text, want)
		}
	}
}

// writesTools is a renderer whose template has a place for tools.
type writesTools struct{ bytesRenderer }

func (writesTools) Render(m []trinity.Message, tools json.RawMessage, _ bool) ([]int32, error) {
	return bytesRenderer{}.Encode(string(tools) + m[0].Content), nil
}

// The first request whose tools the policy does not see is told, and no other.
func TestToolsThatTheTemplateLeavesOut(t *testing.T) {
	for _, c := range []struct {
		renderer trinity.Renderer
		lines    int
	}{{bytesRenderer{}, 1}, {writesTools{}, 0}} {
		web, model := start(t)
		var said []string
		model.server.Say, model.server.Renderer = func(line string) { said = append(said, line) }, c.renderer
		const tool = `,"tools":[{"type":"function","function":{"name":"f"}}]`
		for _, tools := range []string{``, `,"tools":[]`, tool, strings.Replace(tool, `"f"`, `"g"`, 1)} {
			if status, text := ask(t, web, chatPath, "t", `{"messages":[{"role":"user","content":"hi"}]`+tools+`}`); status != 200 {
				t.Errorf("%s: %d %s", tools, status, text)
			}
			if tools == `,"tools":[]` && len(said) > 0 {
				t.Errorf("without tools said %q", said)
			}
		}
		if len(said) != c.lines || c.lines > 0 && !strings.Contains(said[0], "chat template leaves out") {
			t.Errorf("said %q", said)
		}
	}
}
