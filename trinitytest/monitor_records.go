package trinitytest

import (
	"fmt"
	"math"
	"time"

	"github.com/trinity-go/trinity"
)

// records returns records of both roles. Some steps repeat or go back, and some values and names
// are hard to express in a format.
func records() []trinity.Record {
	many := trinity.Metrics{}
	for i := range 1000 {
		many[fmt.Sprintf("many/%d", i)] = float64(i)
	}
	var all []trinity.Record
	for i, m := range []trinity.Metrics{
		{"rollout/reward/mean": 0.5, "actor/final_loss": -0.125, "time/explore_step": 3, "time/train_step": 6},
		{"rollout/reward/mean": math.NaN(), "actor/final_loss": math.Inf(1), "actor/lr": math.Inf(-1),
			"time/explore_step": math.NaN(), "time/train_step": math.Inf(1)},
		{"rollout/reward/mean": math.MaxFloat64, "actor/final_loss": -math.MaxFloat64,
			"actor/grad_norm": math.SmallestNonzeroFloat64, "perf/throughput": math.MaxFloat64},
		{"eval/held_out/accuracy/mean@4": math.NaN(), "bench/held_out/mean@1": 1},
		{`a "name" \ of`: 1, "two\nlines": 2, "größe/µ": 3, "": 4, "\x1b[2J": 5},
		{}, nil, many,
	} {
		for _, role := range []string{"explorer", "trainer"} {
			for _, step := range []int64{int64(i), int64(i) + 1, int64(i)} {
				all = append(all, trinity.Record{Role: role, Step: step, Time: time.Unix(1_700_000_000+step, 0), Metrics: m})
			}
		}
	}
	return append(all, trinity.Record{Role: "trainer", Step: math.MaxInt64}, trinity.Record{Role: "explorer"})
}
