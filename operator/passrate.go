package operator

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("pass_rate_calculator",
		"Measures how hard the step's tasks were and changes nothing. The pass rate of a task is the mean of "+
			"the valid rewards of its replies, so place this operator before operators that change or drop rewards. (Selectors "+
			"learn the mean reward of their rows with or without it.) Metrics, as shares of the tasks that have "+
			"a pass rate p: selection/<1_ratio, >0_ratio, valid_ratio (0 < p < 1), <15_16_ratio, >1_16_ratio, "+
			"strict_valid_ratio (1/16 < p < 15/16).",
		func() trinity.Operator { return &passRate{} })
}

// passRate measures the difficulty of tasks.
type passRate struct{}

// Process implements trinity.Operator.
func (*passRate) Process(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	var rates []float64
	for _, g := range replies(groups) {
		if r := rewards(g); len(r) > 0 {
			rates = append(rates, mean(r))
		}
	}
	if len(rates) == 0 {
		return groups, nil, nil
	}
	metrics := trinity.Metrics{}
	for name, in := range map[string]func(p float64) bool{
		"<1_ratio":           func(p float64) bool { return p < 1 },
		">0_ratio":           func(p float64) bool { return p > 0 },
		"valid_ratio":        func(p float64) bool { return 0 < p && p < 1 },
		"<15_16_ratio":       func(p float64) bool { return p < 15./16 },
		">1_16_ratio":        func(p float64) bool { return p > 1./16 },
		"strict_valid_ratio": func(p float64) bool { return 1./16 < p && p < 15./16 },
	} {
		metrics["selection/"+name] = share(rates, in)
	}
	return groups, metrics, nil
}

// share returns the fraction of x, which is not empty, for which ok is true.
func share(x []float64, ok func(float64) bool) float64 {
	n := 0
	for _, v := range x {
		if ok(v) {
			n++
		}
	}
	return float64(n) / float64(len(x))
}
