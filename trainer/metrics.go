package trainer

import (
	"math"

	"github.com/trinity-go/trinity"
)

// summary is the mean, max and min of a stream of values.
type summary struct {
	sum, max, min float64
	n             int
}

func (s *summary) add(v float64) {
	if s.n == 0 {
		s.max, s.min = math.Inf(-1), math.Inf(1)
	}
	s.sum, s.max, s.min, s.n = s.sum+v, max(s.max, v), min(s.min, v), s.n+1
}

func (s *summary) log(m trinity.Metrics, name string) {
	if s.n == 0 {
		return
	}
	m[name+"/mean"], m[name+"/max"], m[name+"/min"] = s.sum/float64(s.n), s.max, s.min
}

// batchMetrics describe a batch before it is trained on.
func batchMetrics(exps []*trinity.Experience) trinity.Metrics {
	var rewards, advantages, responses, prompts summary
	tokens, clipped := 0, 0
	for _, e := range exps {
		tokens += len(e.Tokens)
		responses.add(float64(len(e.Tokens) - e.PromptLen))
		prompts.add(float64(e.PromptLen))
		if e.Truncated == trinity.ResponseTruncated {
			clipped++
		}
		if e.Reward.Valid {
			rewards.add(e.Reward.Value)
		}
		for t, a := range e.Advantages {
			if e.Mask[t] {
				advantages.add(float64(a))
			}
		}
	}
	m := trinity.Metrics{"perf/total_num_tokens": float64(tokens)}
	rewards.log(m, "critic/rewards")
	advantages.log(m, "critic/advantages")
	responses.log(m, "response_length")
	prompts.log(m, "prompt_length")
	if len(exps) > 0 {
		m["response_length/clip_ratio"] = float64(clipped) / float64(len(exps))
	}
	return m
}
