package config

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/bridge"
)

// An algorithm type that a worker describes is one of ours, or an error of one line.
func FuzzDescribed(f *testing.F) {
	for _, seed := range []string{
		`{"kind": "algorithm", "algorithm": {"schema": "experience", "config": {"repeat_times": 2, "advantage_fn": "grpo"}}}`,
		`{"algorithm": {"schema": "sft", "use_critic": true, "config": {"kl_loss_fn_args": {"a": [1, null, 1e3]}}}}`,
		`{"algorithm": {"config": {"repeat_times": 1.5, "loss_agg_mode": []}}}`, `{"algorithm": {"config": {"repeat_times": -1}}}`,
		`{"algorithm": {}}`, `{"algorithm": {"config": "a: b"}}`, `{"algorithm": {"config": [1]}}`,
		`{"takes": ["logprob"], "arguments": [{"name": "a"}]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var d bridge.Described
		if strings.ContainsAny(text, "\n\r") || json.Unmarshal([]byte(text), &d) != nil || d.Algorithm == nil { // an answer is a line
			return
		}
		a, err := ofPython(d.Algorithm)
		switch {
		case err != nil && (strings.ContainsAny(err.Error(), "\n\r") || len(err.Error()) > 200):
			t.Errorf("%q: %q", text, err)
		case err == nil && (a.Schema != d.Algorithm.Schema || a.GroupSize < 1):
			t.Errorf("%q: %+v", text, a)
		}
	})
}
