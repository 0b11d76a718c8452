package trinitytest

import (
	"math"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/loss"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// Loss checks the contract of policy losses. build returns a new, equal loss each time.
//
//   - Finite differences confirm the gradients.
//   - Sums do not depend on micro-batches or on the order of experiences.
//   - Masked tokens have no effect and no gradient.
//   - All numbers are finite: at log-ratios of ±50, without trained tokens, for one token, for one
//     sequence.
//   - Metrics add up, and the loss applies the factors of rollout correction.
//   - The loss keeps no state except from Prepare.
//   - Tokens with a positive advantage become more likely, unless the loss reads no advantages.
//
// For a loss that trains a reward model, all this is checked of scores instead of tokens.
func Loss(t *testing.T, build func() loss.PolicyLoss) {
	compose := func() *loss.Composite { return loss.NewComposite(build(), nil, nil) }
	if compose().Streams().Score {
		scoreLoss(t, compose)
		return
	}
	t.Run("differences", func(t *testing.T) { lossDifferences(t, compose()) })
	t.Run("cuts", func(t *testing.T) { lossCuts(t, compose()) })
	t.Run("order", func(t *testing.T) { lossOrder(t, compose()) })
	t.Run("masks", func(t *testing.T) { lossMasks(t, compose()) })
	t.Run("weights", func(t *testing.T) { lossWeights(t, compose()) })
	t.Run("advantages", func(t *testing.T) { lossAdvantages(t, compose()) })
	t.Run("learns", func(t *testing.T) { lossLearns(t, compose()) })
	t.Run("repeats", func(t *testing.T) { lossRepeats(t, compose) })
	for name, s := range lossCorners(lossUnit(compose())) {
		t.Run(name, func(t *testing.T) {
			l := compose()
			s.show(t, l)
			for _, cut := range s.cuts(l) {
				grads, metrics := s.run(t, l, cut)
				s.sound(t, grads, metrics)
			}
		})
	}
}

// lossDifferences compares the gradient with differences of the loss in float64, with constant
// stop-gradients.
func lossDifferences(t *testing.T, l *loss.Composite) {
	s := rollouts(1)
	s.show(t, l)
	b := &trinity.Batch{Step: 3, Experiences: s.exps, Whole: s.exps}
	var tp tape.Tape
	value := func(lp []float64) (tape.Stream, *loss.Input) {
		in, err := loss.NewInput(&tp, b, s.now, l.Streams())
		if err != nil {
			t.Fatal(err)
		}
		if lp != nil {
			*read(l, in) = tp.Variable(lp)
		}
		total, _, err := l.Policy.Loss(in)
		if err != nil {
			t.Fatal(err)
		}
		return total, in
	}
	total, in := value(nil)
	tp.Backward(total)
	lp, grad := slices.Clone(read(l, in).Value()), slices.Clone(read(l, in).Grad())
	if !slices.ContainsFunc(grad, func(g float64) bool { return g != 0 }) {
		t.Error("no token has a gradient")
	}
	tp.Hold(tp.Detached())
	const h = 1e-5
	for i, x := range lp {
		lp[i] = x + h
		up, _ := value(lp)
		high := up.Scalar()
		lp[i] = x - h
		down, _ := value(lp)
		if want := (high - down.Scalar()) / (2 * h); !(math.Abs(grad[i]-want) <= 1e-6*(1+math.Abs(want))) {
			t.Errorf("d(loss)/d(stream) of trained token %d is %v, differences give %v", i, grad[i], want)
		}
		lp[i] = x
	}
	packed := 0
	grads, _ := s.run(t, l, []int{len(s.exps)})
	for i, e := range s.exps {
		for k, trained := range e.Mask {
			if trained {
				if got := lossGrad(grads[i])[k]; got != float32(grad[packed]) {
					t.Errorf("%s, token %d: the engine is given %v, the tape has %v", e.ID, k, got, grad[packed])
				}
				packed++
			}
		}
	}
}

func lossCuts(t *testing.T, l *loss.Composite) {
	s := rollouts(2)
	s.show(t, l)
	grads, metrics := s.run(t, l, []int{len(s.exps)})
	s.sound(t, grads, metrics)
	if _, ok := metrics["final_loss"]; !ok || len(metrics) < 2 {
		t.Errorf("metrics %v: want the loss's own metrics and final_loss", metrics)
	}
	for _, cut := range s.cuts(l) {
		g, m := s.run(t, l, cut)
		sameLoss(t, s.exps, g, grads, m, metrics)
	}
}

// lossOrder gives the step in another order, but keeps pairs together.
func lossOrder(t *testing.T, l *loss.Composite) {
	s := rollouts(3)
	s.show(t, l)
	grads, metrics := s.run(t, l, []int{len(s.exps)})
	turned := &lossStep{}
	want := []trinity.TokenGrads{}
	unit := lossUnit(l)
	for from := len(s.exps) - unit; from >= 0; from -= unit {
		turned.exps = append(turned.exps, s.exps[from:from+unit]...)
		turned.now = append(turned.now, s.now[from:from+unit]...)
		want = append(want, grads[from:from+unit]...)
	}
	turned.show(t, l)
	g, m := turned.run(t, l, turned.cuts(l)[1])
	sameLoss(t, turned.exps, g, want, m, metrics)
}

// lossMasks writes arbitrary values where the mask is false.
func lossMasks(t *testing.T, l *loss.Composite) {
	s := rollouts(4)
	s.show(t, l)
	want, metrics := s.run(t, l, []int{len(s.exps)})
	s.sound(t, want, metrics)
	for i, e := range s.exps {
		for k, trained := range e.Mask {
			if !trained {
				for _, v := range [][]float32{e.Logprobs, e.RefLogprobs, e.TeacherLogprobs, e.Advantages, s.now[i].Logprob, s.now[i].Divergence} {
					v[k] = float32(1000 * (k + 1))
				}
			}
		}
	}
	s.show(t, l)
	grads, again := s.run(t, l, []int{len(s.exps)})
	s.sound(t, grads, again)
	for name, v := range metrics {
		if again[name] != v {
			t.Errorf("%s is %v, and %v with other numbers where the mask is false", name, v, again[name])
		}
	}
	for i, e := range s.exps {
		if !slices.Equal(lossGrad(grads[i]), lossGrad(want[i])) {
			t.Errorf("%s: the gradient depends on numbers where the mask is false", e.ID)
		}
	}
}

// lossWeights doubles the weight of every token by rollout correction. The gradient doubles. Only a loss
// without advantages may ignore such weights, because it can learn from data that no sampler made.
func lossWeights(t *testing.T, l *loss.Composite) {
	s := rollouts(5)
	s.show(t, l)
	once, _ := s.run(t, l, []int{len(s.exps)})
	for _, e := range s.exps {
		e.PolicyWeights = slices.Repeat([]float32{2}, len(e.Mask))
	}
	s.show(t, l)
	twice, _ := s.run(t, l, []int{len(s.exps)})
	factor := float32(0)
	for i := range s.exps {
		for k, g := range lossGrad(once[i]) {
			if g == 0 {
				continue
			}
			f := lossGrad(twice[i])[k] / g
			if factor == 0 {
				factor = f
			}
			ignored := f == 1 && !loss.ReadsAdvantages(l.Policy)
			if math.Abs(float64(f-factor)) > 1e-5 || math.Abs(float64(f-2)) > 1e-5 && !ignored {
				t.Fatalf("%s, token %d: with PolicyWeights of 2 the gradient is %v times as large, want 2", s.exps[i].ID, k, f)
			}
		}
	}
}

// lossAdvantages removes the advantages. Exactly the losses that report not to read advantages must
// work without them.
func lossAdvantages(t *testing.T, l *loss.Composite) {
	s := rollouts(8)
	for _, e := range s.exps {
		e.Advantages = nil
	}
	reads := loss.ReadsAdvantages(l.Policy)
	if !reads {
		s.show(t, l)
	}
	switch _, _, err := l.Loss(&trinity.Batch{Step: 3, Experiences: s.exps, Whole: s.exps}, s.now); {
	case !reads && err != nil:
		t.Errorf("without advantages, although it reports not to read them: %v", err)
	case reads && err == nil:
		t.Error("the loss ignores advantages: add a method ReadsAdvantages() bool that returns false, so that nobody computes them")
	}
}

// lossRepeats computes a step twice, from many goroutines, and again after another step.
func lossRepeats(t *testing.T, compose func() *loss.Composite) {
	s, l := rollouts(6), compose()
	s.show(t, l)
	want, metrics := s.run(t, l, []int{len(s.exps)})
	done := make(chan bool)
	for range 4 {
		go func() {
			defer func() { done <- true }()
			g, m := s.run(t, l, []int{len(s.exps)})
			sameLoss(t, s.exps, g, want, m, metrics)
		}()
	}
	for range 4 {
		<-done
	}
	other := rollouts(7)
	other.show(t, l)
	other.run(t, l, []int{len(other.exps)})
	s.show(t, l)
	g, m := s.run(t, l, []int{len(s.exps)})
	for i := range want {
		if !slices.Equal(lossGrad(g[i]), lossGrad(want[i])) {
			t.Errorf("%s: another gradient after another step", s.exps[i].ID)
		}
	}
	sameLoss(t, s.exps, g, want, m, metrics)
}

// sameLoss compares numbers to 1e-6 of the larger one.
func sameLoss(t *testing.T, exps []*trinity.Experience, got, want []trinity.TokenGrads, metrics, wanted trinity.Metrics) {
	t.Helper()
	for i, e := range exps {
		for k, w := range lossGrad(want[i]) {
			if g := lossGrad(got[i])[k]; !close6(float64(g), float64(w)) {
				t.Errorf("%s, token %d: gradient %v, want %v", e.ID, k, g, w)
			}
		}
	}
	if len(metrics) != len(wanted) {
		t.Errorf("metrics %v, want %v", metrics, wanted)
	}
	for name, w := range wanted {
		if g, ok := metrics[name]; !ok || !close6(g, w) {
			t.Errorf("%s adds up to %v, want %v", name, g, w)
		}
	}
}

func close6(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(math.Abs(a), math.Abs(b))+1e-12 }

// read returns the stream on which the loss depends: log-probabilities, or its divergence.
func read(l *loss.Composite, in *loss.Input) *tape.Stream {
	if l.Streams().Divergence.Kind != "" {
		return &in.Divergence
	}
	return &in.Logprob
}

// lossGrad returns the derivatives with respect to the stream on which the loss depends.
func lossGrad(g trinity.TokenGrads) []float32 {
	if g.Divergence != nil {
		return g.Divergence
	}
	return g.Logprob
}
