package cpu

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/engine/cpu/internal/sampler"
	"github.com/trinity-go/trinity/model"
)

// headAdapters are the models of testdata/record_head_adapter.py: with a head of its own, and tied.
var headAdapters = []string{"llama", "llama3_bias_tied"}

// headAdapter returns a model with its recorded adapter of some modules and the head.
func headAdapter(name string) Options {
	opts := tiny(name)
	opts.LoRA = &engine.LoRASpec{Path: filepath.Join("testdata/head_adapter", name)}
	return opts
}

// newHeadAdapter returns a model with a new adapter of all layers and the head.
func newHeadAdapter(name string) Options {
	opts := tiny(name)
	opts.LoRA, opts.Seed = &engine.LoRASpec{LoraRank: 5, LoraAlpha: 8, TargetModules: engine.Names{model.AllLinear, model.OutputHead}}, 3
	return opts
}

func TestHeadAdapterEqualsPEFT(t *testing.T) {
	for _, name := range headAdapters {
		dir := filepath.Join("testdata/head_adapter", name)
		var want reference
		readJSON(t, filepath.Join(dir, "reference.json.gz"), &want)
		e := open(t, headAdapter(name))
		stats, err := e.Forward(t.Context(), whole(sequences(t, true)), trinity.Streams{Entropy: true})
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range want.Rows {
			if d := max(worst(stats[i].Logprob, w.LogprobT), worst(stats[i].Entropy, w.EntropyT)); d > 1e-5 {
				t.Errorf("%s, sequence %d: %.2g nats off", name, i, d)
			}
		}
		compareGradients(t, e, want, tensorFile(t, filepath.Join(dir, "gradients.safetensors")))
		ofBase, err := e.Reference(t.Context(), whole(sequences(t, true)))
		if err != nil {
			t.Fatal(err)
		}
		base, err := open(t, tiny(name)).Forward(t.Context(), whole(sequences(t, true)), trinity.Streams{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range base {
			if !slices.Equal(ofBase[i].Logprob, base[i].Logprob) {
				t.Errorf("%s, sequence %d: the reference is not the base", name, i)
			}
		}
	}
}

// A change of the head's A or B changes the loss as the gradient says, with and without a teacher.
func TestHeadAdapterGradientIsTheSlope(t *testing.T) {
	compared := imitation{trinity.Divergence{Kind: trinity.JSD, Beta: 0.3}, true}
	for _, name := range headAdapters {
		for what, loss := range map[string]trinity.Loss{"streams": weighted{}, "divergence": compared} {
			e := taught(t, headAdapter(name), "teacher")
			_, gradient := e.gradientOf(t, loss, whole(sequences(t, true)))
			for _, matrix := range []string{"A", "B"} {
				s, _ := e.adapters.find(model.LoRATensor(model.OutputHead, matrix))
				steepest := s.from
				for i := s.from; i < s.from+s.size(); i++ {
					if math.Abs(float64(gradient[i])) > math.Abs(float64(gradient[steepest])) {
						steepest = i
					}
				}
				const h = 2e-3
				at := e.trained[steepest]
				value := func(shift float32) float64 {
					e.trained[steepest] = at + shift
					defer func() { e.trained[steepest] = at }()
					sum, _ := e.gradientOf(t, loss, whole(sequences(t, true)))
					return sum
				}
				if slope := (value(h) - value(-h)) / (2 * h); math.Abs(slope-float64(gradient[steepest])) > 3e-3*math.Abs(slope) {
					t.Errorf("%s, %s, %s: slope %.6f, gradient %.6f", name, what, matrix, slope, gradient[steepest])
				}
			}
		}
	}
}

func TestHeadAdapterGradientDoesNotDependOnMemoryCoresOrCut(t *testing.T) {
	e := open(t, headAdapter("llama"))
	var all []*trinity.Experience
	for i := range int32(40) { // more head rows than a chunk has
		all = append(all, apart(sequences(t, true), i)...)
	}
	var odd []int
	for i := 1; i < len(all); i += 2 {
		odd = append(odd, i)
	}
	for _, loss := range []trinity.Loss{weighted{}, idle{odd}} {
		_, want := e.gradientOf(t, loss, whole(all))
		kept := e.passes.head.budget
		e.passes.head.budget = 0
		if _, got := e.gradientOf(t, loss, whole(all)); !e.passes.head.recompute || !slices.Equal(got, want) {
			t.Errorf("%T, logits computed again (%t): %.2g relative off", loss, e.passes.head.recompute, difference(got, want))
		}
		e.passes.head.budget = kept
		for _, cores := range []int{1, 5} {
			opts := headAdapter("llama")
			opts.Pool = kernel.NewPool(cores)
			defer opts.Pool.Close()
			if _, got := open(t, opts).gradientOf(t, loss, whole(all)); !slices.Equal(got, want) {
				t.Errorf("%T, %d cores: %.2g relative off", loss, cores, difference(got, want))
			}
		}
	}
	_, want := e.gradientOf(t, weighted{}, whole(all))
	var cut []*trinity.Batch
	for part := range slices.Chunk(all, 3) {
		cut = append(cut, &trinity.Batch{Step: 1, Experiences: part, Whole: all})
	}
	if _, got := e.gradientOf(t, weighted{}, cut...); difference(got, want) > 1e-6 {
		t.Errorf("%d micro-batches: %.2g relative off", len(cut), difference(got, want))
	}
}

// A teacher may have an adapter of its head. A student with the same one is no distance away.
func TestTeacherWithAHeadAdapter(t *testing.T) {
	for _, name := range headAdapters {
		frozen := headAdapter(name)
		frozen.ForwardOnly = true
		teacher := open(t, frozen)
		dir := filepath.Join(t.TempDir(), "merged")
		writeMerged(t, dir, name)
		merged := open(t, Options{ModelPath: dir, ForwardOnly: true})
		d := trinity.Divergence{Kind: trinity.ForwardKL}
		of := func(e *Engine, teacher *Engine) [][]float32 {
			if err := e.SetTeachers(map[string]engine.Trainer{"": teacher}); err != nil {
				t.Fatal(err)
			}
			return distances(t, e, d, sequences(t, true))
		}
		pupil := open(t, tiny(name))
		want := of(pupil, merged)
		for i, v := range of(pupil, teacher) {
			if off := difference(v, want[i]); off > 1e-4 || len(v) > 6 && norm(v) == 0 && i < 4 {
				t.Errorf("%s, sequence %d: %.2g relative off the merged teacher", name, i, off)
			}
		}
		for i, v := range of(open(t, headAdapter(name)), teacher) {
			if norm(v) != 0 {
				t.Errorf("%s, sequence %d: %v from itself", name, i, v)
			}
		}
	}
}

// writeMerged writes a model with its recorded adapter merged.
func writeMerged(t *testing.T, dir, name string) {
	t.Helper()
	base, err := model.Open(tiny(name).ModelPath)
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	adapter, err := model.OpenAdapter(headAdapter(name).LoRA.Path, base.Config)
	if err != nil {
		t.Fatal(err)
	}
	defer adapter.Close()
	merged, err := model.Merge(base, adapter)
	if err != nil {
		t.Fatal(err)
	}
	if err := model.WriteDir(dir, merged.Config, merged, "f32"); err != nil {
		t.Fatal(err)
	}
}

func TestDistributionsOfAHeadAdapter(t *testing.T) {
	for _, name := range headAdapters {
		e, x := open(t, headAdapter(name)), allTrained(0, sequences(t, false)[0].Tokens)
		want, err := e.Forward(t.Context(), whole([]*trinity.Experience{x}), trinity.Streams{})
		if err != nil {
			t.Fatal(err)
		}
		err = e.Distributions(t.Context(), x.Tokens, 1, func(at int, logprobs []float32) error {
			if at < len(x.Tokens) && math.Abs(float64(logprobs[x.Tokens[at]]-want[0].Logprob[at])) > 1e-5 {
				return fmt.Errorf("position %d: %v, want %v", at, logprobs[x.Tokens[at]], want[0].Logprob[at])
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The scores of a prompt's tokens have the bits of Forward, also beside requests of other adapters.
func TestScoresOfAHeadAdapterEqualForward(t *testing.T) {
	for _, name := range headAdapters {
		scoresEqualForward(t, name, newHeadAdapter(name), headAdapter(name).LoRA.Path)
	}
}

// scoresEqualForward trains an adapter, and compares the scores of a sampler that shares its weights with Forward, beside
// requests of another adapter.
func scoresEqualForward(t *testing.T, name string, opts Options, other string) {
	t.Helper()
	e, dir := open(t, opts), t.TempDir()
	train(t, e, sequences(t, true), 2)
	if err := e.SaveModel(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	s, err := sampler.New(*e.Config(), sampler.Options{MaxSequences: 3, MaxModelLen: 64, PrefillChunk: 16})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	e.attach(s)
	if err := publish(t.Context(), e, 1); err != nil {
		t.Fatal(err)
	}
	for adapter, path := range map[string]string{"mine": dir, "other": other} {
		if err := s.LoadAdapter(t.Context(), adapter, path, 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range sequences(t, false) {
		x = allTrained(0, x.Tokens)
		want, err := e.Forward(t.Context(), whole([]*trinity.Experience{x}), trinity.Streams{})
		if err != nil {
			t.Fatal(err)
		}
		beside := make(chan error)
		for _, adapter := range []string{"mine", "", "other", trinity.BaseAdapter} {
			go func() {
				p := trinity.SamplingParams{MaxTokens: 1, ScorePrompt: true, Adapter: adapter}
				out, err := s.Sample(context.Background(), trinity.Prompt{Tokens: x.Tokens}, p)
				mine := adapter == "mine" || adapter == ""
				if err == nil && slices.Equal(out[0].Prompt.Logprobs, want[0].Logprob[1:]) != mine {
					err = fmt.Errorf("adapter %q: %v, want %v", adapter, out[0].Prompt.Logprobs, want[0].Logprob[1:])
				}
				beside <- err
			}()
		}
		for range 4 {
			if err := <-beside; err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// A run resumes from a saved adapter of the head with the same bits, and its files are PEFT's.
func TestHeadAdapterResumes(t *testing.T) {
	for _, name := range headAdapters {
		ctx, dir := t.Context(), t.TempDir()
		e := open(t, newHeadAdapter(name))
		train(t, e, sequences(t, true), 2)
		if err := e.SaveModel(ctx, dir); err != nil {
			t.Fatal(err)
		}
		if err := e.SaveState(ctx, dir); err != nil {
			t.Fatal(err)
		}
		opts := tiny(name)
		opts.LoRA = &engine.LoRASpec{Path: dir}
		again := open(t, opts)
		if err := again.LoadState(ctx, dir); err != nil {
			t.Fatal(err)
		}
		train(t, e, sequences(t, true), 2)
		train(t, again, sequences(t, true), 2)
		head := again.adapters.in(again.trained, model.LoRATensor(model.OutputHead, "B"))
		if !slices.Equal(again.trained, e.trained) || norm(head) == 0 {
			t.Errorf("%s: the resumed run has other weights, or never trained the head", name)
		}
	}
}

// A critic has no vocabulary projection.
func TestCriticHasNoHeadAdapter(t *testing.T) {
	opts := critic()
	opts.LoRA = newHeadAdapter("llama").LoRA
	if _, err := Open(opts); err == nil || !strings.Contains(err.Error(), `no linear map is called "lm_head"`) {
		t.Errorf("error is %v", err)
	}
}
