package studio

import (
	"path/filepath"
	"time"

	"github.com/trinity-go/trinity/internal/report"
	"github.com/trinity-go/trinity/internal/rundir"
)

// Evaluation is what the evaluations of a run say of the metric by which it is judged.
type Evaluation = report.Evaluation

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
			known = evaluated{at, report.EvaluationIn(&t, "")}
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
