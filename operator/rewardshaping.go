package operator

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"reflect"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("reward_shaping_mapper",
		"Changes rewards by numbers that a workflow or an earlier operator left in an experience's info: "+
			"reward op weight·info[stats_key], for one configuration after the other. A reward stays as it is if "+
			"the key is absent or the divisor is 0. An experience without a valid reward gets none. Metrics: "+
			"reward_diff/{mean,max,min}, shaping_missing_count (scored experiences times absent keys).",
		func() trinity.Operator { return &rewardShaping{} })
}

// rewardShaping does arithmetic on rewards.
//
// Unlike Trinity-RFT: an experience without a valid reward is not in reward_diff, because nothing
// changed there; a value that is no number is an error; and an infinite reward becomes invalid.
type rewardShaping struct {
	Configs []shaping `yaml:"reward_shaping_configs" required:"list {stats_key, op_type}" doc:"op_type is ADD, SUB, MUL or DIV; weight 1"`
}

// shaping is one change of the reward.
type shaping struct {
	StatsKey string   `yaml:"stats_key" required:"name a key of info"`
	OpType   string   `yaml:"op_type" enum:"|ADD|SUB|MUL|DIV"` // "" is ADD
	Weight   *float64 `yaml:"weight"`                          // nil is 1
}

func (c *shaping) op() string { return cmp.Or(c.OpType, "ADD") }

var shapings = map[string]func(reward, x float64) float64{
	"ADD": func(reward, x float64) float64 { return reward + x },
	"SUB": func(reward, x float64) float64 { return reward - x },
	"MUL": func(reward, x float64) float64 { return reward * x },
	"DIV": func(reward, x float64) float64 {
		if x == 0 {
			return reward
		}
		return reward / x
	},
}

// Process implements trinity.Operator. A reward that becomes infinite or NaN becomes invalid.
func (s *rewardShaping) Process(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	var diffs []float64
	missing := 0
	for _, g := range groups {
		for _, e := range g {
			if !scored(e) {
				continue
			}
			before := e.Reward.Value
			absent, err := s.shape(e)
			if err != nil {
				return nil, nil, err
			}
			missing += absent
			if e.Reward.Valid {
				diffs = append(diffs, e.Reward.Value-before)
			}
		}
	}
	metrics := trinity.Metrics{"shaping_missing_count": float64(missing)}
	summarize(metrics, "reward_diff", diffs)
	return groups, metrics, nil
}

// shape changes the reward of one experience and counts the keys that its info lacks.
func (s *rewardShaping) shape(e *trinity.Experience) (absent int, err error) {
	for _, c := range s.Configs {
		v, ok := e.Info[c.StatsKey]
		if !ok || v == nil {
			absent++
			continue
		}
		x, ok := number(v)
		if !ok {
			return 0, fmt.Errorf("experience %s: info %q is %v (%T), want a number", e.ID, c.StatsKey, v, v)
		}
		if c.Weight != nil {
			x *= *c.Weight
		}
		shaped := shapings[c.op()](e.Reward.Value, x)
		if math.IsNaN(shaped) || math.IsInf(shaped, 0) {
			e.Reward = trinity.InvalidReward(fmt.Sprintf("the reward is no finite number after %s of info %q = %v", c.op(), c.StatsKey, v))
			return absent, nil
		}
		e.Reward.Value = shaped
	}
	return absent, nil
}

// number converts a value of info, which Go code or a JSON decoder has written.
func number(v any) (float64, bool) {
	r := reflect.ValueOf(v)
	switch {
	case r.CanFloat():
		return r.Float(), true
	case r.CanInt():
		return float64(r.Int()), true
	case r.CanUint():
		return float64(r.Uint()), true
	case r.Kind() == reflect.Bool:
		if r.Bool() {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}
