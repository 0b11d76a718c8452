package toolcall

import (
	"encoding/json"

	"github.com/trinity-go/trinity"
)

const none = "none"

func init() { register(none, noCalls{}, func(string) bool { return false }) }

// noCalls takes every reply as text.
type noCalls struct{}

func (noCalls) Parse(text string, _ json.RawMessage) (string, []trinity.ToolCall, error) {
	return text, nil, nil
}
