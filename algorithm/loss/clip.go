package loss

import (
	"cmp"
	"errors"
)

// clip holds the arguments of losses that cut the gradient where the ratio is too far from 1.
type clip struct {
	ClipRange     *float64 `yaml:"clip_range" range:"[0,inf]" doc:"distance of the ratio from 1 at which its gradient ends; default of both"`
	ClipRangeLow  *float64 `yaml:"clip_range_low" range:"[0,inf]" doc:"distance below 1; null means clip_range"`
	ClipRangeHigh *float64 `yaml:"clip_range_high" range:"[0,inf]" doc:"distance above 1; null means clip_range"`
}

// distances returns the distances below and above 1; low and high are their defaults.
func (c *clip) distances(low, high float64) (float64, float64) {
	return *cmp.Or(c.ClipRangeLow, c.ClipRange, &low), *cmp.Or(c.ClipRangeHigh, c.ClipRange, &high)
}

// check refuses negative distances, and a clip_range that has no effect. usual is the loss's own
// default of clip_range, 0 for none.
func (c *clip) check(usual float64) error {
	if c.ClipRangeLow != nil && c.ClipRangeHigh != nil && c.ClipRange != nil && *c.ClipRange != usual {
		return errors.New("clip_range has no effect, because clip_range_low and clip_range_high are both set (by the config or " +
			"by the algorithm type): change those instead")
	}
	return nil
}
