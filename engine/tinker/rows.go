package tinker

import (
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/wire/tinker"
)

const crossEntropy = "cross_entropy"

// row is an experience up to its last trained token: input t, of n, predicts Tokens[t+1]. What follows has no effect, and does
// not leave the machine.
type row struct {
	at int // among the experiences
	of *trinity.Experience
	n  int
}

// rowsOf returns the rows of the experiences that have a trained token.
func rowsOf(exps []*trinity.Experience) (rows []row) {
	for i, x := range exps {
		for t, trained := range slices.Backward(x.Mask) {
			if trained {
				rows = append(rows, row{i, x, t})
				break
			}
		}
	}
	return rows
}

// columns is how many targets a token has.
func (r row) columns() int {
	if r.of.Targets == nil {
		return 1
	}
	return len(r.of.Targets) / len(r.of.Tokens)
}

// datum returns the sequence for the service, which has each target at the place that predicts it.
func (r row) datum(inputs []tinker.Named) tinker.Datum {
	k, targets := r.columns(), []int32(nil)
	for t := 1; t <= r.n; t++ {
		if r.of.Targets != nil && r.of.Mask[t] {
			targets = append(targets, r.of.Targets[t*k:(t+1)*k]...)
		} else {
			targets = append(targets, slices.Repeat(r.of.Tokens[t:t+1], k)...)
		}
	}
	tensor := tinker.NewTokens(targets)
	tensor.Shape = r.shape(tensor.Shape)
	return tinker.Datum{
		Input:  []tinker.Chunk{tinker.TextChunk(r.of.Tokens[:r.n])},
		Inputs: append(inputs, tinker.Named{Name: "target_tokens", Tensor: tensor}),
	}
}

// shape returns the shape of a tensor with a number for each target: [n, K] for several targets a token, else usual.
func (r row) shape(usual []int64) []int64 {
	if k := r.columns(); k > 1 {
		return []int64{int64(r.n), int64(k)}
	}
	return usual
}

// weights returns the derivatives of a loss [T·K] as weights of cross_entropy.
func (r row) weights(slopes []float32) tinker.Named {
	w := floats("weights", r.masked(slopes, -1))
	w.Tensor.Shape = r.shape(w.Tensor.Shape)
	return w
}

// masked returns a stream [T·K] times factor as the service has it [n·K], with 0 at tokens that are not trained.
func (r row) masked(stream []float32, factor float32) []float32 {
	k := len(stream) / len(r.of.Tokens)
	out := make([]float32, r.n*k)
	for i := range out {
		if r.of.Mask[i/k+1] {
			out[i] = factor * stream[i+k]
		}
	}
	return out
}

// mask returns 1 at trained tokens.
func (r row) mask() []float32 {
	out := make([]float32, r.n)
	for t := range out {
		if r.of.Mask[t+1] {
			out[t] = 1
		}
	}
	return out
}

func floats(name string, v []float32) tinker.Named {
	return tinker.Named{Name: name, Tensor: tinker.NewFloats(v)}
}

// statsOf returns the statistics of experiences from those of their rows.
func statsOf(exps []*trinity.Experience, rows []row, logprobs [][]float32) ([]trinity.TokenStats, error) {
	stats := make([]trinity.TokenStats, len(exps))
	for i, x := range exps {
		stats[i].Logprob = make([]float32, max(len(x.Tokens), len(x.Targets)))
	}
	for i, r := range rows {
		k := r.columns()
		if len(logprobs[i]) != r.n*k {
			return nil, fmt.Errorf("tinker: the service gave %d log-probabilities for %d targets of experience %s", len(logprobs[i]), r.n*k, r.of.ID)
		}
		for j, lp := range logprobs[i] {
			if r.of.Mask[j/k+1] {
				stats[r.at].Logprob[j+k] = lp
			}
		}
	}
	return stats, nil
}

// check refuses batches that a service cannot compute.
func check(exps []*trinity.Experience, vocab int) error {
	for _, x := range exps {
		if err := engine.CheckText(x); err != nil {
			return fmt.Errorf("tinker: %w", err)
		}
		if x.Temperature != 0 && x.Temperature != 1 {
			return fmt.Errorf("tinker: experience %s was sampled at temperature %v, and a service gives log-probabilities at temperature 1: "+
				"set model.temperature to 1", x.ID, x.Temperature)
		}
		k := len(x.Targets) / len(x.Tokens)
		for i, target := range x.Targets {
			if x.Mask[i/k] && (target < 0 || int(target) >= vocab) {
				return fmt.Errorf("tinker: experience %s: target %d at position %d is outside the vocabulary of %d", x.ID, target, i/k, vocab)
			}
		}
		for t, token := range x.Tokens {
			if token < 0 || int(token) >= vocab {
				return fmt.Errorf("tinker: experience %s: token %d at position %d is outside the vocabulary of %d", x.ID, token, t, vocab)
			}
		}
	}
	return nil
}
