package weights_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/trinitytest"
	"github.com/trinity-go/trinity/weights"
)

// copies is a sampler with one copy of the weights, which may lie.
type copies struct {
	*trinitytest.Bandit
	check engine.CheckCopy
	lie   func(version int64) bool // it keeps the old weights
	score func(logprob float32) float32
	most  int   // tokens that it scores; 0 is any number
	short bool  // it scores a token less
	asked []int // tokens of each sequence
}

func (*copies) Resident() {}

func (c *copies) Prove(p engine.Proving) {
	c.check = p.Check
}

func (c *copies) LoadWeights(ctx context.Context, dir string, version int64) error {
	if c.lie == nil || !c.lie(version) {
		if err := c.Bandit.LoadWeights(ctx, dir, version); err != nil {
			return err
		}
	}
	return c.check(ctx, version, "the copy", func(ctx context.Context, tokens []int32) ([]float32, error) {
		var out []float32
		c.asked = append(c.asked, len(tokens))
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

// The proof finds every copy that is not the version that was trained, as far as the noise lets it,
// whether the trainer is in the same process or in another one.
func TestProof(t *testing.T) {
	t.Run("in one process", func(t *testing.T) { testProof(t, throughDirectory, "sync/write") })
	t.Run("over HTTP", func(t *testing.T) { testProof(t, throughFollower, "sync/transfer") })
}

// delivery delivers a version of the trained weights to a copy.
type delivery func(version int64) error

func throughDirectory(t *testing.T, trained *trinitytest.Bandit, to *copies) (delivery, map[int64]trinity.Metrics) {
	way, err := weights.Ways.Build("directory")
	if err != nil {
		t.Fatal(err)
	}
	reported := map[int64]trinity.Metrics{}
	var sync weights.Synchronizer
	return func(version int64) (err error) {
		if version > 0 {
			return sync.Publish(t.Context(), version)
		}
		sync, err = way.Open(t.Context(), weights.Link{
			Engine: trained, Sampler: to, Current: true, Handover: weights.AtOnce, Timeout: time.Minute,
			Dir: filepath.Join(t.TempDir(), "cache"), Probe: &weights.Probe{Vocab: 4, Length: 16}, Report: reporting(reported),
		})
		return err
	}, reported
}

func throughFollower(t *testing.T, trained *trinitytest.Bandit, to *copies) (delivery, map[int64]trinity.Metrics) {
	reported := map[int64]trinity.Metrics{}
	shelf := &weights.Shelf{Dir: t.TempDir(), Engine: trained, Probe: &weights.Probe{Vocab: 4, Length: 16}}
	follower := follow(t, shelf, to.LoadWeights)
	follower.Report = reporting(reported)
	follower.Prove(to, true, 0, func(line string) { t.Error(line) })
	return func(version int64) error {
		publish := shelf.Publish
		if version == 0 {
			publish = func(ctx context.Context, _ int64) error { return shelf.Open(ctx, 0, true) }
		}
		if err := publish(t.Context(), version); err != nil {
			return err
		}
		_, err := follower.Wait(t.Context(), version, false)
		return err
	}, reported
}

func reporting(to map[int64]trinity.Metrics) func(context.Context, int64, trinity.Metrics) error {
	return func(_ context.Context, version int64, m trinity.Metrics) error { to[version] = m; return nil }
}

func testProof(t *testing.T, connect func(*testing.T, *trinitytest.Bandit, *copies) (delivery, map[int64]trinity.Metrics), metric string) {
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
		deliver, reported := connect(t, trained, &c.copy)
		failed, err := int64(0), deliver(0)
		for v := int64(1); v <= 3 && err == nil; v++ {
			trained.Weights[1] += c.moves
			failed, err = v, deliver(v)
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || failed != c.at) {
			t.Errorf("%s: version %d: %v, want %q at version %d", c.name, failed, err, c.want, c.at)
			continue
		}
		if c.want != "" {
			continue
		}
		for _, name := range []string{metric, "sync/load", "sync/prove", "sync/probe_mean", "sync/probe_noise", "sync/probe_drift"} {
			if _, ok := reported[3][name]; !ok {
				t.Errorf("%s: version 3 reports %v, without %s", c.name, reported[3], name)
			}
		}
	}
}

// A version costs one sequence, and a short one of a copy whose noise is small. A model with short sequences
// has several.
func TestTokensOfAProof(t *testing.T) {
	exact := func(l float32) float32 { return l }
	for _, c := range []struct {
		length int
		score  func(float32) float32
		want   []int
	}{
		{4096, exact, []int{192, 65, 65}},
		{4096, func(l float32) float32 { return l - 0.02 }, []int{192, 192, 192}},
		{101, exact, []int{100, 100, 65, 65}},
		{41, exact, []int{40, 40, 40, 40, 40, 40, 26, 40, 26}},
		{4, exact, []int{3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3}},
	} {
		trained, to := trinitytest.NewBandit(4), &copies{Bandit: trinitytest.NewBandit(4), score: c.score}
		way, err := weights.Ways.Build("directory")
		if err != nil {
			t.Fatal(err)
		}
		sync, err := way.Open(t.Context(), weights.Link{
			Engine: trained, Sampler: to, Current: true, Handover: weights.AtOnce, Timeout: time.Minute,
			Dir: filepath.Join(t.TempDir(), "cache"), Probe: &weights.Probe{Vocab: 4, Length: c.length},
		})
		for v := int64(1); v <= 2 && err == nil; v++ {
			trained.Weights[1] += 0.5
			err = sync.Publish(t.Context(), v)
		}
		if err != nil || !slices.Equal(to.asked, c.want) {
			t.Errorf("sequences of at most %d tokens: scored %v, want %v; %v", c.length, to.asked, c.want, err)
		}
	}
}

// Versions of a trainer that publishes no scores are used without a proof. The follower says so once.
func TestVersionsWithoutScores(t *testing.T) {
	trained, copy := trinitytest.NewBandit(4), copies{Bandit: trinitytest.NewBandit(4)}
	shelf := &weights.Shelf{Dir: t.TempDir(), Engine: trained}
	follower := follow(t, shelf, copy.LoadWeights)
	var said []string
	follower.Prove(&copy, true, 0, func(line string) { said = append(said, line) })
	err := shelf.Open(t.Context(), 0, true)
	for v := int64(0); v < 3 && err == nil; v++ {
		_, err = follower.Wait(t.Context(), v, false)
		err = errors.Join(err, shelf.Publish(t.Context(), v+1))
	}
	if err != nil || len(said) != 1 || !strings.Contains(said[0], "version 0 has no probe.json") {
		t.Errorf("%v, said %q", err, said)
	}
}

// Scores that are damaged prove nothing: they are an error, as are those of an engine that has no
// numbers.
func TestScoresThatAreNone(t *testing.T) {
	for _, text := range []string{"{", "{}", `{"tokens": [[1, 2, 3]], "logprobs": [[-1]]}`, `{"tokens": [[1, 2, 3]]}`} {
		trained, copy := trinitytest.NewBandit(4), copies{Bandit: trinitytest.NewBandit(4)}
		shelf := &weights.Shelf{Dir: t.TempDir(), Engine: damaging{trained, text}}
		follower := follow(t, shelf, copy.LoadWeights)
		follower.Prove(&copy, true, 0, func(line string) { t.Error(line) })
		if err := shelf.Open(t.Context(), 0, true); err != nil {
			t.Fatal(err)
		}
		if _, err := follower.Wait(t.Context(), 0, false); err == nil || !strings.Contains(err.Error(), "probe.json, the trainer's scores") {
			t.Errorf("%s: %v", text, err)
		}
	}
	shelf := &weights.Shelf{Dir: t.TempDir(), Engine: diverged{trinitytest.NewBandit(4)}, Probe: &weights.Probe{Vocab: 4, Length: 16}}
	if err := shelf.Open(t.Context(), 0, true); err == nil || !strings.Contains(err.Error(), "its weights are no numbers any more") {
		t.Errorf("an engine without numbers: %v", err)
	}
}

// damaging writes other scores beside its weights.
type damaging struct {
	*trinitytest.Bandit
	text string
}

func (d damaging) SaveModel(ctx context.Context, dir string) error {
	return errors.Join(d.Bandit.SaveModel(ctx, dir), os.WriteFile(filepath.Join(dir, "probe.json"), []byte(d.text), 0o644))
}

// diverged is an engine whose log-probabilities are no numbers.
type diverged struct{ *trinitytest.Bandit }

func (diverged) Forward(_ context.Context, b *trinity.Batch, _ trinity.Streams) ([]trinity.TokenStats, error) {
	logprobs := make([]float32, len(b.Experiences[0].Tokens))
	for i := range logprobs {
		logprobs[i] = float32(math.NaN())
	}
	return []trinity.TokenStats{{Logprob: logprobs}}, nil
}
