package explorer

import (
	"fmt"
	"testing"

	"github.com/trinity-go/trinity"
)

// Parts of rewards neither replace what the explorer measures nor fill the log.
func TestPartsOfRewardsAreBounded(t *testing.T) {
	parts := map[string]float64{"response_length": 1e9, "reward": 7}
	metrics := map[string]float64{} // which programs post, too
	for i := range mostParts + 3 {
		if name := fmt.Sprintf("a%03d", i); i%2 == 0 {
			metrics[name] = 1
		} else {
			parts[name] = 1
		}
	}
	x := &trinity.Experience{Tokens: []int32{1, 2, 3}, Mask: []bool{false, true, true}, PromptLen: 1, Metrics: metrics,
		Reward: trinity.Reward{Value: .5, Valid: true, Parts: parts}}
	m := rolloutMetrics([]*outcome{{group: trinity.Group{x}}})
	if m["response_length/mean"] != 2 || m["reward/mean"] != .5 || m["unlogged_part_count"] != 3 {
		t.Errorf("response_length %g, reward %g, unlogged parts %g", m["response_length/mean"], m["reward/mean"], m["unlogged_part_count"])
	}
	_, first := m["a000/mean"]
	_, last := m[fmt.Sprintf("a%03d/mean", mostParts)]
	if !first || last {
		t.Errorf("the first part is logged: %v, one beyond the bound: %v", first, last)
	}
}
