package trinitytest

import (
	"errors"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
)

// Trained is an engine under test and the sampler that it publishes to, of a vocabulary of at least 8 tokens and with room for 48 tokens.
type Trained struct {
	Engine  trinity.Engine
	Sampler trinity.Sampler
}

// Engine holds an engine to the contract of trinity.Engine. Each call of open gives the same first weights.
func Engine(t *testing.T, open func(t *testing.T) Trained) {
	for name, check := range map[string]func(*testing.T, func(*testing.T) Trained){
		"forward's shapes":                         engineForward,
		"a gradient does not depend on the cut":    engineCut,
		"a step uses up the gradient":              engineStep,
		"a resumed engine goes on":                 engineResume,
		"a model directory is written":             engineModel,
		"the sampler has the published version":    enginePublish,
		"a closed engine gives errors":             engineClosed,
		"bad batches are errors, not computations": engineBadBatch,
	} {
		t.Run(name, func(t *testing.T) { check(t, open) })
	}
}

func engineForward(t *testing.T, open func(*testing.T) Trained) {
	e, batch := open(t).Engine, wholeBatch()
	for _, want := range []trinity.Streams{{}, {Entropy: true}} {
		stats, err := e.Forward(t.Context(), batch, want)
		if err != nil || len(stats) != len(batch.Experiences) {
			t.Fatalf("%d statistics, %v; want one for each of %d experiences", len(stats), err, len(batch.Experiences))
		}
		for i, x := range batch.Experiences {
			s := stats[i]
			if len(s.Logprob) != len(x.Tokens) || want.Entropy && len(s.Entropy) != len(x.Tokens) || !want.Entropy && s.Entropy != nil {
				t.Fatalf("experience %d of %d tokens: %d logprobs, %d entropies (asked for: %v)", i, len(x.Tokens), len(s.Logprob), len(s.Entropy), want.Entropy)
			}
			for j, trained := range x.Mask {
				if trained != (s.Logprob[j] < 0) || want.Entropy && trained != (s.Entropy[j] > 0) {
					t.Errorf("experience %d, token %d, mask %v: logprob %v; want < 0 where the mask is true (and entropy > 0), else 0", i, j, trained, s.Logprob[j])
				}
			}
		}
	}
}

func engineCut(t *testing.T, open func(*testing.T) Trained) {
	whole := open(t).Engine
	before := logprobs(t, whole)
	_, norm := optimStep(t, whole, len(wholeBatch().Experiences), 1)
	after := logprobs(t, whole)
	for _, size := range []int{1, 2} {
		cut := open(t).Engine
		_, got := optimStep(t, cut, size, 1)
		if off := farthest(logprobs(t, cut), after); math.Abs(got/norm-1) > 1e-5 || off > 1e-3*farthest(after, before) {
			t.Errorf("micro-batches of %d: gradient norm %v, want %v; logprobs after the step are %.2g nats off", size, got, norm, off)
		}
	}
}

func engineStep(t *testing.T, open func(*testing.T) Trained) {
	e := open(t).Engine
	before := logprobs(t, e)
	loss, norm := optimStep(t, e, 2, 1)
	if norm <= 0 || farthest(logprobs(t, e), before) == 0 {
		t.Errorf("gradient norm %v; want one that changes the weights", norm)
	}
	if _, left := optimStep(t, e, 2, 0); left != 0 {
		t.Errorf("the step left a gradient of norm %v", left)
	}
	if lower, _ := optimStep(t, e, 2, 1); lower >= loss {
		t.Errorf("the loss went from %v to %v", loss, lower)
	}
}

func engineResume(t *testing.T, open func(*testing.T) Trained) {
	straight, dir := open(t), t.TempDir()
	publish(t, straight, 1)
	optimStep(t, straight.Engine, 2, 1)
	publish(t, straight, 2)
	if err := straight.Engine.SaveState(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	resumed := open(t)
	if err := resumed.Engine.LoadState(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if a, b := logprobs(t, straight.Engine), logprobs(t, resumed.Engine); !slices.Equal(a, b) {
			t.Fatalf("%d steps after resuming: logprobs are %.2g nats apart, want the same bits", i, farthest(a, b))
		}
		optimStep(t, straight.Engine, 2, 1)
		optimStep(t, resumed.Engine, 2, 1)
	}
	p := trinity.SamplingParams{Temperature: 1, MaxTokens: 8, Seed: 1}
	a, b := complete(t, straight.Sampler, samplerPrompt, p), complete(t, resumed.Sampler, samplerPrompt, p)
	if !slices.EqualFunc(a, b, sameCompletion) || a[0].Versions != b[0].Versions {
		t.Errorf("the sampler gives %v, after resuming %v", a, b)
	}
}

func engineModel(t *testing.T, open func(*testing.T) Trained) {
	dir := t.TempDir()
	if err := open(t).Engine.SaveModel(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) == 0 {
		t.Errorf("%d files, %v", len(files), err)
	}
}

func enginePublish(t *testing.T, open func(*testing.T) Trained) {
	e := open(t)
	p := trinity.SamplingParams{Temperature: 1, MaxTokens: 4, Seed: 1}
	var first []float32
	for _, v := range []int64{3, 4} {
		publish(t, e, v)
		optimStep(t, e.Engine, 2, 1) // does not reach the sampler
		c := complete(t, e.Sampler, samplerPrompt, p)[0]
		if c.Versions != [2]int64{v, v} || slices.Equal(c.Logprobs, first) {
			t.Errorf("versions %v, logprobs %v; want version %d with logprobs of its own", c.Versions, c.Logprobs, v)
		}
		first = c.Logprobs
	}
}

// engineClosed has a state to load, so that being closed is all that is wrong.
func engineClosed(t *testing.T, open func(*testing.T) Trained) {
	e, state := open(t).Engine, t.TempDir()
	if err := errors.Join(e.SaveState(t.Context(), state), e.Close()); err != nil {
		t.Fatal(err)
	}
	for verb, err := range everyVerb(t, e, state) {
		if err == nil {
			t.Errorf("%s of a closed engine gave no error", verb)
		}
	}
}
