package cpu

import (
	"fmt"
	"math"
	"slices"

	"github.com/trinity-go/trinity"
)

// checkStreams refuses streams that the head does not compute.
func (h *head) checkStreams(want trinity.Streams) error {
	d, err := divergenceOf(want.Divergence)
	if err != nil {
		return err
	}
	if h.hasScore() && (!want.Value || want.Entropy || want.Discriminator || d != nil) {
		return fmt.Errorf("cpu: an engine with a value head computes values only, not log-probabilities, entropies or divergences: ask it for values")
	}
	if !h.hasScore() && want.Value {
		return fmt.Errorf("cpu: the loss needs values, but this engine has no value head: use an algorithm without a critic, or open the critic with Options.Value")
	}
	if d != nil && len(h.compare.teachers) == 0 {
		return fmt.Errorf("cpu: the loss needs the divergence %s from a teacher, but the engine has no teachers: call SetTeachers", want.Divergence.Kind)
	}
	return nil
}

// stats distributes the head rows over the sequences of a batch.
func (h *head) stats(p *packing, batch []*trinity.Experience, want trinity.Streams) []trinity.TokenStats {
	space, divergence := &h.space, h.compare.divergence != nil
	stats := make([]trinity.TokenStats, len(batch))
	for i, x := range batch {
		s := &stats[i]
		for _, stream := range []struct {
			wanted bool
			to     *[]float32
		}{
			{!want.Value, &s.Logprob}, {want.Entropy, &s.Entropy}, {want.Value, &s.Value}, {want.Discriminator, &s.Discriminator},
			{divergence, &s.Divergence},
		} {
			if stream.wanted {
				*stream.to = make([]float32, len(x.Tokens))
			}
		}
		if n := len(x.Targets); !want.Value && n > len(x.Tokens) {
			s.Logprob = make([]float32, n)
		}
	}
	for _, u := range p.uses {
		s := &stats[u.experience]
		if want.Value {
			s.Value[u.position] = space.scores.Data[u.head]
			continue
		}
		if soft := p.softOf(&u.headRow); soft != nil {
			copy(s.Logprob[u.position*len(soft.targets):], soft.logprob)
		} else {
			s.Logprob[u.position] = space.logprob[u.head]
		}
		if want.Entropy {
			s.Entropy[u.position] = space.entropy[u.head]
		}
		if want.Discriminator {
			s.Discriminator[u.position] = space.discriminator[u.head]
		}
		if divergence {
			s.Divergence[u.position] = h.compare.values[u.head]
		}
	}
	return stats
}

// takeGradient sums the loss's derivatives into the head rows, in the order of the experiences.
// needed is false if all sums are 0, as for a group whose rewards are equal: the backward pass would
// add nothing.
func (h *head) takeGradient(p *packing, batch []*trinity.Experience, grads []trinity.TokenGrads) (needed bool, err error) {
	if len(grads) != len(batch) {
		return false, fmt.Errorf("cpu: the loss returned %d gradients for %d experiences", len(grads), len(batch))
	}
	for i := range grads {
		if err := h.checkGradient(&grads[i], batch[i]); err != nil {
			return false, err
		}
	}
	s, d, n := &h.space, h.compare.gradient, len(p.head)
	if h.hasScore() {
		clear(s.dScores.Data[:n])
	} else {
		clear(s.dLogprob[:n])
		clear(s.dEntropy[:n])
		clear(d[:min(n, len(d))])
	}
	for _, u := range p.uses {
		g, i, sum := &grads[u.experience], u.head, 0.0
		if h.hasScore() {
			s.dScores.Data[i] += at(g.Value, u.position)
			sum = float64(s.dScores.Data[i])
		} else {
			s.dLogprob[i] += p.dLogprob(&u, g.Logprob)
			s.dEntropy[i] += at(g.Entropy, u.position)
			sum = float64(s.dLogprob[i]) + float64(s.dEntropy[i])
			if d != nil {
				d[i] += at(g.Divergence, u.position)
				sum += float64(d[i])
			}
		}
		if math.IsNaN(sum) || math.IsInf(sum, 0) {
			return false, fmt.Errorf("cpu: the loss has a derivative that is not finite at token %d of experience %s", u.position, batch[u.experience].ID)
		}
	}
	for i := range n {
		needed = needed || h.active(p, i)
	}
	return needed, nil
}

// dLogprob returns the derivative of a loss by the log-probability of a use, from those of its experience. If
// the row has several targets, it keeps their derivatives and returns the sum.
func (p *packing) dLogprob(u *use, of []float32) (sum float32) {
	soft := p.softOf(&u.headRow)
	if soft == nil {
		return at(of, u.position)
	}
	for k := range soft.d {
		soft.d[k] = at(of, u.position*len(soft.d)+k)
		sum += soft.d[k]
	}
	return sum
}

// checkGradient refuses derivatives of a wrong length, or by a stream that was not computed.
func (h *head) checkGradient(g *trinity.TokenGrads, x *trinity.Experience) error {
	if g.Score != 0 {
		return fmt.Errorf("cpu: the loss returned a derivative by the score of experience %s, which it did not ask for", x.ID)
	}
	for _, s := range []struct {
		name     string
		v        []float32
		computed bool
	}{
		{"logprob", g.Logprob, !h.hasScore()}, {"entropy", g.Entropy, !h.hasScore()}, {"value", g.Value, h.hasScore()},
		{"divergence", g.Divergence, h.compare.divergence != nil},
	} {
		if s.v != nil && !s.computed {
			return fmt.Errorf("cpu: the loss returned derivatives by %s, which it did not ask for or this engine's head does not compute", s.name)
		}
		want := len(x.Tokens)
		if s.name == "logprob" {
			want = max(want, len(x.Targets))
		}
		if s.v != nil && len(s.v) != want {
			return fmt.Errorf("cpu: the loss returned %d derivatives by %s for experience %s of %d tokens", len(s.v), s.name, x.ID, len(x.Tokens))
		}
	}
	return nil
}

// active reports whether the loss depends on head row i.
func (h *head) active(p *packing, i int) bool {
	s, d := &h.space, h.compare.gradient
	if soft := p.softOf(&p.head[i]); soft != nil && slices.ContainsFunc(soft.d, func(v float32) bool { return v != 0 }) {
		return true
	}
	if s.dScores.Rows > 0 {
		return s.dScores.Data[i] != 0
	}
	return s.dLogprob[i] != 0 || s.dEntropy[i] != 0 || d != nil && d[i] != 0
}

// at returns v[t], or 0 if v is nil.
func at(v []float32, t int) float32 {
	if v == nil {
		return 0
	}
	return v[t]
}
