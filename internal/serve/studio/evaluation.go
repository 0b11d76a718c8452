package studio

import (
	"bytes"
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

// evaluated has the evaluations of a metrics.jsonl, up to a mark.
type evaluated struct {
	rundir.Position
	by       map[string]*Evaluation // by metric; nil for a metric that is none
	modified time.Time              // of the file when it was read
}

// evaluation returns the evaluation by which the run is judged; nil without one. It reads what came since
// the last time.
func (f *runFiles) evaluation() (best *Evaluation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, dir := range rundir.Monitors(f.dir) {
		if f.evals[dir] == nil {
			f.evals[dir] = &evaluated{}
		}
		if e := f.evals[dir].read(dir); e != nil && (best == nil || report.ByWeight(e.Name, best.Name) < 0 ||
			e.Name == best.Name && report.Better(e.Name, float64(e.Best), float64(best.Best))) {
			best = e
		}
	}
	return best
}

// read reads on in a monitor directory, and returns the first metric that is an evaluation.
func (s *evaluated) read(dir string) (first *Evaluation) {
	if !s.modified.Equal(modified(filepath.Join(dir, rundir.MetricsFile))) {
		s.update(dir)
	}
	for name, e := range s.by {
		if e != nil && (first == nil || report.ByWeight(name, first.Name) < 0) {
			first = e
		}
	}
	if first == nil {
		return nil
	}
	now := *first
	return &now
}

// update reads what came since the last time.
func (s *evaluated) update(dir string) {
	f, info, isSame, err := s.Open(dir)
	if err != nil {
		return
	}
	defer f.Close()
	s.modified = info.ModTime()
	if !isSame {
		s.by, s.At.Offset = map[string]*Evaluation{}, 0
	}
	var pairs []rundir.Pair
	_ = rundir.EachLine(f, s.At.Offset, info.Size(), func(line []byte, end int64) { // the summary tells an error
		s.At.Offset = end
		if !bytes.Contains(line, []byte(`"eval/`)) && !bytes.Contains(line, []byte(`"bench/`)) {
			return
		}
		h, found, err := rundir.Scan(line, pairs)
		if pairs = found; err != nil {
			return
		}
		version := h.Step
		for _, p := range pairs {
			if v, ok := rundir.ValueOf(p.Value); ok && string(p.Name) == rundir.EvalVersion {
				version = int64(v)
			}
		}
		for _, p := range pairs {
			if v, ok := rundir.ValueOf(p.Value); ok && string(p.Name) != rundir.EvalVersion {
				s.add(string(p.Name), h.Step, version, v)
			}
		}
	})
	s.At = rundir.MarkAt(f, s.At.Offset)
}

func (s *evaluated) add(name string, step, version int64, v float64) {
	e, known := s.by[name]
	if !known && report.IsEvaluation(name) {
		e = &Evaluation{Name: name, First: Number(v), Best: Number(v), Step: step, Version: version, Falls: report.Better(name, 0, 1)}
	}
	s.by[name] = e
	if e == nil {
		return
	}
	if e.Version == 0 && version > 0 || (e.Version == 0) == (version == 0) && report.Better(name, v, float64(e.Best)) {
		e.Best, e.Step, e.Version = Number(v), step, version
	}
	e.Last = Number(v)
}
