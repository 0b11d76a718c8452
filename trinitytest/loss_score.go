package trinitytest

import (
	"math"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/loss"
)

// scoreLoss checks a loss that trains a reward model.
func scoreLoss(t *testing.T, compose func() *loss.Composite) {
	t.Run("differences", func(t *testing.T) { scoreDifferences(t, compose()) })
	t.Run("cuts", func(t *testing.T) { scoreCuts(t, compose()) })
	t.Run("tokens", func(t *testing.T) { scoreTokens(t, compose()) })
	for name, score := range map[string]float32{"scores of 0": 0, "far on the right side": 50, "far on the wrong side": -50} {
		t.Run(name, func(t *testing.T) {
			s := scored(1)
			for i := range s.now {
				s.now[i].Score = score * float32(1-i%2)
			}
			s.scores(t, compose(), []int{len(s.exps)})
		})
	}
}

// scored returns a step of the usual responses with a score for each.
func scored(seed uint64) *lossStep {
	s := rollouts(seed)
	for i := range s.now {
		s.now[i] = trinity.TokenStats{Score: float32(math.Sin(float64(i)+float64(seed))) * 2}
	}
	return s
}

// scores computes the step in micro-batches of the given sizes. All numbers must be finite, and no
// token has a derivative.
func (s *lossStep) scores(t *testing.T, l *loss.Composite, cut []int) (slopes []float64, metrics trinity.Metrics) {
	t.Helper()
	grads, metrics := s.run(t, l, cut)
	for name, v := range metrics {
		if !finite(v) {
			t.Errorf("%s is %v", name, v)
		}
	}
	for i, g := range grads {
		if !finite(float64(g.Score)) || g.Logprob != nil || g.Entropy != nil || g.Value != nil || g.Divergence != nil {
			t.Errorf("%s: derivatives %+v, want a finite one by the score alone", s.exps[i].ID, g)
		}
		slopes = append(slopes, float64(g.Score))
	}
	return slopes, metrics
}

// scoreDifferences compares the gradient with differences of the loss.
func scoreDifferences(t *testing.T, l *loss.Composite) {
	s := scored(2)
	slopes, _ := s.scores(t, l, []int{len(s.exps)})
	if !slices.ContainsFunc(slopes, func(g float64) bool { return g != 0 }) {
		t.Error("no score has a derivative")
	}
	const h = 1.0 / 256 // the scores are float32
	for i := range s.now {
		at := s.now[i].Score
		loss := func(shift float32) float64 {
			s.now[i].Score = at + shift
			_, m := s.scores(t, l, []int{len(s.exps)})
			return m["final_loss"]
		}
		want := (loss(h) - loss(-h)) / float64((at+h)-(at-h))
		s.now[i].Score = at
		if math.Abs(slopes[i]-want) > 1e-4*(1+math.Abs(want)) {
			t.Errorf("d(loss)/d(score) of sequence %d is %v, differences give %v", i, slopes[i], want)
		}
	}
}

// scoreCuts compares the sums over micro-batches with the whole step.
func scoreCuts(t *testing.T, l *loss.Composite) {
	s := scored(3)
	want, metrics := s.scores(t, l, []int{len(s.exps)})
	if _, ok := metrics["final_loss"]; !ok || len(metrics) < 2 {
		t.Errorf("metrics %v: want the loss's own metrics and final_loss", metrics)
	}
	for _, cut := range s.cuts(l) {
		got, m := s.scores(t, l, cut)
		if !slices.EqualFunc(got, want, close6) {
			t.Errorf("micro-batches of %v: derivatives %v, want %v", cut, got, want)
		}
		for name, v := range metrics {
			if !close6(m[name], v) {
				t.Errorf("micro-batches of %v: %s adds up to %v, want %v", cut, name, m[name], v)
			}
		}
	}
}

// scoreTokens takes all that belongs to a policy away from the experiences.
func scoreTokens(t *testing.T, l *loss.Composite) {
	s := scored(4)
	want, _ := s.scores(t, l, []int{len(s.exps)})
	for _, e := range s.exps {
		e.Logprobs, e.RefLogprobs, e.TeacherLogprobs, e.Advantages = nil, nil, nil, nil
	}
	if got, _ := s.scores(t, l, []int{len(s.exps)}); !slices.Equal(got, want) {
		t.Errorf("without log-probabilities and advantages the derivatives are %v, want %v", got, want)
	}
	if loss.ReadsAdvantages(l.Policy) {
		t.Error("a reward model has no advantages: add a method ReadsAdvantages() bool that returns false")
	}
}
