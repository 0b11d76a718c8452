package explorer

import (
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// Three first steps with tools and without a call are reported once. A call ends the watch.
func TestToolsThatNobodyCallsAreReported(t *testing.T) {
	for name, c := range map[string]struct {
		rates []float64 // of a step; negative: the step has no tools
		want  int       // the step that is reported
	}{
		"no call":      {[]float64{0, 0, 0, 0, 0, 0}, 3},
		"a first call": {[]float64{.5, 0, 0, 0, 0}, 0},
		"a late call":  {[]float64{0, 0, .5, 0, 0, 0}, 0},
		"no tools":     {[]float64{-1, -1, -1, -1}, 0},
		"tools later":  {[]float64{-1, 0, 0, 0}, 4},
	} {
		said := &telling{shares: map[int64]float64{}}
		e := &Explorer{opts: Options{Recorder: said}}
		for i, rate := range c.rates {
			x := &trinity.Experience{Metrics: trinity.Metrics{}, Reward: trinity.Reward{Valid: true}}
			if rate >= 0 {
				x.Metrics = trinity.Metrics{"tool_call_rate": rate, "tool_call_malformed_rate": .25}
			}
			m := trinity.Metrics{}
			m.Merge("rollout/", rolloutMetrics([]*outcome{{group: trinity.Group{x}}}))
			e.reportNoCalls(trinity.Record{Step: int64(i + 1), Metrics: m})
			if due := c.want > 0 && i+1 >= c.want; due != (len(said.lines) == 1) {
				t.Errorf("%s: after step %d it has said %q", name, i+1, said.lines)
			}
		}
		if c.want > 0 && (len(said.lines) != 1 || !strings.Contains(said.lines[0], "25 % of this step's replies")) {
			t.Errorf("%s: it has said %q", name, said.lines)
		}
	}
}
