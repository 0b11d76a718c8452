package operator

import (
	"fmt"

	"github.com/trinity-go/trinity"
)

// accuracy is the default of metric_key.
const accuracy = "accuracy"

// verdicts decides which experiences are right, by a part of their reward, a metric or the reward
// itself.
type verdicts struct {
	key       string
	threshold float64

	found   bool                // some experience had the number
	without *trinity.Experience // has a reward but not the number; for the error
	missing int                 // experiences with a reward but without the number
}

// of reports whether the experience is right; known is false if it lacks a valid reward. The reward
// decides if the experience lacks the metric.
func (v *verdicts) of(e *trinity.Experience) (right, known bool) {
	if !scored(e) {
		return false, false
	}
	x, ok := metric(e, v.key)
	if !ok {
		x, v.without = e.Reward.Value, e
		v.missing++
	}
	v.found = v.found || ok
	return x > v.threshold, true
}

// report sets the metric metric_missing_count if the reward decided for any experience. It returns
// an error if it decided for all of them though metric_key names another number.
func (v *verdicts) report(metrics trinity.Metrics) error {
	if v.missing == 0 {
		return nil
	}
	metrics["metric_missing_count"] = float64(v.missing)
	if v.found || v.key == accuracy {
		return nil
	}
	return fmt.Errorf("metric_key %q: no experience has such a part of its reward or such a metric, e.g. %s with the parts %v: "+
		"name one of them, or reward", v.key, v.without.ID, v.without.Reward.Parts)
}

// metric returns the reward's part of that name, or else the metric, or else the reward if the name
// is reward.
func metric(e *trinity.Experience, name string) (float64, bool) {
	if v, ok := e.Reward.Parts[name]; ok {
		return v, true
	}
	if v, ok := e.Metrics[name]; ok || name != "reward" {
		return v, ok
	}
	return e.Reward.Value, true
}
