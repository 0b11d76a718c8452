package operator

import (
	"fmt"

	"github.com/trinity-go/trinity"
)

// verdicts decides which experiences are right, by a part of their reward or a metric.
type verdicts struct {
	key       string
	threshold float64

	found   bool                // some experience had the number
	without *trinity.Experience // has a reward but not the number; for the error
}

// of reports whether the experience is right; known is false if it lacks a valid reward or the
// metric.
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

// check returns an error if experiences had rewards but none of them had the metric.
func (v *verdicts) check() error {
	if v.without == nil || v.found {
		return nil
	}
	return fmt.Errorf("metric_key %q: no experience has such a part of its reward or such a metric, e.g. %s with the parts %v: set metric_key",
		v.key, v.without.ID, v.without.Reward.Parts)
}

// metric returns the reward's part of that name, or else the metric.
func metric(e *trinity.Experience, name string) (float64, bool) {
	if v, ok := e.Reward.Parts[name]; ok {
		return v, true
	}
	v, ok := e.Metrics[name]
	return v, ok
}
