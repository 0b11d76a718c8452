package loss

import (
	"cmp"
	"errors"
)

// Clip are the arguments of losses that cut the gradient of a ratio which has moved too far from 1.
type Clip struct {
	ClipRange     *float64 `yaml:"clip_range" doc:"how far the ratio may move from 1 before its gradient is cut; stands for clip_range_low and clip_range_high where they are not set"`
	ClipRangeLow  *float64 `yaml:"clip_range_low" doc:"distance below 1; null means clip_range"`
	ClipRangeHigh *float64 `yaml:"clip_range_high" doc:"distance above 1; null means clip_range"`
}

// distances are those below and above 1: low and high where nothing is set.
func (c *Clip) distances(low, high float64) (float64, float64) {
	return *cmp.Or(c.ClipRangeLow, c.ClipRange, &low), *cmp.Or(c.ClipRangeHigh, c.ClipRange, &high)
}

// check refuses distances that are negative, and a clip_range that nothing would read; usual is the one that the loss has by itself, 0 for none.
func (c *Clip) check(usual float64) error {
	low, high := c.distances(0, 0)
	switch {
	case !(low >= 0 && high >= 0):
		return errors.New("clip_range, clip_range_low and clip_range_high must not be negative")
	case c.ClipRangeLow != nil && c.ClipRangeHigh != nil && c.ClipRange != nil && *c.ClipRange != usual:
		return errors.New("clip_range has no effect, because clip_range_low and clip_range_high are both set (by the config or by the algorithm type): set those instead")
	}
	return nil
}
