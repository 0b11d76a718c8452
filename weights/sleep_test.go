package weights_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/trinitytest"
	"github.com/trinity-go/trinity/weights"
)

// sharing is a sampler that shares GPUs with an engine. Both note what they do.
type sharing struct {
	*trinitytest.Bandit
	notes *[]string
}

func (s sharing) note(what string) { *s.notes = append(*s.notes, what) }

func (s sharing) Sleep(context.Context) error { s.note("sleep"); return nil }
func (s sharing) Wake(context.Context) error  { s.note("wake"); return nil }

func (s sharing) LoadWeights(ctx context.Context, dir string, version int64) error {
	s.note("load")
	return s.Bandit.LoadWeights(ctx, dir, version)
}

func (s sharing) Prove(engine.Proving) {}

// noting is the engine.
type noting struct {
	*trinitytest.Bandit
	sharing
}

func (n noting) SaveModel(ctx context.Context, dir string) error {
	n.note("write")
	return n.Bandit.SaveModel(ctx, dir)
}

func (n noting) Forward(ctx context.Context, b *trinity.Batch, want trinity.Streams) ([]trinity.TokenStats, error) {
	if last := len(*n.notes) - 1; last < 0 || (*n.notes)[last] != "score" {
		n.note("score")
	}
	return n.Bandit.Forward(ctx, b, want)
}

// A trainer that waits for the explorer leaves it the GPUs meanwhile. It frees them itself when it has
// written a version: no later computation takes them again.
func TestTurnsOnSharedGPUs(t *testing.T) {
	// Also a trainer that takes no batch before: one that catches up when it resumes.
	for waits, want := range map[bool][]string{
		true:  {"wake", "sleep", "score", "write", "load"},
		false: {"sleep", "score", "write", "load"},
	} {
		synctest.Test(t, func(t *testing.T) {
			way, err := weights.Ways.Build("directory")
			if err != nil {
				t.Fatal(err)
			}
			var notes []string
			sampler := sharing{trinitytest.NewBandit(4), &notes}
			trainer := noting{trinitytest.NewBandit(4), sampler}
			sync, err := way.Open(t.Context(), weights.Link{
				Engine: trainer, Sampler: sampler, Current: true, Timeout: time.Minute, Dir: t.TempDir(), Probe: &weights.Probe{Vocab: 4, Length: 8},
			})
			if err != nil {
				t.Fatal(err)
			}
			notes = nil
			ended := make(chan error, 2)
			publish := func() { ended <- sync.Publish(t.Context(), 1) }
			explore := func() {
				_, err := sync.Wait(t.Context(), 1, false)
				ended <- err
			}
			first, second := explore, publish
			if waits {
				first, second = publish, explore
			}
			go first()
			synctest.Wait()
			go second()
			for range 2 {
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(notes, want) {
				t.Errorf("trainer waits: %t: %q, want %q", waits, notes, want)
			}
		})
	}
}
