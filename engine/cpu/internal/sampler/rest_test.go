package sampler

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

// TestCancelledAtRest cancels a request that waits while the sampler rests, and one that runs.
func TestCancelledAtRest(t *testing.T) {
	m := tiny(t, "llama")
	s := start(t, m, Options{})
	for _, runs := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		begun := make(chan struct{})
		p := trinity.SamplingParams{N: 2, MaxTokens: 40, IgnoreEOS: true}
		if runs {
			var resting bool
			p.OnToken = func(int, trinity.Sampled) {
				if !resting { // within a step, so that no other one begins
					s.inbox.rest(true)
					close(begun)
				}
				resting = true
			}
		} else {
			s.Rest()
			close(begun)
		}
		failed := make(chan error, 1)
		go func() {
			_, err := s.Sample(ctx, trinity.Prompt{Tokens: []int32{5, 6, 7}}, p)
			failed <- err
		}()
		<-begun
		cancel()
		select {
		case err := <-failed:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		case <-time.After(time.Minute):
			t.Fatal("the request waits for an update")
		}
		if err := s.Update(1, scaledTensors(m)); err != nil {
			t.Fatal(err)
		}
	}
	if got := sample(t, s, []int32{5, 6}, trinity.SamplingParams{MaxTokens: 3, IgnoreEOS: true}); len(got[0].Tokens) != 3 {
		t.Errorf("after the rest: %v", got)
	}
	checkPages(t, s)
}
