package weights_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
	"github.com/trinity-go/trinity/weights"
)

// copies is a sampler with one copy of the weights, which may lie.
type copies struct {
	*trinitytest.Bandit
	check trinity.CheckCopy
	lie   func(version int64) bool // it keeps the old weights
	score func(logprob float32) float32
	most  int  // tokens that it scores; 0 is any number
	short bool // it scores a token less
}

func (*copies) Resident() {}

func (c *copies) Prove(_ bool, check trinity.CheckCopy) {
	c.check = check
}

func (c *copies) LoadWeights(ctx context.Context, dir string, version int64) error {
	if c.lie == nil || !c.lie(version) {
		if err := c.Bandit.LoadWeights(ctx, dir, version); err != nil {
			return err
		}
	}
	return c.check(ctx, version, "the copy", func(ctx context.Context, tokens []int32) ([]float32, error) {
		var out []float32
		if c.most > 0 && len(tokens) > c.most {
			return nil, fmt.Errorf("%d tokens", len(tokens))
		}
		for _, t := range tokens[1:] {
			out = append(out, c.score(c.logprob(t)))
		}
		if c.short {
			out = out[1:]
		}
		return out, nil
	})
}

// logprob returns the log-probability of a token under the weights that were loaded.
func (c *copies) logprob(token int32) float32 {
	top, err := c.Sample(context.Background(), trinity.Prompt{}, trinity.SamplingParams{TopLogprobs: 4, Temperature: 1, N: 1})
	if err != nil {
		panic(err)
	}
	for _, l := range top[0].TopLogprobs[0] {
		if l.Token == token {
			return l.Logprob
		}
	}
	panic(fmt.Sprint("no token ", token))
}

// The proof finds every copy that is not the version that was trained, as far as the noise lets it.
func TestProof(t *testing.T) {
	exact := func(l float32) float32 { return l }
	noisy := func(by float32) func(float32) float32 {
		return func(l float32) float32 {
			if l > -1.3863 { // half of the tokens, of four equally likely ones
				return l + by
			}
			return l - by
		}
	}
	late := func(from int64) func(int64) bool { return func(v int64) bool { return v >= from } }
	for _, c := range []struct {
		name  string
		copy  copies
		moves float64 // of a logit, from version to version
		want  string  // "" is proven
		at    int64   // the version that fails
	}{
		{"the same bits", copies{score: exact}, 0.01, "", 0},
		{"a server with short sequences", copies{score: exact, most: 15}, 0.01, "", 0},
		{"a server in bf16", copies{score: noisy(0.02)}, 0.5, "", 0},
		{"a server that keeps its first weights", copies{score: exact, lie: late(1)}, 0.01, "it still has version 0", 1},
		{"a server that stops taking weights", copies{score: exact, lie: late(2)}, 0.01, "it still has version 1", 2},
		{"one in bf16 that stops", copies{score: noisy(0.02), lie: late(2)}, 0.5, "it still has version 1", 2},
		{"one whose drift is below its noise", copies{score: noisy(0.02), lie: late(1)}, 0.001, "", 0},
		{"another model", copies{score: noisy(2)}, 0.01, "it has another model", 0},
		{"no numbers", copies{score: func(float32) float32 { return float32(math.NaN()) }}, 0.01, "it has another model", 0},
		{"too few numbers", copies{score: exact, short: true}, 0.01, "log-probabilities for", 0},
		{"weights that are damaged", copies{score: exact, lie: func(int64) bool { return false }}, 0.01, "were 1e-05 before", 2},
	} {
		trained := trinitytest.NewBandit(4)
		c.copy.Bandit = trinitytest.NewBandit(4)
		if strings.Contains(c.name, "damaged") {
			c.copy.score = func(l float32) float32 {
				if trained.Weights[1] > 1.5*c.moves {
					l -= 0.03
				}
				return l
			}
		}
		way, err := weights.Ways.Build("directory")
		if err != nil {
			t.Fatal(err)
		}
		reported := map[int64]trinity.Metrics{}
		failed, err := int64(0), error(nil)
		var sync weights.Synchronizer
		sync, err = way.Open(t.Context(), weights.Link{
			Engine: trained, Sampler: &c.copy, Current: true, Handover: weights.AtOnce, Timeout: time.Minute,
			Dir: filepath.Join(t.TempDir(), "cache"), Verify: true, Vocab: 4, Length: 16,
			Report: func(_ context.Context, version int64, m trinity.Metrics) error { reported[version] = m; return nil },
		})
		for v := int64(1); v <= 3 && err == nil; v++ {
			trained.Weights[1] += c.moves
			failed, err = v, sync.Publish(t.Context(), v)
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || failed != c.at) {
			t.Errorf("%s: version %d: %v, want %q at version %d", c.name, failed, err, c.want, c.at)
			continue
		}
		if c.want != "" {
			continue
		}
		for _, name := range []string{"sync/write", "sync/load", "sync/prove", "sync/probe_mean", "sync/probe_noise", "sync/probe_drift"} {
			if _, ok := reported[3][name]; !ok {
				t.Errorf("%s: version 3 reports %v, without %s", c.name, reported[3], name)
			}
		}
	}
}
