package trinitytest

import (
	"context"
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// Advantage checks the contract of advantage functions. build returns a new, equal function each
// time.
func Advantage(t *testing.T, build func() trinity.Advantage) {
	inTrainer := build().Needs().Batch
	for name := range advantageBatches(inTrainer) {
		t.Run(name, func(t *testing.T) {
			in := advantageBatches(inTrainer)[name]
			before := shallowCopies(in)
			kept, metrics, err := build().Advantages(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			checkAdvantages(t, before, kept, metrics)
			again, m, err := build().Advantages(t.Context(), advantageBatches(inTrainer)[name])
			if err != nil || describe(again, m) != describe(kept, metrics) {
				t.Errorf("the same batch again gives %s, %v\nwant %s", describe(again, m), err, describe(kept, metrics))
			}
		})
	}
	t.Run("order", func(t *testing.T) {
		for name := range advantageBatches(inTrainer) {
			in := advantageBatches(inTrainer)[name]
			want := perExperience(t, build(), advantageBatches(inTrainer)[name])
			slices.Reverse(in)
			for _, g := range in {
				slices.Reverse(g)
			}
			sameAdvantages(t, name+" in another order", perExperience(t, build(), in), want)
		}
	})
	t.Run("invalid rewards", func(t *testing.T) { advantageInvalid(t, build, inTrainer) })
	t.Run("infinite rewards", func(t *testing.T) {
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			in := advantageBatches(inTrainer)["mixed"]
			e := in[0][1]
			e.Reward = trinity.Reward{Value: v, Valid: true}
			kept, _, err := build().Advantages(t.Context(), in)
			if err != nil {
				if !strings.Contains(err.Error(), e.ID.String()) {
					t.Errorf("error %q does not name experience %s", err, e.ID)
				}
				continue
			}
			infinite := func(x float32) bool { return !finite(float64(x)) }
			for _, e := range slices.Concat(kept...) {
				if slices.ContainsFunc(slices.Concat(e.Advantages, e.Returns), infinite) {
					t.Errorf("a reward of %v makes advantages of experience %s that are no finite numbers: return an error that names the "+
						"experience, or drop it", v, e.ID)
				}
			}
		}
	})
	if inTrainer {
		t.Run("needs", func(t *testing.T) { advantageNeeds(t, build, build().Needs()) })
	}
	if build().Needs().PenalizeKL != nil {
		t.Run("KL penalty", func(t *testing.T) { advantagePenalty(t, build) })
	}
}

// input is an experience before the advantage function.
type input struct {
	was  trinity.Experience // with copies of Info and Mask
	mask []bool             // the experience's own slice
}

func shallowCopies(groups []trinity.Group) map[*trinity.Experience]input {
	out := map[*trinity.Experience]input{}
	for _, e := range slices.Concat(groups...) {
		was := *e
		was.Info, was.Mask = maps.Clone(e.Info), slices.Clone(e.Mask)
		out[e] = input{was, e.Mask}
	}
	return out
}

// checkAdvantages compares the output of an advantage function with its input.
func checkAdvantages(t *testing.T, before map[*trinity.Experience]input, kept []trinity.Group, metrics trinity.Metrics) {
	t.Helper()
	for m, v := range metrics {
		if !finite(v) {
			t.Errorf("metric %s is %v", m, v)
		}
	}
	written := 0
	for _, e := range slices.Concat(kept...) {
		if _, ok := before[e]; !ok {
			t.Fatalf("%s is in the output, but was not in the input", e.ID)
		}
		checkFinite(t, e)
		if e.Advantages != nil {
			written++
		}
	}
	if n := len(slices.Concat(kept...)); written != 0 && written != n {
		t.Errorf("%d of %d experiences have advantages", written, n)
	}
	for e, in := range before {
		now := *e
		now.Advantages, now.Returns, now.Mask = in.was.Advantages, in.was.Returns, in.was.Mask
		if !reflect.DeepEqual(now, in.was) {
			t.Errorf("%s: more than Advantages, Returns and Mask was changed: %+v\nwas %+v", e.ID, now, in.was)
		}
		if !slices.Equal(in.mask, in.was.Mask) {
			t.Errorf("%s: the mask was changed in place, where others see it", e.ID)
		}
		for i, trained := range e.Mask {
			if trained && !in.was.Mask[i] {
				t.Errorf("%s: token %d became a trained one", e.ID, i)
			}
		}
	}
}

// checkFinite checks the lengths and values of what the function wrote.
func checkFinite(t *testing.T, e *trinity.Experience) {
	t.Helper()
	if err := e.Check(); err != nil {
		t.Error(err)
		return
	}
	for _, v := range [][]float32{e.Advantages, e.Returns} {
		for i, x := range v {
			if !finite(float64(x)) || x != 0 && !e.Mask[i] {
				t.Errorf("%s: token %d, trained %v, has %v", e.ID, i, e.Mask[i], x)
			}
		}
	}
}

// perExperience runs an advantage function and returns the advantages of each experience, by ID.
func perExperience(t *testing.T, a trinity.Advantage, groups []trinity.Group) map[string][]float32 {
	t.Helper()
	kept, _, err := a.Advantages(t.Context(), groups)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]float32{}
	for _, e := range slices.Concat(kept...) {
		out[e.ID.String()] = e.Advantages
	}
	return out
}

func sameAdvantages(t *testing.T, what string, got, want map[string][]float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d experiences are left, want %d", what, len(got), len(want))
	}
	for id, w := range want {
		g, ok := got[id]
		if !ok || !slices.EqualFunc(g, w, func(x, y float32) bool { return math.Abs(float64(x-y)) <= 1e-5*(1+math.Abs(float64(y))) }) {
			t.Errorf("%s: experience %s has %v, want %v", what, id, g, w)
		}
	}
}

// advantageInvalid checks experiences without a valid reward. They do not change other advantages,
// and get none themselves unless the function reads no reward at all.
func advantageInvalid(t *testing.T, build func() trinity.Advantage, inTrainer bool) {
	in, without := advantageBatches(inTrainer)["mixed"], advantageBatches(inTrainer)["mixed"]
	for i, g := range without {
		without[i] = slices.DeleteFunc(g, func(e *trinity.Experience) bool { return !counts(e.Reward) && !e.IsExpert })
	}
	without = slices.DeleteFunc(without, func(g trinity.Group) bool { return len(g) == 0 })
	invalid := map[string]bool{}
	for _, e := range slices.Concat(in...) {
		invalid[e.ID.String()] = !counts(e.Reward) && !e.IsExpert
	}
	got := perExperience(t, build(), in)
	blind := advantageBatches(inTrainer)["mixed"]
	for i, e := range slices.Concat(blind...) {
		e.Reward = trinity.Reward{Value: float64(i * i), Valid: true}
	}
	for id, a := range perExperience(t, build(), blind) {
		if g, ok := got[id]; ok && invalid[id] && !slices.Equal(g, a) {
			t.Errorf("experience %s has no valid reward, but advantages %v", id, g)
		}
	}
	maps.DeleteFunc(got, func(id string, _ []float32) bool { return invalid[id] })
	sameAdvantages(t, "with failed rollouts too", got, perExperience(t, build(), without))
}

// advantageNeeds checks that a missing, needed stream is an error that names the experience.
func advantageNeeds(t *testing.T, build func() trinity.Advantage, needs trinity.Needs) {
	for _, n := range []struct {
		name   string
		needed bool
		of     func(*trinity.Experience) *[]float32
	}{
		{"values", needs.Values, func(e *trinity.Experience) *[]float32 { return &e.Values }},
		{"reference", needs.Reference, func(e *trinity.Experience) *[]float32 { return &e.RefLogprobs }},
		{"teacher", needs.Teacher, func(e *trinity.Experience) *[]float32 { return &e.TeacherLogprobs }},
		{"entropies", needs.Entropies, func(e *trinity.Experience) *[]float32 { return &e.Entropies }},
		{"discriminators", needs.Discriminators, func(e *trinity.Experience) *[]float32 { return &e.Discriminators }},
	} {
		in := advantageBatches(true)["mixed"]
		*n.of(in[0][0]) = nil
		_, _, err := build().Advantages(t.Context(), in)
		if n.needed && (err == nil || !strings.Contains(err.Error(), in[0][0].ID.String())) {
			t.Errorf("without %s: error %v, want an error that names experience %s", n.name, err, in[0][0].ID)
		}
		if !n.needed && err != nil {
			t.Errorf("without %s, which is not among its needs: %v", n.name, err)
		}
	}
}

// advantagePenalty checks the KL penalty. The function asks for it once, and only for experiences
// that count. A penalty of 0 changes nothing. The function passes on the penalty's error and
// metrics.
func advantagePenalty(t *testing.T, build func() trinity.Advantage) {
	run := func(size float64, failure error) (map[string][]float32, trinity.Metrics, error) {
		a, asked := build(), 0
		a.Needs().PenalizeKL(func(_ context.Context, batch []*trinity.Experience) ([][]float64, trinity.Metrics, error) {
			asked++
			out := make([][]float64, len(batch))
			for i, e := range batch {
				if !counts(e.Reward) || e.IsExpert {
					t.Errorf("the function asks for a penalty of %s, which does not count", e.ID)
				}
				out[i] = make([]float64, len(e.Mask))
				for j, trained := range e.Mask {
					if trained {
						out[i][j] = size * float64(j)
					}
				}
			}
			return out, trinity.Metrics{"kl": 0.25, "kl_coef": 0.5}, failure
		})
		kept, m, err := a.Advantages(t.Context(), advantageBatches(true)["mixed"])
		if asked != 1 {
			t.Errorf("the function asked for the penalty %d times in a batch", asked)
		}
		out := map[string][]float32{}
		for _, e := range slices.Concat(kept...) {
			checkFinite(t, e)
			out[e.ID.String()] = e.Advantages
		}
		return out, m, err
	}
	plain := perExperience(t, build(), advantageBatches(true)["mixed"])
	none, m, err := run(0, nil)
	if err != nil || m["kl"] != 0.25 || m["kl_coef"] != 0.5 {
		t.Errorf("metrics %v, %v", m, err)
	}
	sameAdvantages(t, "with a penalty of 0", none, plain)
	if some, _, err := run(0.1, nil); err != nil || reflect.DeepEqual(some, plain) {
		t.Errorf("a penalty has no effect, %v", err)
	}
	failure := errors.New("no reference")
	if _, _, err := run(0, failure); !errors.Is(err, failure) {
		t.Errorf("error %v, want the penalty's error", err)
	}
}
