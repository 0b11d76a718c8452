package cpu

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
)

func TestSavedModelOpensWithTheSameWeights(t *testing.T) {
	for _, name := range []string{"llama", "qwen2", "qwen3_moe"} {
		e := open(t, tiny(name))
		train(t, e, sequences(t, true), 1)
		dir := t.TempDir()
		if err := e.SaveModel(context.Background(), dir); err != nil {
			t.Fatal(err)
		}
		if again := open(t, Options{ModelPath: dir}); !slices.Equal(again.trained, e.trained) {
			t.Errorf("%s: weights differ", name)
		}
	}
}

// The files of a version have bf16 if that is asked for, and those of a checkpoint float32.
func TestVersionsAreRounded(t *testing.T) {
	opts := tiny("llama")
	opts.PublishDType = "bf16"
	e := open(t, opts)
	train(t, e, sequences(t, true), 1)
	if err := e.Offer(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	rounded := slices.Clone(e.trained)
	for i, x := range rounded {
		bits := math.Float32bits(x)
		rounded[i] = math.Float32frombits((bits + 0x7fff + bits>>16&1) >> 16 << 16)
	}
	for name, c := range map[string]struct {
		save func(context.Context, string) error
		want []float32
	}{"checkpoint": {e.SaveModel, e.trained}, "current": {e.SaveVersion, rounded}, "offered": {e.SavePublished, rounded}} {
		dir := t.TempDir()
		if err := c.save(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		if again := open(t, Options{ModelPath: dir}); !slices.Equal(again.trained, c.want) {
			t.Errorf("%s: other weights", name)
		}
	}
}

func TestSavedAdapterOpensWithTheSameWeights(t *testing.T) {
	e := open(t, adapterOptions("qwen2"))
	train(t, e, sequences(t, true), 1)
	dir := t.TempDir()
	if err := e.SaveModel(context.Background(), dir); err != nil {
		t.Fatal(err)
	}
	opts := tiny("qwen2")
	opts.LoRA = &engine.LoRASpec{Path: dir}
	if again := open(t, opts); !slices.Equal(again.trained, e.trained) || again.adapters.scale != e.adapters.scale {
		t.Error("adapters differ")
	}
}

func TestRandomWeightsDependOnTheSeedAlone(t *testing.T) {
	config, err := os.ReadFile("testdata/llama/config.json")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o666); err != nil {
		t.Fatal(err)
	}
	of := func(seed uint64) []float32 {
		return open(t, Options{ModelPath: dir, InitStyle: "fan_in", InitSeed: seed}).trained
	}
	if first := of(1); !slices.Equal(first, of(1)) || slices.Equal(first, of(2)) {
		t.Error("weights do not follow the seed")
	}
	if _, err := Open(Options{ModelPath: dir}); err == nil {
		t.Error("a directory without weights was opened though no init style was given")
	}
}

func TestReferenceStaysWhileWeightsTrain(t *testing.T) {
	ctx, batch := context.Background(), whole(sequences(t, true))
	opts := tiny("llama")
	opts.Reference = true
	e := open(t, opts)
	before, err := e.Forward(ctx, batch, trinity.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	train(t, e, batch.Experiences, 2)
	reference, err := e.Reference(ctx, batch)
	if err != nil {
		t.Fatal(err)
	}
	for i := range before {
		if !slices.Equal(before[i].Logprob, reference[i].Logprob) {
			t.Errorf("sequence %d: the reference moved", i)
		}
	}
	if _, err := open(t, tiny("llama")).Reference(ctx, batch); err == nil || !strings.Contains(err.Error(), "Options.Reference") {
		t.Errorf("error is %v", err)
	}
}

func TestForwardInPartsGivesTheSameBits(t *testing.T) {
	ctx, batch := context.Background(), whole(sequences(t, true))
	small := tiny("llama")
	small.MaxTokens = 20
	want, err := open(t, tiny("llama")).Forward(ctx, batch, trinity.Streams{Entropy: true})
	if err != nil {
		t.Fatal(err)
	}
	small.ForwardOnly = true
	e := open(t, small)
	got, err := e.Forward(ctx, batch, trinity.Streams{Entropy: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if !slices.Equal(got[i].Logprob, want[i].Logprob) || !slices.Equal(got[i].Entropy, want[i].Entropy) {
			t.Errorf("sequence %d differs", i)
		}
	}
	if _, err := e.ForwardBackward(ctx, batch, nll{}); err == nil || !strings.Contains(err.Error(), "ForwardOnly") {
		t.Errorf("error is %v", err)
	}
}

// broken is a loss that asks for streams, or returns gradients, that it must not.
type broken struct {
	want  trinity.Streams
	grads func(n int) []trinity.TokenGrads
}

func (b broken) Streams() trinity.Streams { return b.want }

func (b broken) Loss(batch *trinity.Batch, _ []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	return b.grads(len(batch.Experiences)), nil, nil
}

func TestBadBatchesAndLossesAreErrors(t *testing.T) {
	e := open(t, tiny("llama"))
	good := sequences(t, true)[:1]
	outside := &trinity.Experience{Tokens: []int32{1, 64}, Mask: []bool{false, true}}
	nan := func(n int) []trinity.TokenGrads {
		g := make([]trinity.TokenGrads, n)
		g[0].Logprob = slices.Repeat([]float32{float32(math.NaN())}, len(good[0].Tokens))
		return g
	}
	for _, c := range []struct {
		batch []*trinity.Experience
		loss  trinity.Loss
		want  string
	}{
		{[]*trinity.Experience{outside}, nll{}, "outside the vocabulary of 64"},
		{[]*trinity.Experience{{Tokens: []int32{1}, Mask: []bool{true}}}, nll{}, "mask[0]"},
		{good, broken{want: trinity.Streams{Value: true}}, "no value head"},
		{good, broken{grads: func(int) []trinity.TokenGrads { return nil }}, "0 gradients for 1 experiences"},
		{good, broken{grads: func(int) []trinity.TokenGrads { return []trinity.TokenGrads{{Entropy: []float32{1}}} }}, "1 derivatives by entropy"},
		{good, broken{grads: nan}, "not finite"},
	} {
		if _, err := e.ForwardBackward(context.Background(), whole(c.batch), c.loss); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error is %v, want one with %q", err, c.want)
		}
	}
}

func TestNothingToTrain(t *testing.T) {
	e := open(t, tiny("llama"))
	_, gradient := e.gradientOf(t, nll{}, whole(sequences(t, true)[4:]))
	if norm(gradient) != 0 {
		t.Error("a sequence without trained tokens has a gradient")
	}
}

func TestCancelledContext(t *testing.T) {
	e := open(t, tiny("llama"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := e.Forward(ctx, whole(sequences(t, true)), trinity.Streams{}); err != context.Canceled {
		t.Errorf("error is %v", err)
	}
}
