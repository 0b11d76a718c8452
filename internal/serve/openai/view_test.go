package openai

import (
	"context"
	"testing"

	"github.com/trinity-go/trinity"
)

// A short reply is looked at after each token. The looks at a long one grow with its logarithm.
func TestStreamsLookSeldomAtLongReplies(t *testing.T) {
	looks := func(n int) (count int) {
		call := &Call{Sample: func(_ context.Context, p trinity.SamplingParams) ([]Reply, error) {
			for range n {
				p.OnToken(0, trinity.Sampled{Token: 7})
			}
			return make([]Reply, 1), nil
		}}
		last := 0
		_, err := call.Follow(t.Context(), trinity.SamplingParams{N: 1}, func(_ int, so *trinity.Completion) {
			tokens := so.Tokens
			if len(tokens) <= last {
				t.Errorf("%d tokens after %d", len(tokens), last)
			}
			last = len(tokens)
			count++
		})
		if err != nil || last < n-n/steps-1 {
			t.Errorf("%d of %d tokens: %v", last, n, err)
		}
		return count
	}
	if got := looks(100); got != 100 {
		t.Errorf("%d looks at 100 tokens, want one at each", got)
	}
	if got := looks(1 << 16); got > 3000 {
		t.Errorf("%d looks at 65,536 tokens, want at most 3,000", got)
	}
}
