package cpu

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/model"
)

// critic is a tiny model with a value head.
func critic() Options {
	opts := tiny("critic")
	opts.Value = true
	return opts
}

// valueReference holds the records of testdata/record_heads.py for the critic.
type valueReference struct {
	Loss   float64
	Values [][]float64
}

// squared is the mean over trained tokens of (value − w)²/2, with w in Advantages.
type squared struct{}

func (squared) Streams() trinity.Streams { return trinity.Streams{Value: true} }

func (squared) Loss(b *trinity.Batch, now []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	n := float64(trainedTokens(b.Whole))
	grads, loss := make([]trinity.TokenGrads, len(now)), 0.0
	for i, x := range b.Experiences {
		grads[i].Value = make([]float32, len(x.Tokens))
		for t, m := range x.Mask {
			if m {
				off := float64(now[i].Value[t]) - float64(x.Advantages[t])
				grads[i].Value[t] = float32(off / n)
				loss += off * off / 2 / n
			}
		}
	}
	return grads, trinity.Metrics{"loss": loss}, nil
}

func valuesOf(t *testing.T, e *Engine, xs []*trinity.Experience) []trinity.TokenStats {
	t.Helper()
	stats, err := e.Forward(context.Background(), whole(xs), trinity.Streams{Value: true})
	if err != nil {
		t.Fatal(err)
	}
	return stats
}

func TestValuesAndGradientEqualTorch(t *testing.T) {
	lora := critic()
	lora.LoRA = &engine.LoRASpec{Path: lora.ModelPath}
	for suffix, opts := range map[string]Options{"": critic(), "_lora": lora} {
		var want valueReference
		readJSON(t, filepath.Join("testdata", "critic", "reference"+suffix+".json.gz"), &want)
		gradient := tensorFile(t, filepath.Join("testdata", "critic", "gradients"+suffix+".safetensors"))
		e := open(t, opts)
		for i, s := range valuesOf(t, e, sequences(t, true)) {
			if d := worst(s.Value, want.Values[i]); d > 1e-5 || s.Logprob != nil || len(s.Value) != len(want.Values[i]) {
				t.Errorf("critic%s, sequence %d: values are %.2g off; logprobs %v", suffix, i, d, s.Logprob)
			}
		}
		loss, got := e.gradientOf(t, squared{}, whole(sequences(t, true)))
		if math.Abs(loss-want.Loss) > 1e-6 {
			t.Errorf("critic%s: loss %.8f, want %.8f", suffix, loss, want.Loss)
		}
		for _, s := range e.trainedLayout().slots {
			if d := difference(got[s.from:s.from+s.size()], gradient(s.name)); d > 1e-4 {
				t.Errorf("critic%s, %s: gradient is %.2g relative off", suffix, s.name, d)
			}
		}
	}
}

func TestValueGradientIsTheSlope(t *testing.T) {
	e := open(t, critic())
	e.gradientIsSlope(t, squared{}, whole(sequences(t, true)), 2e-3,
		scoreName, scoreBiasName, finalNormName, "model.layers.1.mlp.down_proj.weight", embeddingName)
}

// gradientIsSlope compares the steepest derivative of each named tensor with the slope of the loss, within
// a share of it.
func (e *Engine) gradientIsSlope(t *testing.T, by trinity.Loss, batch *trinity.Batch, tolerance float64, names ...string) {
	t.Helper()
	_, gradient := e.gradientOf(t, by, batch)
	for _, name := range names {
		slot, _ := e.base.find(name)
		steepest := slot.from
		for i := slot.from; i < slot.from+slot.size(); i++ {
			if math.Abs(float64(gradient[i])) > math.Abs(float64(gradient[steepest])) {
				steepest = i
			}
		}
		const h = 1e-2
		at := e.rowMajor()[steepest]
		loss := func(shift float32) float64 {
			e.setWeight(steepest, at+shift)
			defer e.setWeight(steepest, at)
			sum, _ := e.gradientOf(t, by, batch)
			return sum
		}
		if slope := (loss(h) - loss(-h)) / (2 * h); math.Abs(slope-float64(gradient[steepest])) > tolerance*math.Abs(slope) {
			t.Errorf("%s: slope %.6f, gradient %.6f", name, slope, gradient[steepest])
		}
	}
}

func TestValuesDoNotDependOnPacking(t *testing.T) {
	e := open(t, critic())
	all := longGroups(e.cfg.VocabSize)
	_, want := e.gradientOf(t, squared{}, whole(all))
	values, rows := valuesOf(t, e, all), len(e.passes.packing.tokens)
	for _, size := range []int{1, 4} {
		var cut []*trinity.Batch
		for part := range slices.Chunk(all, size) {
			cut = append(cut, &trinity.Batch{Step: 1, Experiences: part, Whole: all})
		}
		if _, got := e.gradientOf(t, squared{}, cut...); difference(got, want) > 1e-6 {
			t.Errorf("%d micro-batches: gradient differs by %.2g relative", len(cut), difference(got, want))
		}
	}
	e.passes.shareNothing = true
	if _, got := e.gradientOf(t, squared{}, whole(all)); difference(got, want) > 1e-6 {
		t.Errorf("prompts computed once per sequence: gradient differs by %.2g relative", difference(got, want))
	}
	if len(e.passes.packing.tokens) <= rows {
		t.Error("nothing was shared")
	}
	for i, s := range valuesOf(t, e, all) {
		if !slices.Equal(s.Value, values[i].Value) {
			t.Errorf("sequence %d has other values where its prompt is not shared", i)
		}
	}
}

func TestBackwardSkipsIdleValues(t *testing.T) {
	e := open(t, critic())
	all := longGroups(e.cfg.VocabSize)
	for _, x := range all[:3] { // at its target a value has derivative 0
		x.Advantages = valuesOf(t, e, []*trinity.Experience{x})[0].Value
	}
	_, got := e.gradientOf(t, squared{}, whole(all))
	rows := len(e.passes.packing.tokens)
	_, want := e.gradientOf(t, squared{}, &trinity.Batch{Step: 1, Experiences: all[3:], Whole: all})
	if rows != len(e.passes.packing.tokens) || difference(got, want) > 1e-6 {
		t.Errorf("backward over %d rows, want %d; gradient differs by %.2g relative", rows, len(e.passes.packing.tokens), difference(got, want))
	}
}

func TestNewValueHead(t *testing.T) {
	opts := tiny("qwen2") // a language model with a tied head
	opts.Value, opts.Seed = true, 3
	e, again := open(t, opts), open(t, opts)
	opts.Seed = 4
	other := open(t, opts)
	head := func(e *Engine) []float32 { return tensorOf(e.base, e.trained, scoreName) }
	weight, bias := head(e), tensorOf(e.base, e.trained, scoreBiasName)[0]
	if !slices.Equal(weight, head(again)) || slices.Equal(weight, head(other)) {
		t.Error("the head's weights are not those of its seed")
	}
	if std := math.Sqrt(norm(weight) / float64(len(weight))); std < 0.5*e.cfg.InitializerRange || std > 1.5*e.cfg.InitializerRange || bias != 0 {
		t.Errorf("standard deviation %v, bias %v; want about %v and 0", std, bias, e.cfg.InitializerRange)
	}
	valuesOf(t, e, sequences(t, true))
	if e.passes.head.space.logits.Data != nil || e.passes.head.space.logprob != nil {
		t.Error("a value head took memory for logits")
	}
	opts = Options{ModelPath: tiny("reward").ModelPath, Value: true}
	if _, err := Open(opts); err == nil || !strings.Contains(err.Error(), "with 3 labels") {
		t.Errorf("a reward model of 3 labels as a critic: %v", err)
	}
}

func TestSavedCriticHasTheTrainedWeights(t *testing.T) {
	lora := tiny("llama")
	lora.LoRA, lora.Seed = &engine.LoRASpec{LoraRank: 4, LoraAlpha: 8}, 1
	for name, opts := range map[string]Options{"all weights": tiny("llama"), "lora": lora} {
		opts.Value = true
		e, dir := open(t, opts), t.TempDir()
		train(t, e, sequences(t, true), 2)
		if err := e.SaveModel(context.Background(), dir); err != nil {
			t.Fatal(err)
		}
		saved := Options{ModelPath: dir, Value: true}
		if opts.LoRA != nil {
			saved = Options{ModelPath: opts.ModelPath, Value: true, LoRA: &engine.LoRASpec{Path: dir}}
		} else if cfg, err := model.ReadConfig(dir); err != nil || cfg.Head != model.TokenClassification || cfg.NumLabels != 1 {
			t.Errorf("%s: saved as %v, %v", name, cfg, err)
		}
		want, got := valuesOf(t, e, sequences(t, true)), valuesOf(t, open(t, saved), sequences(t, true))
		for i := range want {
			if !slices.Equal(got[i].Value, want[i].Value) {
				t.Errorf("%s: sequence %d has other values in the saved model", name, i)
			}
		}
	}
}

func TestWrongHeadsAreErrors(t *testing.T) {
	ctx, batch := context.Background(), whole(sequences(t, true))
	e := open(t, critic())
	_, noValues := e.Forward(ctx, batch, trinity.Streams{})
	_, both := e.Forward(ctx, batch, trinity.Streams{Value: true, Entropy: true})
	_, reference := e.Reference(ctx, batch)
	_, byLogprob := e.ForwardBackward(ctx, batch, broken{want: trinity.Streams{Value: true}, grads: func(n int) []trinity.TokenGrads {
		return []trinity.TokenGrads{{Logprob: make([]float32, 15)}, {}, {}, {}, {}}
	}})
	_, byValue := open(t, tiny("llama")).ForwardBackward(ctx, batch, broken{grads: func(n int) []trinity.TokenGrads {
		return []trinity.TokenGrads{{Value: make([]float32, 15)}, {}, {}, {}, {}}
	}})
	withReference := critic()
	withReference.Reference = true
	_, frozen := Open(withReference)
	_, asPolicy := Open(tiny("critic"))
	_, rewardAsPolicy := Open(tiny("reward"))
	for _, c := range []struct {
		err  error
		want string
	}{
		{noValues, "ask it for values"}, {both, "ask it for values"}, {reference, "Options.Reference"}, {byLogprob, "by logprob"}, {byValue, "by value"},
		{frozen, "needs log-probabilities"}, {asPolicy, "use it as a critic"}, {rewardAsPolicy, "use it as a reward model"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("error is %v, want one with %q", c.err, c.want)
		}
	}
}

func TestOpeningByHead(t *testing.T) {
	ctx, path := t.Context(), tiny("llama").ModelPath
	e, err := trainerPlugin{}.OpenTrainer(ctx, engine.TrainerSpec{ModelPath: path, Train: true, Head: engine.ValueHead, Seed: 1, MicroTokens: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.ForwardBackward(ctx, whole(sequences(t, true)), squared{}); err != nil {
		t.Error(err)
	}
	for want, spec := range map[string]engine.TrainerSpec{
		"expected \"value\"": {ModelPath: path, Train: true, Head: "nose"},
		"as a scorer":        {ModelPath: tiny("reward").ModelPath, Head: engine.ScoreHead},
		"with 3 labels":      {ModelPath: tiny("reward").ModelPath, Head: engine.ScoreHead, Train: true},
		"as a reward model":  {ModelPath: tiny("reward").ModelPath, Train: true, MicroTokens: 64},
	} {
		e, err := trainerPlugin{}.OpenTrainer(ctx, spec)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one with %q", err, want)
		}
		if e != nil {
			t.Errorf("%v: an engine beside an error", err)
		}
		if _, err := (trainerPlugin{}).PlanMemory(spec); err == nil && spec.Head != engine.ScoreHead {
			t.Errorf("a plan of what does not open: %+v", spec)
		}
	}
	s, err := samplerPlugin{}.OpenSampler(ctx, engine.SamplerSpec{ModelPath: path, MaxSequences: 1, Shared: true, Beside: e})
	if s != nil || err == nil || !strings.Contains(err.Error(), "no next tokens") {
		t.Errorf("a sampler beside a critic: %v", err)
	}
}
