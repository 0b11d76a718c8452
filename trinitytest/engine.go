package trinitytest

import (
	"errors"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
)

// Trained is an engine under test with the sampler that gets its versions. The vocabulary has at
// least 8 tokens, and sequences may have 48.
type Trained struct {
	Engine  engine.Trainer
	Sampler trinity.Sampler // nil with a value head
	Value   bool            // the engine has a value head
	Targets bool            // the engine computes Experience.Targets; else they are errors
	Remote  bool            // others have the gradient, or parts of it: a state between ForwardBackward and OptimStep is an error
	Plain   bool            // the engine gives log-probabilities alone: entropies and discriminators are errors
}

// streams returns the streams to ask the engine for.
func (e Trained) streams() trinity.Streams { return trinity.Streams{Value: e.Value} }

// loss returns a loss that can train the engine.
func (e Trained) loss(scale float64) trinity.Loss {
	if e.Value {
		return regression{scale}
	}
	return likelihood{scale}
}

// Engine checks the contract of engine.Trainer. Each call of open returns an engine with the same
// initial weights.
func Engine(t *testing.T, open func(t *testing.T) Trained) {
	for name, check := range map[string]func(*testing.T, func(*testing.T) Trained){
		"forward returns the right shapes":            engineForward,
		"a gradient does not depend on micro-batches": engineCut,
		"a step uses up the gradient":                 engineStep,
		"a discarded gradient changes nothing":        engineDiscard,
		"targets take the place of tokens":            engineTargets,
		"a resumed engine continues":                  engineResume,
		"a state holds the gradient":                  engineResumeGradient,
		"a model directory is written":                engineModel,
		"the sampler has the published version":       enginePublish,
		"a closed engine gives errors":                engineClosed,
		"bad batches are errors, not computations":    engineBadBatch,
	} {
		t.Run(name, func(t *testing.T) { check(t, open) })
	}
}

func engineForward(t *testing.T, open func(*testing.T) Trained) {
	e, batch := open(t), wholeBatch()
	if e.Value {
		engineValues(t, e.Engine, batch)
		return
	}
	for _, want := range []trinity.Streams{{}, {Entropy: true}, {Discriminator: true}} {
		stats, err := e.Engine.Forward(t.Context(), batch, want)
		if e.Plain && want != (trinity.Streams{}) {
			if err == nil {
				t.Errorf("an engine of log-probabilities gave %+v", want)
			}
			continue
		}
		if err != nil || len(stats) != len(batch.Experiences) {
			t.Fatalf("%d statistics, %v; want one for each of %d experiences", len(stats), err, len(batch.Experiences))
		}
		for i, x := range batch.Experiences {
			s := stats[i]
			if len(s.Logprob) != len(x.Tokens) || want.Entropy && len(s.Entropy) != len(x.Tokens) || !want.Entropy && s.Entropy != nil {
				t.Fatalf("experience %d of %d tokens: %d logprobs, %d entropies (asked for: %v)", i, len(x.Tokens), len(s.Logprob),
					len(s.Entropy), want.Entropy)
			}
			if n := len(s.Discriminator); want.Discriminator != (n > 0) || n > 0 && n != len(x.Tokens) {
				t.Fatalf("experience %d of %d tokens: %d discriminators (asked for: %v)", i, len(x.Tokens), n, want.Discriminator)
			}
			for j, trained := range x.Mask {
				if trained != (s.Logprob[j] < 0) || want.Entropy && trained != (s.Entropy[j] > 0) {
					t.Errorf("experience %d, token %d, mask %v: logprob %v; want < 0 where the mask is true (and entropy > 0), else 0", i,
						j, trained, s.Logprob[j])
				}
			}
		}
	}
}

// engineValues checks the shapes of a value head, and that each value belongs to the right state.
func engineValues(t *testing.T, e engine.Trainer, batch *trinity.Batch) {
	if _, err := e.Forward(t.Context(), batch, trinity.Streams{}); err == nil {
		t.Error("a value head gave log-probabilities")
	}
	stats, err := e.Forward(t.Context(), batch, trinity.Streams{Value: true})
	if err != nil || len(stats) != len(batch.Experiences) {
		t.Fatalf("%d statistics, %v; want one for each of %d experiences", len(stats), err, len(batch.Experiences))
	}
	for i, x := range batch.Experiences {
		if s := stats[i]; len(s.Value) != len(x.Tokens) || s.Logprob != nil || s.Entropy != nil {
			t.Fatalf("experience %d of %d tokens: %d values, %d logprobs, %d entropies", i, len(x.Tokens), len(s.Value),
				len(s.Logprob), len(s.Entropy))
		}
		for j, trained := range x.Mask {
			if trained != (stats[i].Value[j] != 0) {
				t.Errorf("experience %d, token %d, mask %v: value %v; want 0 where the mask is false", i, j, trained, stats[i].Value[j])
			}
		}
	}
	first := batch.Experiences[0].PromptLen
	if a, b := stats[0].Value[first], stats[1].Value[first]; math.Abs(float64(a-b)) > 1e-5 {
		t.Errorf("values %v and %v at the first tokens after one prompt; want values of the same state, that before these tokens", a, b)
	}
}

func engineCut(t *testing.T, open func(*testing.T) Trained) {
	whole := open(t)
	before := streamed(t, whole)
	_, norm := optimStep(t, whole, len(wholeBatch().Experiences), 1)
	after := streamed(t, whole)
	for _, size := range []int{1, 2} {
		cut := open(t)
		_, got := optimStep(t, cut, size, 1)
		if off := farthest(streamed(t, cut), after); math.Abs(got/norm-1) > 1e-5 || off > 1e-3*farthest(after, before) {
			t.Errorf("micro-batches of %d: gradient norm %v, want %v; log-probabilities or values after the step are %.2g off", size, got, norm, off)
		}
	}
}

func engineStep(t *testing.T, open func(*testing.T) Trained) {
	e := open(t)
	before := streamed(t, e)
	loss, norm := optimStep(t, e, 2, 1)
	if norm <= 0 || farthest(streamed(t, e), before) == 0 {
		t.Errorf("gradient norm %v; want a gradient that changes the weights", norm)
	}
	if _, left := optimStep(t, e, 2, 0); left != 0 {
		t.Errorf("the step left a gradient of norm %v", left)
	}
	if lower, _ := optimStep(t, e, 2, 1); lower >= loss {
		t.Errorf("the loss went from %v to %v", loss, lower)
	}
}

func engineDiscard(t *testing.T, open func(*testing.T) Trained) {
	e := open(t)
	d, ok := e.Engine.(engine.Discarder)
	if !ok {
		return
	}
	if _, err := e.Engine.ForwardBackward(t.Context(), wholeBatch(), e.loss(1)); err != nil {
		t.Fatal(err)
	}
	if err := d.Discard(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.Engine.SaveState(t.Context(), t.TempDir()); err != nil {
		t.Errorf("a state without a gradient: %v", err)
	}
	if _, left := optimStep(t, e, 2, 0); left != 0 {
		t.Errorf("a gradient of norm %v is left", left)
	}
}

// engineTargets checks that Targets name the tokens whose log-probabilities come back and are trained.
func engineTargets(t *testing.T, open func(*testing.T) Trained) {
	e := open(t)
	if e.Value {
		return
	}
	at := func(x *trinity.Experience) ([]float32, error) {
		xs := []*trinity.Experience{x}
		stats, err := e.Engine.Forward(t.Context(), &trinity.Batch{Step: 1, Experiences: xs, Whole: xs}, trinity.Streams{})
		if err != nil {
			return nil, err
		}
		return stats[0].Logprob, nil
	}
	other := func(tokens ...int32) *trinity.Experience {
		return &trinity.Experience{Tokens: tokens, Mask: []bool{false, false, false, true, true}, PromptLen: 3, Temperature: 1}
	}
	x := other(1, 2, 3, 7, 6)
	x.Targets = []int32{0, 0, 0, 4, 5}
	got, err := at(x)
	if (err == nil) != e.Targets {
		t.Fatalf("targets give %v, %v", got, err)
	}
	if !e.Targets {
		return
	}
	first, err := at(other(1, 2, 3, 4, 6))
	last, err2 := at(other(1, 2, 3, 7, 5))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	if want := []float32{0, 0, 0, first[3], last[4]}; farthest(got, want) > 1e-5 {
		t.Errorf("log-probabilities %v, want %v", got, want)
	}
	two := other(1, 2, 3, 7, 6)
	two.Targets = []int32{0, 0, 0, 0, 0, 0, 4, 7, 6, 5}
	both, err := at(two)
	own, err2 := at(other(1, 2, 3, 7, 6))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	if want := []float32{0, 0, 0, 0, 0, 0, got[3], own[3], own[4], got[4]}; farthest(both, want) > 1e-5 {
		t.Errorf("log-probabilities of two targets a token %v, want %v", both, want)
	}
	xs := []*trinity.Experience{x}
	if _, err := e.Engine.ForwardBackward(t.Context(), &trinity.Batch{Step: 1, Experiences: xs, Whole: xs}, e.loss(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Engine.OptimStep(t.Context(), smooth); err != nil {
		t.Fatal(err)
	}
	after, err := at(x)
	if err != nil || after[3] <= got[3] || after[4] <= got[4] {
		t.Errorf("a step on the targets: their log-probabilities go from %v to %v, %v", got, after, err)
	}
	for _, bad := range [][]int32{{1}, {0, 0, 0, 1, -1}, {0, 0, 0, 1, math.MaxInt32}} {
		x.Targets = bad
		if _, err := at(x); err == nil {
			t.Errorf("targets %v gave no error", bad)
		}
	}
}

func engineResume(t *testing.T, open func(*testing.T) Trained) {
	straight, dir := open(t), t.TempDir()
	publish(t, straight, 1)
	optimStep(t, straight, 2, 1)
	publish(t, straight, 2)
	if err := straight.Engine.SaveState(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	resumed := open(t)
	if err := resumed.Engine.LoadState(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if a, b := streamed(t, straight), streamed(t, resumed); !slices.Equal(a, b) {
			t.Fatalf("%d steps after resuming: log-probabilities or values are %.2g apart, want the same bits", i, farthest(a, b))
		}
		optimStep(t, straight, 2, 1)
		optimStep(t, resumed, 2, 1)
	}
	if straight.Sampler == nil {
		return
	}
	p := trinity.SamplingParams{Temperature: 1, MaxTokens: 8, Seed: 1}
	a, b := complete(t, straight.Sampler, samplerPrompt, p), complete(t, resumed.Sampler, samplerPrompt, p)
	if !slices.EqualFunc(a, b, SamplerOptions{}.same) || a[0].Versions != b[0].Versions {
		t.Errorf("the sampler gives %v, after resuming %v", a, b)
	}
}

// engineResumeGradient saves a state between the two micro-batches of a step. The step has the same bits in an engine that
// was never saved, in the one that was, and in one that goes on from the state.
func engineResumeGradient(t *testing.T, open func(*testing.T) Trained) {
	undisturbed, saved, resumed := open(t), open(t), open(t)
	dir, clean, whole := t.TempDir(), t.TempDir(), wholeBatch()
	step := func(e Trained) ([]float32, float64) {
		t.Helper()
		add(t, e, whole.Experiences[2:])
		metrics, err := e.Engine.OptimStep(t.Context(), smooth)
		if err != nil {
			t.Fatal(err)
		}
		return streamed(t, e), metrics["grad_norm"]
	}
	for _, e := range []Trained{undisturbed, saved} {
		publish(t, e, 1)
	}
	if err := saved.Engine.SaveState(t.Context(), clean); err != nil {
		t.Fatal(err)
	}
	add(t, undisturbed, whole.Experiences[:2])
	add(t, saved, whole.Experiences[:2])
	if err := saved.Engine.SaveState(t.Context(), dir); saved.Remote {
		if err == nil {
			t.Error("a state between ForwardBackward and OptimStep gave no error")
		}
		return
	} else if err != nil {
		t.Fatalf("a state between ForwardBackward and OptimStep: %v", err)
	}
	if err := resumed.Engine.LoadState(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	want, norm := step(undisturbed)
	for name, e := range map[string]Trained{"saved": saved, "resumed": resumed} {
		if got, n := step(e); n != norm || !slices.Equal(got, want) {
			t.Errorf("the %s engine: gradient norm %v, want %v; log-probabilities or values after the step are %.2g off", name, n, norm,
				farthest(got, want))
		}
	}
	add(t, saved, whole.Experiences[:2])
	if err := saved.Engine.LoadState(t.Context(), clean); err != nil {
		t.Fatal(err)
	}
	if _, left := optimStep(t, saved, 2, 0); left != 0 {
		t.Errorf("after a state without a gradient was loaded, a gradient of norm %v is left", left)
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
	if e.Sampler == nil {
		publish(t, e, 3)
		return
	}
	p := trinity.SamplingParams{Temperature: 1, MaxTokens: 4, Seed: 1}
	var first []float32
	for _, v := range []int64{3, 4} {
		publish(t, e, v)
		optimStep(t, e, 2, 1) // the sampler does not get this step
		c := complete(t, e.Sampler, samplerPrompt, p)[0]
		if c.Versions != [2]int64{v, v} || slices.Equal(c.Logprobs, first) {
			t.Errorf("versions %v, logprobs %v; want version %d with different logprobs", c.Versions, c.Logprobs, v)
		}
		first = c.Logprobs
	}
}

// engineClosed checks a closed engine. It has a state to load, so that only the closing causes
// errors.
func engineClosed(t *testing.T, open func(*testing.T) Trained) {
	e, state := open(t), t.TempDir()
	if err := errors.Join(e.Engine.SaveState(t.Context(), state), e.Engine.Close()); err != nil {
		t.Fatal(err)
	}
	for verb, err := range everyVerb(t, e, state) {
		if err == nil {
			t.Errorf("%s of a closed engine gave no error", verb)
		}
	}
}
