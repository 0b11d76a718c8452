package trinity

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestMessageContent(t *testing.T) {
	for text, want := range map[string]string{
		`{"role":"user","content":"a"}`: "a",
		`{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`: "ab",
		`{"role":"assistant","content":null,"tool_calls":[]}`:                               "",
		`{"role":"assistant","tool_calls":[]}`:                                              "",
	} {
		var m Message
		if err := json.Unmarshal([]byte(text), &m); err != nil || m.Content != want || m.Role == "" {
			t.Errorf("%s: got %+v, %v, want content %q", text, m, err, want)
		}
	}
	for text, want := range map[string]string{
		`{"content":"a"}`:                                  `no "role"`,
		`{"role":"user","content":3}`:                      "number",
		`{"role":"user","content":[{"type":"image_url"}]}`: `part of type "image_url"`,
		`{"role":"user","content":["a"]}`:                  "string",
		`{"role":3}`:                                       "number",
	} {
		var m Message
		if err := json.Unmarshal([]byte(text), &m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
