package toolcall

import "github.com/trinity-go/trinity"

const none = "none"

func init() { register(none, noCalls{}) }

// noCalls takes every reply as text.
type noCalls struct{}

func (noCalls) Parse(text string) (string, []trinity.ToolCall, error) { return text, nil, nil }
