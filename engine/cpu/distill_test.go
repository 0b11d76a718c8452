package cpu

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/internal/trainer"
)

var _ trainer.Distiller = (*Engine)(nil)

// divergences holds the divergences of testdata/record_distill.py.
var divergences = map[string]trinity.Divergence{
	"forward_kl": {Kind: trinity.ForwardKL},
	"reverse_kl": {Kind: trinity.ReverseKL},
	"jsd 0.5":    {Kind: trinity.JSD, Beta: 0.5},
	"jsd 0.2":    {Kind: trinity.JSD, Beta: 0.2},
}

// imitation is the mean over trained tokens of w·divergence, with w in Advantages. With others it
// adds the loss [weighted].
type imitation struct {
	trinity.Divergence
	others bool
}

func (l imitation) Streams() trinity.Streams {
	return trinity.Streams{Entropy: l.others, Divergence: l.Divergence}
}

func (l imitation) Loss(b *trinity.Batch, now []trinity.TokenStats) (grads []trinity.TokenGrads, metrics trinity.Metrics, err error) {
	grads, loss := make([]trinity.TokenGrads, len(now)), 0.0
	if l.others {
		if grads, metrics, err = (weighted{}).Loss(b, now); err != nil {
			return nil, nil, err
		}
		loss = metrics["loss"]
	}
	n := float64(trainedTokens(b.Whole))
	for i, x := range b.Experiences {
		grads[i].Divergence = make([]float32, len(x.Tokens))
		for t, m := range x.Mask {
			if m {
				grads[i].Divergence[t] = float32(float64(x.Advantages[t]) / n)
				loss += float64(x.Advantages[t]) * float64(now[i].Divergence[t]) / n
			}
		}
	}
	return grads, trinity.Metrics{"loss": loss}, nil
}

// frozenEngine is a model for forward passes alone.
func frozenEngine(t *testing.T, name string) *Engine {
	opts := tiny(name)
	opts.ForwardOnly = true
	return open(t, opts)
}

// taught is a student with one teacher.
func taught(t *testing.T, opts Options, teacher string) *Engine {
	t.Helper()
	e := open(t, opts)
	if err := e.SetTeachers(map[string]engine.Trainer{"": frozenEngine(t, teacher)}); err != nil {
		t.Fatal(err)
	}
	return e
}

// distances are the divergences of every sequence.
func distances(t *testing.T, e *Engine, d trinity.Divergence, xs []*trinity.Experience) [][]float32 {
	t.Helper()
	stats, err := e.Forward(context.Background(), whole(xs), trinity.Streams{Divergence: d})
	if err != nil {
		t.Fatal(err)
	}
	var out [][]float32
	for _, s := range stats {
		out = append(out, s.Divergence)
	}
	return out
}

func TestDivergencesFromATeacherEqualTorch(t *testing.T) {
	var want map[string]map[string]struct {
		Loss   float64
		Values [][]float64
	}
	readJSON(t, "testdata/distill.json.gz", &want)
	tensor := tensorFile(t, "testdata/distill.safetensors")
	for student, tensors := range map[string][]string{
		"llama": {"lm_head.weight", "model.layers.0.self_attn.q_proj.weight", "model.norm.weight"},
		"qwen3": {"model.embed_tokens.weight", "model.layers.1.mlp.down_proj.weight"},
	} {
		e := taught(t, tiny(student), "teacher")
		for name, d := range divergences {
			w := want[student][name]
			for i, values := range distances(t, e, d, sequences(t, true)) {
				if off := worst(values, w.Values[i]); off > 1e-5 || len(values) != len(w.Values[i]) {
					t.Errorf("%s, %s, sequence %d: %.2g nats off", student, name, i, off)
				}
			}
			loss, gradient := e.gradientOf(t, imitation{d, false}, whole(sequences(t, true)))
			if math.Abs(loss-w.Loss) > 1e-5 {
				t.Errorf("%s, %s: loss %.7f, want %.7f", student, name, loss, w.Loss)
			}
			for _, s := range tensors {
				if off := difference(e.base.in(gradient, s), tensor(student+"."+name+"."+s)); off > 1e-4 {
					t.Errorf("%s, %s, %s: gradient is %.2g relative off", student, name, s, off)
				}
			}
		}
	}
}

func TestDivergenceFromItselfIsZero(t *testing.T) {
	for _, name := range []string{"llama", "qwen3_moe", "granite"} {
		e := taught(t, tiny(name), name)
		for _, d := range divergences {
			for i, values := range distances(t, e, d, sequences(t, true)) {
				if norm(values) != 0 {
					t.Errorf("%s, %v, sequence %d: %v", name, d, i, values)
				}
			}
			if _, gradient := e.gradientOf(t, imitation{d, false}, whole(sequences(t, true))); norm(gradient) != 0 {
				t.Errorf("%s, %v: a gradient of %v", name, d, norm(gradient))
			}
		}
	}
}

// The gradient of a divergence has the divisor of the model's logits: a small step against it lowers the loss as it says.
func TestDivergenceOfScaledLogits(t *testing.T) {
	e := taught(t, tiny("granite"), "teacher")
	for _, d := range divergences {
		loss, batch := imitation{d, true}, whole(sequences(t, true))
		before, gradient := e.gradientOf(t, loss, batch)
		start := e.rowMajor()
		const step = 1e-3
		moved, square := slices.Clone(start), 0.0
		for i, g := range gradient {
			square += float64(g) * float64(g)
			moved[i] -= step * g
		}
		e.setRowMajor(moved)
		after, _ := e.gradientOf(t, loss, batch)
		e.setRowMajor(start)
		if ratio := (before - after) / (step * square); math.Abs(ratio-1) > 0.05 {
			t.Errorf("%v: the loss falls by %.3g of what the gradient says", d, ratio)
		}
	}
}

func TestDivergenceDoesNotDependOnMemoryCoresOrCut(t *testing.T) {
	d := trinity.Divergence{Kind: trinity.JSD, Beta: 0.3}
	e := taught(t, tiny("llama"), "teacher")
	all := longGroups(e.cfg.VocabSize)
	loss := imitation{d, true}
	values := distances(t, e, d, all)
	_, want := e.gradientOf(t, loss, whole(all))
	same := func(what string, e *Engine) {
		t.Helper()
		for i, v := range distances(t, e, d, all) {
			if !slices.Equal(v, values[i]) {
				t.Errorf("%s: sequence %d has other divergences", what, i)
			}
		}
		if _, got := e.gradientOf(t, loss, whole(all)); !slices.Equal(got, want) {
			t.Errorf("%s: another gradient, %.2g relative off", what, difference(got, want))
		}
	}
	for _, rows := range []int{1, 7, 100} {
		few := open(t, tiny("llama"))
		few.passes.head.compare.budget = rows * 4 * few.cfg.VocabSize
		if err := few.SetTeachers(map[string]engine.Trainer{"": frozenEngine(t, "teacher")}); err != nil {
			t.Fatal(err)
		}
		same(fmt.Sprintf("%d rows at once", rows), few)
	}
	for _, cores := range []int{1, 2, 5} {
		pool := kernel.NewPool(cores)
		defer pool.Close()
		opts := tiny("llama")
		opts.Pool = pool
		same(fmt.Sprintf("%d cores", cores), taught(t, opts, "teacher"))
	}
	for _, size := range []int{1, 4} {
		var cut []*trinity.Batch
		for part := range slices.Chunk(all, size) {
			cut = append(cut, &trinity.Batch{Step: 1, Experiences: part, Whole: all})
			for i, v := range distances(t, e, d, part) {
				if !slices.Equal(v, values[len(cut)*size-size+i]) {
					t.Errorf("micro-batches of %d: sequence %d of the %dth has other divergences", size, i, len(cut))
				}
			}
		}
		if _, got := e.gradientOf(t, loss, cut...); difference(got, want) > 1e-6 {
			t.Errorf("micro-batches of %d: the gradient is %.2g relative off", size, difference(got, want))
		}
	}
}

// Logits that are not kept are computed again, and tokens that the loss does not see are left out
// of the backward pass.
func TestDivergencesOfManyAndOfMaskedTokens(t *testing.T) {
	e := taught(t, tiny("llama"), "teacher")
	var many []*trinity.Experience
	for i := range 200 {
		x := apart(sequences(t, true), int32(i/4))[i%4]
		if i%3 == 0 {
			x.Advantages = make([]float32, len(x.Tokens))
		}
		many = append(many, x)
	}
	loss := imitation{trinity.Divergence{Kind: trinity.ForwardKL}, false}
	_, want := e.gradientOf(t, loss, whole(many))
	e.passes.head.budget = 0
	if _, got := e.gradientOf(t, loss, whole(many)); !e.passes.head.recompute || !slices.Equal(got, want) {
		t.Errorf("logits computed again: %t, gradient %.2g relative off", e.passes.head.recompute, difference(got, want))
	}
	seen := slices.DeleteFunc(slices.Clone(many), func(x *trinity.Experience) bool { return norm(x.Advantages) == 0 })
	if _, got := e.gradientOf(t, loss, &trinity.Batch{Step: 1, Experiences: seen, Whole: many}); difference(got, want) > 1e-6 {
		t.Errorf("without the idle sequences the gradient is %.2g relative off", difference(got, want))
	}
}

func TestEveryExperienceHasItsTeacher(t *testing.T) {
	d := trinity.Divergence{Kind: trinity.ReverseKL}
	teachers := map[string]engine.Trainer{"wide": frozenEngine(t, "teacher"), "": frozenEngine(t, "qwen2")}
	e := open(t, tiny("qwen3"))
	if err := e.SetTeachers(teachers); err != nil {
		t.Fatal(err)
	}
	xs := longGroups(e.cfg.VocabSize)
	for i, x := range xs {
		x.Teacher = []string{"", "wide"}[i%2]
	}
	_, got := e.gradientOf(t, imitation{d, false}, whole(xs))
	values := distances(t, e, d, xs)
	want := make([]float32, len(got))
	for name, teacher := range map[string]string{"": "qwen2", "wide": "teacher"} {
		alone := taught(t, tiny("qwen3"), teacher)
		var mine []*trinity.Experience
		for i, x := range xs {
			if x.Teacher == name {
				own := *x
				own.Teacher = ""
				mine = append(mine, &own)
				if v := distances(t, alone, d, []*trinity.Experience{&own}); !slices.Equal(v[0], values[i]) {
					t.Errorf("sequence %d was not compared with %q", i, name)
				}
			}
		}
		_, part := alone.gradientOf(t, imitation{d, false}, &trinity.Batch{Step: 1, Experiences: mine, Whole: xs})
		kernel.AddTo(want, part)
	}
	if off := difference(got, want); off > 1e-6 {
		t.Errorf("the gradient is %.2g relative off", off)
	}
}

func TestDivergenceGradientIsTheSlope(t *testing.T) {
	lora := tiny("qwen2")
	lora.LoRA = &engine.LoRASpec{Path: "testdata/qwen2"}
	for name, opts := range map[string]Options{"all weights": tiny("llama3_bias_tied"), "lora": lora} {
		e := taught(t, opts, "teacher")
		for _, d := range divergences {
			loss := imitation{d, false}
			_, gradient := e.gradientOf(t, loss, whole(sequences(t, true)))
			steepest := 0
			for i, g := range gradient {
				if math.Abs(float64(g)) > math.Abs(float64(gradient[steepest])) {
					steepest = i
				}
			}
			const h = 2e-3
			at := e.rowMajor()[steepest]
			value := func(shift float32) float64 {
				e.setWeight(steepest, at+shift)
				defer e.setWeight(steepest, at)
				sum, _ := e.gradientOf(t, loss, whole(sequences(t, true)))
				return sum
			}
			if slope := (value(h) - value(-h)) / (2 * h); math.Abs(slope-float64(gradient[steepest])) > 3e-3*math.Abs(slope) {
				t.Errorf("%s, %v: slope %.6f, gradient %.6f", name, d, slope, gradient[steepest])
			}
		}
	}
}

func TestAStudentLearnsFromItsTeacher(t *testing.T) {
	for name, d := range divergences {
		e := taught(t, tiny("llama"), "teacher")
		xs := longGroups(e.cfg.VocabSize)
		for _, x := range xs {
			for i := range x.Advantages {
				x.Advantages[i] = 1
			}
		}
		first := 0.0
		for step := range 30 {
			m, err := e.ForwardBackward(context.Background(), whole(xs), imitation{d, false})
			if err != nil {
				t.Fatal(err)
			}
			if step == 0 {
				first = m["loss"]
			} else if step == 29 && m["loss"] > first/2 {
				t.Errorf("%s: the divergence went from %.4f to %.4f nats", name, first, m["loss"])
			}
			if _, err := e.OptimStep(context.Background(), adam); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestInvalidTeachers(t *testing.T) {
	ctx, e := context.Background(), open(t, tiny("llama"))
	wants := func(text string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error is %v, want one with %q", err, text)
		}
	}
	ask := func(e *Engine, d trinity.Divergence) error {
		_, err := e.Forward(ctx, whole(sequences(t, true)), trinity.Streams{Divergence: d})
		return err
	}
	forward := trinity.Divergence{Kind: trinity.ForwardKL}
	wants("has no teachers", ask(e, forward))
	wants(`divergence "hellinger"`, ask(e, trinity.Divergence{Kind: "hellinger"}))
	for _, beta := range []float64{0, 1, math.NaN()} {
		wants("beta of the divergence jsd", ask(e, trinity.Divergence{Kind: trinity.JSD, Beta: beta}))
	}
	wants("second time", e.SetTeachers(map[string]engine.Trainer{"": e}))
	wants("<nil>", e.SetTeachers(map[string]engine.Trainer{"": nil}))
	wants("no vocabulary projection", e.SetTeachers(map[string]engine.Trainer{"": open(t, critic())}))
	wants("every token of the student", open(t, tiny("teacher")).SetTeachers(map[string]engine.Trainer{"small": frozenEngine(t, "llama")}))
	wants("value head", open(t, critic()).SetTeachers(map[string]engine.Trainer{"": frozenEngine(t, "llama")}))
	if err := e.SetTeachers(map[string]engine.Trainer{"math": frozenEngine(t, "teacher")}); err != nil {
		t.Fatal(err)
	}
	wants(`names teacher ""`, ask(e, forward))
	closed := frozenEngine(t, "teacher")
	if err := e.SetTeachers(map[string]engine.Trainer{"": closed}); err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	wants("closed", ask(e, forward))
}
