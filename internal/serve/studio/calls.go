package studio

import (
	"encoding/json"
	"strings"

	"github.com/trinity-go/trinity/internal/model/toolcall"
	"github.com/trinity-go/trinity/internal/trace"
)

// called is a message of the assistant that calls tools.
type called struct {
	At    int       `json:"at"`   // its first token
	Text  string    `json:"text"` // around the calls
	Calls []oneCall `json:"calls"`
}

// oneCall is one call of a tool.
type oneCall struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// callsIn returns the messages that call tools in the format of a run's settings. Where these leave it
// open, the message itself tells the format.
func callsIn(s *trace.Spelled, set *settings) []called {
	key := "explorer.rollout_model.tool_call_"
	chosen, pattern := set.value(key+"parser"), set.value(key+"pattern")
	all := []called{}
	for at, end := 0, 0; at < len(s.Roles); at = end {
		var said strings.Builder
		for end = at; end < len(s.Roles) && s.Roles[end] == s.Roles[at]; end++ {
			if !s.IsFrame(end) {
				said.WriteString(s.Texts[end])
			}
		}
		if s.Roles[at] != "assistant" {
			continue
		}
		text, format := said.String(), chosen
		if s.Special[at] {
			text = trace.Headless(text)
		}
		if format == toolcall.Auto && strings.HasPrefix(strings.TrimLeft(text, "[ \n"), "{") { // its marks are in the template alone
			format = "llama3_json"
		}
		_, parser, err := toolcall.Open(format, pattern, text)
		if err != nil { // of a run of another version
			continue
		}
		content, calls, err := parser.Parse(text, nil)
		if err != nil || len(calls) == 0 {
			continue
		}
		one := called{At: at, Text: content}
		for _, c := range calls {
			one.Calls = append(one.Calls, oneCall{c.Name, object(string(c.Arguments))})
		}
		all = append(all, one)
	}
	return all
}
