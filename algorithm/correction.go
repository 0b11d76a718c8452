package algorithm

import (
	"fmt"
	"math"

	"github.com/trinity-go/trinity"
)

// Correction corrects for a sampler that differs from the policy in training: another engine, 8-bit
// weights, older weights. ρ = exp(old − rollout) is the trainer's probability of a token before the
// update divided by the sampler's. Each token gets the weight min(ρ, Truncate) in the policy loss
// (truncated importance sampling, Ionides 2008; for a sequence: the product of the ρ of its
// tokens). Tokens or sequences with a ratio outside [Low, High] are rejected: the loss neither sees
// them nor divides by them.
type Correction struct {
	Weights   string  // "token", "sequence", or "" for none
	Truncate  float64 // largest weight
	Normalize bool    // divide the weights by their mean over the tokens, or sequences, of the batch

	Reject    string // "token", "sequence", "geometric" (of a sequence: the geometric mean of its tokens' ρ), or "" for nothing
	Low, High float64
}

// logRatioLimit bounds |log ρ|, so that no product overflows.
const logRatioLimit = 20

// Apply returns the batch to train on: copies of the experiences with PolicyWeights, and with
// rejected tokens masked. It returns nil if everything is rejected. The experiences need both
// log-probabilities. Demonstrations do not change.
//
// Metrics, over the sampled tokens before rejection: rollout_corr/rollout_is_mean, _max and _min
// (the ratio before truncation), rollout_is_ratio_fraction_high (share of ratios above Truncate, of
// tokens or of sequences), rollout_is_eff_sample_size ((Σw)² / (n·Σw²) of the weights),
// rollout_is_batch_norm_factor, kl (mean of rollout − old, nats per token), k3_kl (mean of ρ − 1 −
// log ρ), rollout_rs_masked_fraction (tokens) and rollout_rs_seq_masked_fraction (sequences that
// lost any).
func (c *Correction) Apply(batch []*trinity.Experience) ([]*trinity.Experience, trinity.Metrics, error) {
	out := make([]*trinity.Experience, len(batch))
	ratios := make([]sequenceRatio, len(batch))
	for i, e := range batch {
		copied := *e
		out[i] = &copied
		if e.IsExpert {
			continue
		}
		if e.Logprobs == nil && e.TrainedTokens() > 0 {
			return nil, nil, fmt.Errorf("experience %s has no log-probabilities of the policy that sampled it, which rollout correction needs", e.ID)
		}
		ratios[i] = ratioOf(e)
	}
	metrics := c.weigh(out, ratios)
	left := c.reject(out, ratios, metrics)
	if left == 0 {
		return nil, metrics, nil
	}
	return out, metrics, nil
}

// sequenceRatio holds log ρ of a sequence.
type sequenceRatio struct {
	token []float64 // [T] of trained tokens; nil for a demonstration
	sum   float64
	n     int
}

func ratioOf(e *trinity.Experience) sequenceRatio {
	r := sequenceRatio{token: make([]float64, len(e.Mask))}
	for t, trained := range e.Mask {
		if trained {
			r.token[t] = float64(e.OldLogprobs[t]) - float64(e.Logprobs[t])
			r.sum += r.token[t]
			r.n++
		}
	}
	return r
}

func bounded(logRatio float64) float64 {
	return math.Exp(max(-logRatioLimit, min(logRatioLimit, logRatio)))
}

// weigh sets the weights and returns their metrics.
func (c *Correction) weigh(batch []*trinity.Experience, ratios []sequenceRatio) trinity.Metrics {
	s := statistics{low: math.Inf(1)}
	for i, e := range batch {
		r := &ratios[i]
		if c.Weights != "" && r.token != nil {
			e.PolicyWeights = make([]float32, len(e.Mask))
		}
		if r.n == 0 {
			continue
		}
		whole := bounded(r.sum)
		s.sequences++
		s.sequenceWeights += min(whole, c.Truncate)
		if c.Weights == "sequence" {
			s.compare(whole, c.Truncate)
		}
		for t, trained := range e.Mask {
			if !trained {
				continue
			}
			ratio := bounded(r.token[t])
			s.kl -= r.token[t]
			s.k3 += ratio - 1 - math.Log(ratio)
			if c.Weights == "sequence" {
				ratio = whole
			} else {
				s.compare(ratio, c.Truncate)
			}
			w := min(ratio, c.Truncate)
			s.add(ratio, w)
			if c.Weights != "" {
				e.PolicyWeights[t] = float32(w)
			}
		}
	}
	m := s.metrics()
	if c.Weights != "" && c.Normalize && s.n > 0 {
		m["rollout_corr/rollout_is_batch_norm_factor"] = c.normalize(batch, &s)
	}
	return m
}

// normalize divides the weights by their mean and returns it.
func (c *Correction) normalize(batch []*trinity.Experience, s *statistics) float64 {
	mean := s.weights / s.n
	if c.Weights == "sequence" {
		mean = s.sequenceWeights / s.sequences
	}
	for _, e := range batch {
		for t := range e.PolicyWeights {
			e.PolicyWeights[t] /= float32(mean)
		}
	}
	return mean
}

// reject masks tokens with a ratio outside the band and returns the number of trained tokens left.
func (c *Correction) reject(batch []*trinity.Experience, ratios []sequenceRatio, metrics trinity.Metrics) (left int) {
	tokens, rejected, sequences, hit := 0, 0, 0, 0
	for i, e := range batch {
		before := e.TrainedTokens()
		if ratios[i].token == nil { // a demonstration
			left += before
			continue
		}
		if c.Reject != "" && ratios[i].n > 0 {
			e.Mask = c.mask(e.Mask, &ratios[i])
		}
		after := e.TrainedTokens()
		tokens, rejected, left = tokens+before, rejected+before-after, left+after
		if before > 0 {
			sequences++
		}
		if after < before {
			hit++
		}
	}
	if c.Reject != "" && tokens > 0 {
		metrics["rollout_corr/rollout_rs_masked_fraction"] = float64(rejected) / float64(tokens)
		metrics["rollout_corr/rollout_rs_seq_masked_fraction"] = float64(hit) / float64(sequences)
	}
	return left
}

// mask returns the mask of the trained tokens inside the band.
func (c *Correction) mask(trained []bool, r *sequenceRatio) []bool {
	kept := make([]bool, len(trained))
	for t, is := range trained {
		kept[t] = is && c.keeps(r, t)
	}
	return kept
}

// keeps reports whether token t of a sequence is inside the band.
func (c *Correction) keeps(r *sequenceRatio, t int) bool {
	log := r.token[t]
	switch c.Reject {
	case "sequence":
		log = r.sum
	case "geometric":
		log = r.sum / float64(r.n)
	}
	return log >= math.Log(c.Low) && log <= math.Log(c.High)
}

// statistics sums over tokens.
type statistics struct {
	n, ratios, weights, squares, high, low, kl, k3 float64
	sequences, sequenceWeights                     float64
	compared, above                                float64 // ratios, of tokens or sequences
}

// compare counts one ratio, which is truncated separately.
func (s *statistics) compare(ratio, limit float64) {
	if s.compared++; ratio > limit {
		s.above++
	}
}

func (s *statistics) add(ratio, weight float64) {
	s.n++
	s.ratios += ratio
	s.weights += weight
	s.squares += weight * weight
	s.high, s.low = max(s.high, ratio), min(s.low, ratio)
}

func (s *statistics) metrics() trinity.Metrics {
	if s.n == 0 {
		return trinity.Metrics{}
	}
	const name = "rollout_corr/"
	return trinity.Metrics{
		name + "rollout_is_mean": s.ratios / s.n, name + "rollout_is_max": s.high, name + "rollout_is_min": s.low,
		name + "rollout_is_ratio_fraction_high": s.above / s.compared,
		name + "rollout_is_eff_sample_size":     s.weights * s.weights / (s.n * s.squares),
		name + "kl":                             s.kl / s.n, name + "k3_kl": s.k3 / s.n,
	}
}
