package operator

import (
	"fmt"

	"github.com/trinity-go/trinity"
)

// verdicts says which experiences are right, by a number that they carry.
type verdicts struct {
	key       string
	threshold float64

	found   bool                // an experience had the number
	without *trinity.Experience // one that had a reward and not the number
}

// of reports whether the experience is right; known is false without a valid reward and without the number.
func (v *verdicts) of(e *trinity.Experience) (right, known bool) {
	if !scored(e) {
		return false, false
	}
	x, ok := metric(e, v.key)
	if !ok {
		v.without = e
		return false, false
	}
	v.found = true
	return x > v.threshold, true
}

// check is an error when experiences had rewards and none of them the number.
func (v *verdicts) check() error {
	if v.without == nil || v.found {
		return nil
	}
	return fmt.Errorf("metric_key %q: no experience has such a part of its reward or such a metric, e.g. %s with the parts %v: set metric_key",
		v.key, v.without.ID, v.without.Reward.Parts)
}

// metric returns a part of the reward, or else a metric, by its name, as the explorer logs it.
func metric(e *trinity.Experience, name string) (float64, bool) {
	if v, ok := e.Reward.Parts[name]; ok {
		return v, true
	}
	v, ok := e.Metrics[name]
	return v, ok
}
