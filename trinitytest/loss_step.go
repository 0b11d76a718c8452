package trinitytest

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/loss"
)

// lossStep is an optimizer step with the engine's statistics for it.
type lossStep struct {
	exps []*trinity.Experience
	now  []trinity.TokenStats
}

// responses holds the masks after the prompt: 1 where the policy sampled, 0 where an environment
// spoke. Experiences 2i and 2i+1 form a pair.
var responses = []string{"1111", "1001111", "11", "000", "111110", "1", "10101", "11111111", "01", "1", "0001", "111"}

// rollouts returns a step of all responses near the policy that sampled them. The first response is
// exactly on-policy, and one has advantage 0.
func rollouts(seed uint64) *lossStep {
	rng := rand.New(rand.NewPCG(seed, 0))
	return stepOf(rng, responses, func(i int) (lp, old, ref, adv float64) {
		lp = -rng.ExpFloat64() - 0.01
		old, ref = lp+0.4*rng.NormFloat64(), lp+0.4*rng.NormFloat64()
		adv = float64(i%5-2) + 0.1*rng.NormFloat64()
		switch i {
		case 0:
			old = lp
		case 7:
			adv = 0
		}
		return lp, old, ref, adv
	})
}

// lossCorners returns extreme steps. unit is the number of sequences that belong together.
func lossCorners(unit int) map[string]*lossStep {
	corner := func(masks []string, token func(i int) (lp, old, ref, adv float64)) *lossStep {
		return stepOf(rand.New(rand.NewPCG(8, 0)), masks, token)
	}
	near := func(i int) (lp, old, ref, adv float64) { return -1, -1.2, -0.9, float64(i%3 - 1) }
	all := map[string]*lossStep{
		"log-ratios of 50": corner(responses, func(i int) (lp, old, ref, adv float64) {
			if i%3 == 0 {
				return 0, -50, -50, float64(10 - i)
			}
			return -50, 0, 0, float64(i - 5)
		}),
		"all far too likely":   corner(responses, func(int) (lp, old, ref, adv float64) { return 0, -50, -50, 10 }),
		"all far too unlikely": corner(responses, func(int) (lp, old, ref, adv float64) { return -50, 0, 0, -10 }),
		"all advantages 0":     corner(responses, func(int) (lp, old, ref, adv float64) { return -1, -1.5, -0.5, 0 }),
		"nothing trained":      corner([]string{"0", "000", "", "00"}, near),
		"single tokens":        corner([]string{"1", "1", "1", "1"}, near),
		"one sequence or pair": corner([]string{"101", "1"}[:unit], near),
		"demonstrations only":  corner(responses, near),
		"rollouts only":        corner(responses, near),
	}
	for i, e := range all["nothing trained"].exps {
		if i%2 == 0 { // the sampler recorded no log-probabilities
			e.Logprobs, e.RefLogprobs, e.TeacherLogprobs, e.Advantages = nil, nil, nil, nil
		}
	}
	for _, e := range all["demonstrations only"].exps {
		e.IsExpert = true
	}
	for _, e := range all["rollouts only"].exps {
		e.IsExpert = false
	}
	return all
}

// stepOf returns experiences with two prompt tokens and a response each.
func stepOf(rng *rand.Rand, masks []string, token func(i int) (lp, old, ref, adv float64)) *lossStep {
	s := &lossStep{}
	var prompt []int32
	for i, mask := range masks {
		if i%2 == 0 {
			prompt = []int32{rng.Int32N(1000), rng.Int32N(1000)}
		}
		n := len(prompt) + len(mask)
		e := &trinity.Experience{
			ID: trinity.ExperienceID{Step: 1, Task: "task" + strconv.Itoa(i/4), Run: i % 4}, PromptLen: len(prompt),
			Reward: trinity.Reward{Valid: true, Value: float64(i % 3)},
			Chosen: i%2 == 0, IsExpert: i%4 == 2, Tokens: slices.Clone(prompt), Mask: make([]bool, n),
			Logprobs: make([]float32, n), RefLogprobs: make([]float32, n), TeacherLogprobs: make([]float32, n), Advantages: make([]float32, n),
		}
		now := trinity.TokenStats{Logprob: make([]float32, n), Divergence: make([]float32, n)}
		for range mask {
			e.Tokens = append(e.Tokens, rng.Int32N(1000))
		}
		for k, c := range mask {
			if at := len(prompt) + k; c == '1' {
				lp, old, ref, adv := token(i)
				e.Mask[at] = true
				now.Divergence[at] = float32(-lp)
				now.Logprob[at], e.Logprobs[at], e.RefLogprobs[at] = float32(lp), float32(old), float32(ref)
				e.TeacherLogprobs[at], e.Advantages[at] = float32(min(0, lp+0.3)), float32(adv)
			}
		}
		s.exps, s.now = append(s.exps, e), append(s.now, now)
	}
	return s
}

// show prepares the loss like the trainer before the first micro-batch.
func (s *lossStep) show(t *testing.T, l *loss.Composite) {
	t.Helper()
	probes := l.Probes(s.exps)
	if len(probes) == 0 {
		return
	}
	var stats []trinity.TokenStats
	for _, e := range probes {
		if at := slices.Index(s.exps, e); at >= 0 {
			stats = append(stats, s.now[at])
			continue
		}
		e.RefLogprobs = imagined(e, 1)
		stats = append(stats, trinity.TokenStats{Logprob: imagined(e, 2)})
	}
	if err := l.Prepare(t.Context(), &trinity.Batch{Step: 3, Experiences: probes, Whole: probes}, stats); err != nil {
		t.Fatal(err)
	}
}

// imagined returns log-probabilities that depend only on the tokens.
func imagined(e *trinity.Experience, model byte) []float32 {
	lp := make([]float32, len(e.Tokens))
	h := fnv.New32a()
	h.Write([]byte{model})
	for k, token := range e.Tokens {
		h.Write([]byte{byte(token), byte(token >> 8)})
		if e.Mask[k] {
			lp[k] = -0.5 - float32(h.Sum32()%1000)/1000
		}
	}
	return lp
}

// lossUnit returns the number of sequences that no micro-batch separates.
func lossUnit(l *loss.Composite) int {
	if l.Pairs() {
		return 2
	}
	return 1
}

// cuts returns several partitions of the step into micro-batches, as numbers of sequences.
func (s *lossStep) cuts(l *loss.Composite) [][]int {
	unit, n := lossUnit(l), len(s.exps)
	cuts := [][]int{{n}, slices.Repeat([]int{unit}, n/unit)}
	if n > 5*unit {
		cuts = append(cuts, []int{2 * unit, 3 * unit, n - 5*unit}, []int{n - unit, unit})
	}
	return cuts
}

// run computes the step in micro-batches of the given sizes and sums the metrics.
func (s *lossStep) run(t *testing.T, l *loss.Composite, cut []int) ([]trinity.TokenGrads, trinity.Metrics) {
	t.Helper()
	var grads []trinity.TokenGrads
	metrics := trinity.Metrics{}
	for from := 0; len(cut) > 0; cut = cut[1:] {
		to := from + cut[0]
		g, m, err := l.Loss(&trinity.Batch{Step: 3, Experiences: s.exps[from:to], Whole: s.exps}, s.now[from:to])
		if err != nil {
			t.Errorf("experiences %d to %d: %v", from, to-1, err)
			return make([]trinity.TokenGrads, len(s.exps)), metrics
		}
		grads, from = append(grads, g...), to
		metrics.Add(m)
	}
	return grads, metrics
}

// sound checks that all numbers are finite and that untrained tokens have no gradient.
func (s *lossStep) sound(t *testing.T, grads []trinity.TokenGrads, metrics trinity.Metrics) {
	t.Helper()
	for name, v := range metrics {
		if !finite(v) {
			t.Errorf("%s is %v", name, v)
		}
	}
	for i, e := range s.exps {
		if n := len(lossGrad(grads[i])); n != len(e.Mask) {
			t.Errorf("%s: %d derivatives for %d tokens", e.ID, n, len(e.Mask))
			continue
		}
		for k, g := range lossGrad(grads[i]) {
			if !finite(float64(g)) || !e.Mask[k] && g != 0 {
				t.Errorf("%s, token %d (trained on: %v): gradient %v", e.ID, k, e.Mask[k], g)
			}
		}
	}
}
