package trinity

import (
	"context"
	"time"
)

// Metrics are named numbers of one step. Names are Trinity-RFT's, e.g. rollout/reward/mean.
type Metrics map[string]float64

// Add adds the values of other, for metrics that sum over micro-batches.
func (m Metrics) Add(other Metrics) {
	for k, v := range other {
		m[k] += v
	}
}

// Merge sets the values of other, with a prefix before their names.
func (m Metrics) Merge(prefix string, other Metrics) {
	for k, v := range other {
		m[prefix+k] = v
	}
}

// Record holds the metrics of one role and step.
type Record struct {
	Step    int64
	Role    string // "explorer", "trainer"
	Time    time.Time
	Metrics Metrics
	Samples []Sample // of an explorer's step: an answer with the lowest reward, and one with the highest
}

// Sample is a scored answer for people to read.
type Sample struct {
	Prompt   string  `json:"prompt"`
	Response string  `json:"response"`
	Reward   float64 `json:"reward"`
}

// Monitor receives records. A run may use several.
type Monitor interface {
	Log(ctx context.Context, r Record) error
	Close() error
}
