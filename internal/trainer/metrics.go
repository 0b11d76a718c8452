package trainer

import (
	"math"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience"
)

// summary accumulates the mean, variance, max and min of a stream of values.
type summary struct {
	sum, max, min float64
	spread        float64 // Σ (v − mean)², updated as in Welford 1962
	n             int
}

func (s *summary) add(v float64) {
	if s.n == 0 {
		s.max, s.min = math.Inf(-1), math.Inf(1)
	} else {
		off := v - s.sum/float64(s.n)
		s.spread += off * off * float64(s.n) / float64(s.n+1)
	}
	s.sum, s.max, s.min, s.n = s.sum+v, max(s.max, v), min(s.min, v), s.n+1
}

// variance returns the variance over n − 1; it needs at least two values.
func (s *summary) variance() float64 { return s.spread / float64(s.n-1) }

func (s *summary) log(m trinity.Metrics, name string) {
	if s.n == 0 {
		return
	}
	m[name+"/mean"], m[name+"/max"], m[name+"/min"] = s.sum/float64(s.n), s.max, s.min
}

// batchMetrics returns the metrics of a batch before the update. Those of each part (Experience.Part) are apart.
func batchMetrics(exps []*trinity.Experience) trinity.Metrics {
	m, parts, tokens := trinity.Metrics{}, map[string][]*trinity.Experience{}, 0
	for _, e := range exps {
		tokens += len(e.Tokens)
		parts[e.Part] = append(parts[e.Part], e)
	}
	m["perf/total_num_tokens"] = float64(tokens)
	for part, own := range parts {
		describe(m, own, func(name string) string { return experience.MetricOf(part, name) })
	}
	return m
}

// describe adds metrics of experiences, which are not none, by the names that named gives them.
func describe(m trinity.Metrics, exps []*trinity.Experience, named func(string) string) {
	var rewards, responses, prompts summary
	clipped := 0
	for _, e := range exps {
		responses.add(float64(e.ResponseLen()))
		prompts.add(float64(e.PromptLen))
		if e.Truncated == trinity.ResponseTruncated {
			clipped++
		}
		if e.Reward.Valid {
			rewards.add(e.Reward.Value)
		}
	}
	rewards.log(m, named("critic/score"))
	rewards.log(m, named("critic/rewards")) // an advantage with token rewards replaces those of replies
	responses.log(m, named("response_length"))
	prompts.log(m, named("prompt_length"))
	m[named("response_length")+"/clip_ratio"] = float64(clipped) / float64(len(exps))
}

// streamMetrics adds the metrics of the experiences to train on: their advantages, returns and
// critic's values over trained tokens. With values it adds the share of the returns' variance that
// the values explain, 1 − Var(R − V)/(Var(R) + 1e-5).
func streamMetrics(exps []*trinity.Experience, metrics trinity.Metrics) {
	var advantages, values, returns, errors summary
	for _, e := range exps {
		for t, trained := range e.Mask {
			if !trained {
				continue
			}
			if e.Advantages != nil {
				advantages.add(float64(e.Advantages[t]))
			}
			if e.Returns != nil {
				returns.add(float64(e.Returns[t]))
			}
			if e.Values != nil && e.Returns != nil {
				values.add(float64(e.Values[t]))
				errors.add(float64(e.Returns[t]) - float64(e.Values[t]))
			}
		}
	}
	advantages.log(metrics, "critic/advantages")
	values.log(metrics, "critic/values")
	returns.log(metrics, "critic/returns")
	if errors.n > 1 {
		metrics["critic/vf_explained_var"] = 1 - errors.variance()/(returns.variance()+1e-5)
	}
}
