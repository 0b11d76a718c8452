package tinker

import (
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
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

// datum returns the sequence for the service, which has each target at the place that predicts it.
func (r row) datum(inputs []tinker.Named) tinker.Datum {
	targets := slices.Clone(r.of.Tokens[1 : r.n+1])
	if r.of.Targets != nil {
		for t := range targets {
			if r.of.Mask[t+1] {
				targets[t] = r.of.Targets[t+1]
			}
		}
	}
	return tinker.Datum{
		Input:  []tinker.Chunk{tinker.TextChunk(r.of.Tokens[:r.n])},
		Inputs: append(inputs, tinker.Named{Name: "target_tokens", Tensor: tinker.NewTokens(targets)}),
	}
}

// masked returns a stream [T] times factor as the service has it [n], with 0 at tokens that are not trained.
func (r row) masked(stream []float32, factor float32) []float32 {
	out := make([]float32, r.n)
	for t := range out {
		if r.of.Mask[t+1] {
			out[t] = factor * stream[t+1]
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

func weights(v []float32) tinker.Named { return floats("weights", v) }

// statsOf returns the statistics of experiences from those of their rows.
func statsOf(exps []*trinity.Experience, rows []row, logprobs [][]float32) ([]trinity.TokenStats, error) {
	stats := make([]trinity.TokenStats, len(exps))
	for i, x := range exps {
		stats[i].Logprob = make([]float32, len(x.Tokens))
	}
	for i, r := range rows {
		if len(logprobs[i]) != r.n {
			return nil, fmt.Errorf("tinker: the service gave %d log-probabilities for %d tokens of experience %s", len(logprobs[i]), r.n, r.of.ID)
		}
		for t, lp := range logprobs[i] {
			if r.of.Mask[t+1] {
				stats[r.at].Logprob[t+1] = lp
			}
		}
	}
	return stats, nil
}

// check refuses batches that a service cannot compute.
func check(exps []*trinity.Experience, vocab int) error {
	for _, x := range exps {
		if err := x.Check(); err != nil {
			return fmt.Errorf("tinker: %w", err)
		}
		if x.Temperature != 0 && x.Temperature != 1 {
			return fmt.Errorf("tinker: experience %s was sampled at temperature %v, and a service gives log-probabilities at temperature 1: "+
				"set model.temperature to 1", x.ID, x.Temperature)
		}
		for t, token := range x.Tokens {
			if x.Targets != nil && x.Mask[t] && (x.Targets[t] < 0 || int(x.Targets[t]) >= vocab) {
				return fmt.Errorf("tinker: experience %s: target %d at position %d is outside the vocabulary of %d", x.ID, x.Targets[t], t, vocab)
			}
			if token < 0 || int(token) >= vocab {
				return fmt.Errorf("tinker: experience %s: token %d at position %d is outside the vocabulary of %d", x.ID, token, t, vocab)
			}
		}
	}
	return nil
}
