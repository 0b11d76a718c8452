package studio

import (
	"path/filepath"
	"time"

	"github.com/trinity-go/trinity/internal/report"
	"github.com/trinity-go/trinity/internal/rundir"
)

// Evaluation is what the evaluations of a run say: its first metric, as [report.MainMetric] has it, at the
// first, the best and the last step that have it.
type Evaluation struct {
	Name  string `json:"name"`
	First Number `json:"first"`
	Best  Number `json:"best"` // of a trained version, if one was evaluated
	Step  int64  `json:"step"` // of the best value
	// Version is that of the weights with the best value: the train step that made them.
	Version int64  `json:"version"`
	Last    Number `json:"last"`
	Falls   bool   `json:"falls"` // less is better
}

// evaluated is the evaluation of a metrics.jsonl, until that changes.
type evaluated struct {
	modified time.Time // of the file when it was read
	by       *Evaluation
}

// evaluation returns the evaluation by which the run with these monitor directories is judged; nil without one. It reads
// what came since the last time.
func (f *runFiles) evaluation(monitors []string) (best *Evaluation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, dir := range monitors {
		at := modified(filepath.Join(dir, rundir.MetricsFile))
		known, ok := f.evals[dir]
		if !ok || !known.modified.Equal(at) {
			t, _, _, _ := f.files.update(dir, isEvaluated, rundir.Mark{}) // the summary tells an error
			f.files.trim()
			known = evaluated{at, evaluationIn(&t)}
			f.evals[dir] = known
		}
		if e := known.by; e != nil && (best == nil || report.ByWeight(e.Name, best.Name) < 0 ||
			e.Name == best.Name && report.Better(e.Name, float64(e.Best), float64(best.Best))) {
			best = e
		}
	}
	return best
}

// isEvaluated reports whether a metric is read to judge a run.
func isEvaluated(name string) bool { return report.IsEvaluation(name) || name == rundir.EvalVersion }

// evaluationIn returns the first metric that is an evaluation; nil without one.
func evaluationIn(t *rundir.Table) (e *Evaluation) {
	for _, name := range t.Names {
		if report.IsEvaluation(name) && len(t.Column(name).Records) > 0 && (e == nil || report.ByWeight(name, e.Name) < 0) {
			e = &Evaluation{Name: name, Falls: report.Better(name, 0, 1)}
		}
	}
	if e == nil {
		return nil
	}
	versions := map[uint32]int64{} // by record
	for i, of := 0, t.Column(rundir.EvalVersion); i < len(of.Records); i++ {
		versions[of.Records[i]] = int64(of.Values[i])
	}
	column := t.Column(e.Name)
	for i, record := range column.Records {
		step := t.Steps[record]
		version, ok := versions[record]
		if !ok {
			version = step
		}
		v := column.Values[i]
		if i == 0 {
			e.First, e.Best, e.Step, e.Version = Number(v), Number(v), step, version
		}
		if e.Version == 0 && version > 0 || (e.Version == 0) == (version == 0) && report.Better(e.Name, v, float64(e.Best)) {
			e.Best, e.Step, e.Version = Number(v), step, version
		}
		e.Last = Number(v)
	}
	return e
}
