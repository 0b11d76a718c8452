package advantage

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// clipped runs an entropy clip on a rollout below and one above the mean, with three trained tokens
// each. It reports which tokens stay in the mask.
func clipped(t *testing.T, name string, a args, edit func(below, above *trinity.Experience)) (below, above []bool) {
	t.Helper()
	g := group([]float64{0, 1})
	var masks [][]bool
	for _, e := range g {
		e.Tokens, e.Mask = make([]int32, 5), []bool{false, true, true, false, true}
		e.Logprobs, e.Entropies, e.Discriminators = make([]float32, 5), make([]float32, 5), make([]float32, 5)
		masks = append(masks, e.Mask)
	}
	edit(g[0], g[1])
	kept, m, err := made(t, name, a).Advantages(t.Context(), []trinity.Group{g})
	if err != nil || len(kept) != 1 || len(kept[0]) != 2 {
		t.Fatalf("kept %v, %v", kept, err)
	}
	out := 0
	for i, e := range g {
		if !slices.Equal(masks[i], []bool{false, true, true, false, true}) {
			t.Errorf("the mask of %s was changed in place", e.ID)
		}
		for at, trained := range e.Mask {
			if trained != (e.Advantages[at] != 0) {
				t.Errorf("%s: token %d, trained %v, has the advantage %v", e.ID, at, trained, e.Advantages[at])
			}
			if masks[i][at] && !trained {
				out++
			}
		}
	}
	if share := float64(out) / 6; math.Abs(m["frac_clipped"]-share) > 1e-12 ||
		math.Abs(m["frac_clipped_neg"]-2*share) > 1e-12 || m["frac_clipped_pos"] != 0 {
		t.Errorf("metrics %v, want frac_clipped %v", m, share)
	}
	of := func(e *trinity.Experience) []bool { return []bool{e.Mask[1], e.Mask[2], e.Mask[4]} }
	return of(g[0]), of(g[1])
}

func TestClipBEqualsValuesByHand(t *testing.T) {
	// p ½ where H is ln 2: S = 0; p ½ where H is 0: S = −½·ln 2. Over 4 of the one and 2 of the
	// other the mean is −⅓·½·ln 2, the std √(2/9)·½·ln 2, and the low ones are (2/3)/√(2/9) = √2
	// standard deviations below
	edit := func(below, above *trinity.Experience) {
		for _, e := range []*trinity.Experience{below, above} {
			for at := range e.Logprobs {
				e.Logprobs[at], e.Entropies[at] = float32(-math.Ln2), float32(math.Ln2)
			}
			e.Entropies[2] = 0
		}
	}
	for mu, kept := range map[float64]bool{1.41: false, 1.42: true} {
		below, above := clipped(t, "clipb", args{"mu": mu}, edit)
		if !slices.Equal(below, []bool{true, kept, true}) || !slices.Equal(above, []bool{true, true, true}) {
			t.Errorf("mu %v: %v, %v stay", mu, below, above)
		}
	}
}

// All S are 0 but for the rounding of one entropy to float32.
func TestClipBIgnoresRounding(t *testing.T) {
	below, _ := clipped(t, "clipb", args{"mu": 1}, func(below, above *trinity.Experience) {
		for _, e := range []*trinity.Experience{below, above} {
			for at := range e.Logprobs {
				e.Logprobs[at], e.Entropies[at] = float32(-math.Ln2), float32(math.Ln2)
			}
		}
		below.Entropies[2] = math.Nextafter32(below.Entropies[2], 0)
	})
	if !slices.Equal(below, []bool{true, true, true}) {
		t.Errorf("%v stay, want all", below)
	}
}

func TestClipVEqualsValuesByHand(t *testing.T) {
	// p is 1 and H is 0, so that S = 0 and D is the discriminator
	edit := func(below, above *trinity.Experience) {
		below.Discriminators, above.Discriminators = []float32{0, 2, 3, 0, 1}, []float32{0, 9, 9, 0, 9}
	}
	for _, c := range []struct {
		mu, maxFrac float64
		below       []bool
	}{
		{0, 0, []bool{true, false, true}}, {0, 0.32, []bool{true, false, true}}, {0, 0.34, []bool{false, false, true}},
		{0, 1, []bool{false, false, false}},
		{0.4, 1, []bool{false, false, true}}, {0.8, 1, []bool{true, false, true}}, {1, 1, []bool{true, true, true}}, // std 3.55
	} {
		below, above := clipped(t, "clipv", args{"mu": c.mu, "max_frac": c.maxFrac}, edit)
		if !slices.Equal(below, c.below) || !slices.Equal(above, []bool{true, true, true}) {
			t.Errorf("mu %v, max_frac %v: %v, %v stay, want %v", c.mu, c.maxFrac, below, above, c.below)
		}
	}
}

// All D are 1, except one that is larger by the trainer's probability. The sampler's probability
// would not change it.
func TestClipVReadsTheProbabilityBeforeTheUpdate(t *testing.T) {
	below, _ := clipped(t, "clipv", args{"mu": 0, "max_frac": 0}, func(below, above *trinity.Experience) {
		below.Discriminators = []float32{0, 1, 1, 0, 1}
		below.OldLogprobs = []float32{0, 0, 0, 0, -1} // S = −1/e
	})
	if !slices.Equal(below, []bool{true, true, false}) {
		t.Errorf("%v stay, want the last one clipped", below)
	}
}

// They would make every advantage 0 or drop every group.
func TestInfiniteArgumentsAreErrors(t *testing.T) {
	for _, c := range []struct{ name, key string }{
		{"grpo", "epsilon"}, {"rec", "epsilon"}, {"gigpo", "epsilon"}, {"step_wise_grpo", "epsilon"}, {"cod", "epsilon"},
		{"clipb", "epsilon"}, {"clipv", "epsilon"},
		{"grpo", "std_threshold"}, {"step_wise_grpo", "std_threshold"},
	} {
		_, err := registry.Advantages.Build(c.name, args{c.key: math.Inf(1)})
		if err == nil || !strings.Contains(err.Error(), c.key+": must") || !strings.Contains(err.Error(), "finite") {
			t.Errorf("%s with an infinite %s: %v", c.name, c.key, err)
		}
	}
}

// The trainer logs advantages/mean of the experiences that it trains on.
func TestDistillationLeavesTheMeanAdvantageToTheTrainer(t *testing.T) {
	for _, name := range []string{"on_policy_distill", "jsd"} {
		e := &trinity.Experience{Tokens: make([]int32, 3), Mask: []bool{false, true, true}, Logprobs: make([]float32, 3),
			TeacherLogprobs: []float32{0, -1, 0}}
		_, m, err := made(t, name, nil).Advantages(t.Context(), []trinity.Group{{e}})
		if _, own := m["advantages/mean"]; err != nil || own || len(m) != 2 {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
}
