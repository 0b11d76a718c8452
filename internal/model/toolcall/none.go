package toolcall

import (
	"encoding/json"

	"github.com/trinity-go/trinity"
)

// None is the format of models that call no tools: every reply is text.
const None = "none"

func init() { register(None, noCalls{}, func(string) bool { return false }) }

type noCalls struct{}

func (noCalls) Settled(text string) string { return text }

func (noCalls) Parse(text string, _ json.RawMessage) (string, []trinity.ToolCall, error) {
	return text, nil, nil
}
