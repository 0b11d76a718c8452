package report

import (
	"math"

	"github.com/trinity-go/trinity/internal/rundir"
)

// Evaluation is what the evaluations of a run say in a metric: at the first, the best and the last step that have it.
type Evaluation struct {
	Name  string        `json:"name"`
	First rundir.Number `json:"first"`
	Best  rundir.Number `json:"best"` // of a trained version, if one was evaluated
	Step  int64         `json:"step"` // of the best value
	// Version is that of the weights with the best value: the train step that made them.
	Version int64         `json:"version"`
	Last    rundir.Number `json:"last"`
	Falls   bool          `json:"falls"` // less is better
	// IsStart says that the first value is that of the model with which the run began.
	IsStart bool `json:"is_start"`

	firstStep, lastStep int64
}

// EvaluationIn returns what a table says of the metric by which a run is judged, or of the one with this name; nil
// without a value.
func EvaluationIn(t *rundir.Table, name string) *Evaluation {
	if name == "" {
		for _, other := range t.Names {
			if IsEvaluation(other) && len(t.Column(other).Records) > 0 && (name == "" || ByWeight(other, name) < 0) {
				name = other
			}
		}
	}
	column := t.Column(name)
	if len(column.Records) == 0 {
		return nil
	}
	e := &Evaluation{Name: name, Falls: Better(name, 0, 1)}
	versions := map[uint32]int64{} // by record
	for i, of := 0, t.Column(rundir.EvalVersion); i < len(of.Records); i++ {
		versions[of.Records[i]] = int64(of.Values[i])
	}
	for i, record := range column.Records {
		step := t.Steps[record]
		version, ok := versions[record]
		if !ok {
			version = step
		}
		v := rundir.Number(column.Values[i])
		if i == 0 {
			e.First, e.Best, e.Step, e.Version = v, v, step, version
			e.IsStart, e.firstStep = version == 0, step
		}
		if e.Version == 0 && version > 0 || (e.Version == 0) == (version == 0) && Better(name, float64(v), float64(e.Best)) {
			e.Best, e.Step, e.Version = v, step, version
		}
		e.Last, e.lastStep = v, step
	}
	return e
}

// IsBetter reports whether a trained version is better than the model with which the run began, if that was evaluated.
func (e *Evaluation) IsBetter() bool {
	return e.Version > 0 && (!e.IsStart || Better(e.Name, float64(e.Best), float64(e.First)))
}

// evaluation returns what the evaluations of the stage say in a metric; nil without a finite value. Of several explorers it
// is that of the best.
func (s *stage) evaluation(metric string) (best *Evaluation) {
	for i := range s.files {
		e := EvaluationIn(&s.files[i], metric)
		if e == nil || math.IsNaN(float64(e.Best)) || math.IsInf(float64(e.Best), 0) {
			continue
		}
		if best == nil || Better(metric, float64(e.Best), float64(best.Best)) {
			best = e
		}
	}
	return best
}
