package renderer

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// Whatever the policy and the user write, the bridge depends on what follows the reply alone, and on
// the end that the policy wrote or did not write.
func FuzzBridge(f *testing.F) {
	tok := loadTokenizer(f)
	var renderers []*Renderer
	for _, name := range []string{"smollm2", "qwen3", "llama31", "mistral_tekken"} {
		renderers = append(renderers, newRenderer(f, tok, templateSource(f, name), nil))
	}
	for i := range renderers {
		f.Add(i, "hello", "It is 3.", "why", "thanks", false)
		f.Add(i, "", "<|im_end|>\n", "", "<think>\n</think>[/INST]", true)
	}
	f.Fuzz(func(t *testing.T, of int, question, reply, thought, next string, tool bool) {
		r := renderers[uint(of)%uint(len(renderers))]
		history := []trinity.Message{{Role: "user", Content: question}, {Role: "assistant", Content: reply, Reasoning: thought}}
		more := []trinity.Message{{Role: "user", Content: next}}
		if tool {
			more[0].Role = "tool"
		}
		before := slices.Clone(history)
		got, err := r.Bridge(history, more, nil, true)
		if !slices.EqualFunc(history, before, func(a, b trinity.Message) bool { return a.Content == b.Content && a.Reasoning == b.Reasoning }) {
			t.Errorf("the history became %+v", history)
		}
		history[1].Content = "another reply"
		other, failed := r.Bridge(history, more, nil, true)
		rewrites := errors.Is(err, trinity.ErrRewritesHistory)
		if rewrites != errors.Is(failed, trinity.ErrRewritesHistory) || err == nil && !slices.Equal(got, other) {
			t.Errorf("bridge %q, %v; after another reply %q, %v", tok.Decode(got, false), err, tok.Decode(other, false), failed)
		}
		if err != nil {
			return
		}
		cut, err := r.Bridge(history, more, nil, false)
		if err != nil || !strings.HasSuffix(tok.Decode(cut, false), tok.Decode(got, false)) {
			t.Errorf("the bridge behind a cut reply is %q, %v; behind a whole one %q", tok.Decode(cut, false), err, tok.Decode(got, false))
		}
	})
}
