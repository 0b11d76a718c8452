package cpu

import (
	"fmt"
	"math"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/modelfile"
)

// hasScore tells a value head or reward model from a language model.
func (e *Engine) hasScore() bool { return e.cfg.Head != modelfile.CausalLM }

// checkStreams refuses what the head does not compute.
func (e *Engine) checkStreams(want trinity.Streams) error {
	d, err := divergenceOf(want.Divergence)
	if err != nil {
		return err
	}
	if e.hasScore() && (!want.Value || want.Entropy || want.Discriminator || d != nil) {
		return fmt.Errorf("cpu: log-probabilities, entropies or divergences are asked of an engine with a value head: ask it for values")
	}
	if !e.hasScore() && want.Value {
		return fmt.Errorf("cpu: a loss asks for values, but this engine has no value head: use an algorithm without a critic, or open the critic with Options.Value")
	}
	if d != nil && len(e.teachers) == 0 {
		return fmt.Errorf("cpu: a loss asks for the divergence %s from a teacher, and the engine was given none: see SetTeachers", want.Divergence.Kind)
	}
	return nil
}

// stats spreads head rows over the sequences.
func (e *Engine) stats(batch []*trinity.Experience, want trinity.Streams) []trinity.TokenStats {
	stats := make([]trinity.TokenStats, len(batch))
	for i, x := range batch {
		s := &stats[i]
		for _, stream := range []struct {
			wanted bool
			to     *[]float32
		}{
			{!want.Value, &s.Logprob}, {want.Entropy, &s.Entropy}, {want.Value, &s.Value}, {want.Discriminator, &s.Discriminator},
			{e.divergence != nil, &s.Divergence},
		} {
			if stream.wanted {
				*stream.to = make([]float32, len(x.Tokens))
			}
		}
	}
	for i, r := range e.packing.head {
		s := &stats[r.experience]
		if want.Value {
			s.Value[r.position] = e.headSpace.scores.Data[i]
			continue
		}
		s.Logprob[r.position] = e.headSpace.logprob[i]
		if want.Entropy {
			s.Entropy[r.position] = e.headSpace.entropy[i]
		}
		if want.Discriminator {
			s.Discriminator[r.position] = e.headSpace.discriminator[i]
		}
		if e.divergence != nil {
			s.Divergence[r.position] = e.headSpace.distance[i]
		}
	}
	return stats
}

// takeGrads collects the loss's derivatives by head row. needed is false where all are 0, as for a group whose rewards are all alike: the
// backward pass would add nothing.
func (e *Engine) takeGrads(b *trinity.Batch, grads []trinity.TokenGrads) (needed bool, err error) {
	if len(grads) != len(b.Experiences) {
		return false, fmt.Errorf("cpu: the loss returned %d gradients for %d experiences", len(grads), len(b.Experiences))
	}
	for i := range grads {
		if err := e.checkGrads(&grads[i], b.Experiences[i]); err != nil {
			return false, err
		}
	}
	h := &e.headSpace
	for i, r := range e.packing.head {
		g, sum := &grads[r.experience], 0.0
		if e.hasScore() {
			h.dScores.Data[i] = at(g.Value, r.position)
			sum = float64(h.dScores.Data[i])
		} else {
			h.dLogprob[i], h.dEntropy[i] = at(g.Logprob, r.position), at(g.Entropy, r.position)
			sum = float64(h.dLogprob[i]) + float64(h.dEntropy[i])
			if h.dDistance != nil {
				h.dDistance[i] = at(g.Divergence, r.position)
				sum += float64(h.dDistance[i])
			}
		}
		if math.IsNaN(sum) || math.IsInf(sum, 0) {
			return false, fmt.Errorf("cpu: the loss has a derivative that is not a finite number at token %d of experience %s", r.position, b.Experiences[r.experience].ID)
		}
		needed = needed || h.derived(i)
	}
	return needed, nil
}

// checkGrads refuses derivatives of another length, or by a stream that the head does not have.
func (e *Engine) checkGrads(g *trinity.TokenGrads, x *trinity.Experience) error {
	for _, s := range []struct {
		name  string
		v     []float32
		known bool
	}{{"logprob", g.Logprob, !e.hasScore()}, {"entropy", g.Entropy, !e.hasScore()}, {"value", g.Value, e.hasScore()}, {"divergence", g.Divergence, e.divergence != nil}} {
		if s.v != nil && !s.known {
			return fmt.Errorf("cpu: the loss returned derivatives by %s, which it has not asked for or this engine's head does not compute", s.name)
		}
		if s.v != nil && len(s.v) != len(x.Tokens) {
			return fmt.Errorf("cpu: the loss returned %d derivatives by %s for experience %s of %d tokens", len(s.v), s.name, x.ID, len(x.Tokens))
		}
	}
	return nil
}

// derived is true where the loss depends on a head row.
func (h *headSpace) derived(i int) bool {
	if h.dScores.Rows > 0 {
		return h.dScores.Data[i] != 0
	}
	return h.dLogprob[i] != 0 || h.dEntropy[i] != 0 || h.dDistance != nil && h.dDistance[i] != 0
}

func at(v []float32, t int32) float32 {
	if v == nil {
		return 0
	}
	return v[t]
}
