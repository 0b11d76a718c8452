package anthropic

import (
	"encoding/json"
	"testing"
)

// A text as content is read as one block. Everything else keeps its value.
func TestRequestsAreReadAndWritten(t *testing.T) {
	for text, want := range map[string]string{
		`{"model":"m","messages":[{"role":"user","content":"hi"}],"system":"be brief"}`: `{"messages":[{"content":` +
			`[{"text":"hi","type":"text"}],"role":"user"}],"model":"m","system":[{"text":"be brief","type":"text"}]}`,
		`{"messages":[{"content":[{"id":"c","input":{"a":[1,2.50]},"name":"f","type":"tool_use"}],"role":"assistant"}],"model":"m"}`: "",
		`{"messages":[{"content":[{"content":"8","tool_use_id":"c","type":"tool_result"}],"role":"user"}],"model":"m"}`: `{"messages":` +
			`[{"content":[{"content":[{"text":"8","type":"text"}],"tool_use_id":"c","type":"tool_result"}],"role":"user"}],"model":"m"}`,
		`{"max_tokens":3,"messages":[],"model":"m","temperature":0,"thinking":{"type":"disabled"},"tool_choice":{"type":"none"}}`: "",
	} {
		var r Request
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if want == "" {
			want = text
		}
		if got, err := json.Marshal(r); err != nil || string(got) != want {
			t.Errorf("%s\nis written as\n%s, %v\nwant\n%s", text, got, err, want)
		}
	}
	var c Content
	if err := json.Unmarshal([]byte(`{"type":"text"}`), &c); err == nil {
		t.Error("a block without a list is read as content")
	}
}
