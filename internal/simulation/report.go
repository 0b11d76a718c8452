package simulation

import (
	"maps"
	"slices"

	"github.com/trinity-go/trinity"
)

// Report is the result of a simulated run.
type Report struct {
	StepsPerHour    float64   `json:"train_steps_per_hour"`
	RolloutsPerHour float64   `json:"trained_rollouts_per_hour"`
	ExplorerIdle    float64   `json:"explorer_idle"` // share of the time until its last step
	TrainerIdle     float64   `json:"trainer_idle"`  // share of the time until its last step; publishing counts as work
	Staleness       Staleness `json:"staleness"`
	BufferMean      float64   `json:"buffer_rollouts_mean"` // over time
	BufferMax       int       `json:"buffer_rollouts_max"`
	Dropped         int       `json:"dropped_rollouts"` // the sample strategy found them too old

	Seconds        float64 `json:"seconds"`
	ExploreSeconds float64 `json:"explore_step_seconds"` // mean; longer than Rates.Explore if the trainer or other steps ran at the same time
	TrainSeconds   float64 `json:"train_step_seconds"`

	Versions []int64 `json:"-"` // with which each explore step began
	Batches  []Batch `json:"-"` // of each train step
}

// Staleness is the distribution of staleness over the trained rollouts: the number of train steps
// between the weights that sampled a rollout and the weights that resulted from it. 1 is on-policy.
type Staleness struct {
	Mean     float64       `json:"mean"`
	P50      int64         `json:"p50"`
	P95      int64         `json:"p95"`
	Max      int64         `json:"max"`
	Rollouts map[int64]int `json:"rollouts"` // by staleness
}

// Batch describes the batch of a train step.
type Batch struct {
	Rollouts                  int
	OldestVersion, NewVersion int64   // the oldest and the newest version that sampled its rollouts
	MeanVersion               float64 // 0 without rollouts
}

// record notes the batch of the current step.
func (t *training) record(batch []*trinity.Experience) {
	b := Batch{Rollouts: len(batch)}
	for i, e := range batch {
		v := e.Versions[0]
		t.stale[t.step-v]++
		b.MeanVersion += float64(v) / float64(len(batch))
		if i == 0 {
			b.OldestVersion, b.NewVersion = v, v
		}
		b.OldestVersion, b.NewVersion = min(b.OldestVersion, v), max(b.NewVersion, v)
	}
	t.report.Batches = append(t.report.Batches, b)
}

// finish completes the report.
func (s *simulated) finish() *Report {
	r := &s.report
	r.Seconds = s.seconds
	r.StepsPerHour = float64(s.trainer.step) / s.seconds * 3600
	r.ExplorerIdle = 1 - s.explorer.busy/s.explorer.ended
	r.TrainerIdle = 1 - (s.trainer.busy+s.trainer.syncing)/s.seconds
	r.ExploreSeconds = s.explorer.took / float64(s.explorer.delivered)
	r.TrainSeconds = s.trainer.busy / float64(s.trainer.step)
	r.BufferMean, r.BufferMax = s.depth/s.seconds, s.queue.most
	r.Staleness = distribution(s.stale)
	trained := 0
	for _, b := range r.Batches {
		trained += b.Rollouts
	}
	r.Dropped = s.queue.given - trained
	r.RolloutsPerHour = float64(trained) / s.seconds * 3600
	return r
}

// distribution summarizes a histogram.
func distribution(rollouts map[int64]int) Staleness {
	s := Staleness{Rollouts: rollouts}
	n, sum := 0, 0.0
	for v, count := range rollouts {
		n, sum = n+count, sum+float64(v)*float64(count)
	}
	if n == 0 {
		return s
	}
	s.Mean = sum / float64(n)
	upTo := 0
	for _, v := range slices.Sorted(maps.Keys(rollouts)) {
		if 2*upTo < n {
			s.P50 = v
		}
		if 20*upTo < 19*n {
			s.P95 = v
		}
		upTo, s.Max = upTo+rollouts[v], v
	}
	return s
}

// Alone returns the rates of explorer and trainer when each works alone, given the rates measured
// in a run of this setting. If both share cores, steps take longer while both are busy.
func Alone(s Setting, measured Rates) (Rates, error) {
	alone := measured
	for range 12 {
		r, err := Run(s, alone)
		if err != nil {
			return Rates{}, err
		}
		alone.Explore *= measured.Explore / r.ExploreSeconds
		alone.Train *= measured.Train / r.TrainSeconds
	}
	return alone, nil
}
