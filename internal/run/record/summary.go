package record

import (
	"math"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/monitor"
)

// StageSummary says what a stage did. The closing table shows it.
type StageSummary struct {
	Name       string    `json:"name"`
	Mode       string    `json:"mode"`
	Algorithm  string    `json:"algorithm"`
	Steps      int64     `json:"steps"`   // train steps; without a trainer, explore steps
	Rewards    []float64 `json:"rewards"` // mean reward of each explored step
	Losses     []float64 `json:"losses"`  // of each train step
	Sampled    float64   `json:"rollout_tokens_per_second"`
	Trained    float64   `json:"train_tokens_per_second"`
	Evals      []Eval    `json:"evaluations"`
	Checkpoint string    `json:"checkpoint"` // directory of the newest one
	Model      string    `json:"model"`      // directory that `trinity chat` opens; "" if the stage wrote none
	Skipped    bool      `json:"skipped"`    // it was already complete

	Made checkpoint.Provenance `json:"-"` // with what a run has made it

	rollout, train rate
	records        int // added
}

// Eval is one evaluation of one taskset metric.
type Eval struct {
	Step  int64   `json:"step"`
	Name  string  `json:"name"` // of monitor.Evaluations, e.g. eval/held_out/accuracy/mean@1
	Value float64 `json:"value"`
}

// rate counts tokens and the seconds that they took.
type rate struct{ tokens, seconds float64 }

func (r rate) perSecond() float64 {
	if r.seconds == 0 {
		return 0
	}
	return r.tokens / r.seconds
}

// The metrics that a summary reads.
const (
	meanReward  = "rollout/reward/mean"
	finalLoss   = "actor/final_loss"
	exploreTime = "time/explore_step"
	sampleRate  = "rollout/tokens_per_second"
	trainTime   = "time/train_step"
	trainRate   = "perf/throughput"
)

// add counts a record.
func (s *StageSummary) add(r trinity.Record) {
	m := r.Metrics
	s.records++
	if v, ok := m[meanReward]; ok {
		s.Rewards = append(s.Rewards, v)
	}
	if v, ok := m[finalLoss]; ok {
		s.Losses = append(s.Losses, v)
	}
	if t, ok := m[exploreTime]; ok {
		s.rollout.tokens += m[sampleRate] * t
		s.rollout.seconds += t
	}
	if t, ok := m[trainTime]; ok {
		s.train.tokens += m[trainRate] * t
		s.train.seconds += t
	}
	for _, name := range monitor.Evaluations(m) {
		s.Evals = append(s.Evals, Eval{Step: r.Step, Name: name, Value: m[name]})
	}
	s.Steps = max(s.Steps, r.Step)
	s.Sampled, s.Trained = s.rollout.perSecond(), s.train.perSecond()
}

// isSummed reports whether add reads a metric, beside evaluations.
func isSummed(name string) bool {
	return slices.Contains([]string{meanReward, finalLoss, exploreTime, sampleRate, trainTime, trainRate}, name) ||
		len(monitor.Evaluations(trinity.Metrics{name: 0})) > 0
}

// Recall replaces what the records of this process tell by what those of the whole run tell, so that the
// table of a resumed run begins where the run began. Of a long run it reads nothing else.
func (s *StageSummary) Recall(dir string) error {
	t, err := rundir.ReadTable(dir, isSummed)
	if len(t.Steps) == 0 {
		return err
	}
	steps := s.Steps // of the trainer, which an explorer's records may pass
	s.Rewards, s.Losses, s.Evals, s.rollout, s.train = nil, nil, nil, rate{}, rate{}
	for r := range t.Records() {
		s.add(r)
	}
	if steps > 0 {
		s.Steps = steps
	}
	return err
}

// Ends returns the means of the first and the last tenth of the values. A tenth is at least one
// value and at most ten.
func Ends(v []float64) (head, tail float64) {
	if len(v) == 0 {
		return math.NaN(), math.NaN()
	}
	n := min(10, max(1, len(v)/10))
	for i := range n {
		head += v[i] / float64(n)
		tail += v[len(v)-1-i] / float64(n)
	}
	return head, tail
}
