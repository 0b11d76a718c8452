package checkpoint

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
)

// maxBest is the size of the largest file of evaluations that is read, half a million of them.
const maxBest = 32 << 20

// Evaluations are what a run knows of its versions by the metric of trainer.keep_best. They lie beside the
// checkpoints, because they outlive each of them.
type Evaluations struct {
	Metric string       `json:"metric"`
	Lower  bool         `json:"lower_is_better"`
	All    []Evaluation `json:"evaluations"` // by version
}

// Evaluation is the value of the metric under one version of the weights.
type Evaluation struct {
	Version int64         `json:"version"` // the train step that made it; 0 is the model that the run began with
	Value   rundir.Number `json:"value"`
}

// Best is the best checkpoint of a run.
type Best struct {
	Metric     string  `json:"metric"`
	Value      float64 `json:"value"`
	Step       int64   `json:"step"`
	Checkpoint string  `json:"checkpoint"` // directory
	// Start is the value before the first step, if it was better; else nil.
	Start *float64 `json:"start,omitempty"`
}

// Add notes the value of a version, in place of an earlier one of a killed process.
func (e *Evaluations) Add(version int64, value float64) {
	i, found := slices.BinarySearchFunc(e.All, version, func(a Evaluation, v int64) int { return cmp.Compare(a.Version, v) })
	if found {
		e.All[i].Value = rundir.Number(value)
	} else {
		e.All = slices.Insert(e.All, i, Evaluation{version, rundir.Number(value)})
	}
}

// better reports whether a is better than b. Means of the same numbers may differ by how they were added, so a
// billionth is no difference. NaN is better than nothing.
func (e *Evaluations) better(a, b rundir.Number) bool {
	x, y := float64(a), float64(b)
	if e.Lower {
		x, y = -x, -y
	}
	if math.IsNaN(y) || math.IsInf(x-y, 0) {
		return !math.IsNaN(x) && x > math.Inf(-1) && (math.IsNaN(y) || x > y)
	}
	return x-y > 1e-9*max(math.Abs(x), math.Abs(y))
}

// Since returns how many evaluations of versions before one have followed the best of these.
func (e *Evaluations) Since(before int64) (n int) {
	best := rundir.Number(math.NaN())
	for i, one := range e.All {
		switch {
		case one.Version >= before:
			return n
		case i == 0 || e.better(one.Value, best):
			best, n = one.Value, 0
		default:
			n++
		}
	}
	return n
}

// IsBest reports whether no evaluation of a trained version is better than this one's, or as good and earlier.
func (e *Evaluations) IsBest(version int64) bool {
	best, ok := e.best(func(int64) bool { return true })
	return ok && best.Version == version
}

// best returns the best evaluation of the versions that are there, except for version 0.
func (e *Evaluations) best(isThere func(version int64) bool) (best Evaluation, ok bool) {
	for _, one := range e.All {
		if one.Version > 0 && isThere(one.Version) && !math.IsNaN(float64(one.Value)) && (!ok || e.better(one.Value, best.Value)) {
			best, ok = one, true
		}
	}
	return best, ok
}

// Evaluations reads what the run knows of its versions; without a file it knows nothing.
func (d *Dir) Evaluations() (e Evaluations, err error) {
	path := filepath.Join(d.Path, rundir.BestFile)
	data, err := durable.ReadRegular(path, maxBest)
	if errors.Is(err, fs.ErrNotExist) {
		return e, nil
	}
	if err == nil {
		if err = json.Unmarshal(data, &e); err != nil {
			err = fmt.Errorf("%s is damaged: remove it to forget which checkpoint is the best", path)
		}
	}
	slices.SortFunc(e.All, func(a, b Evaluation) int { return cmp.Compare(a.Version, b.Version) })
	return e, err
}

// KeepEvaluations writes what the run knows of its versions.
func (d *Dir) KeepEvaluations(e Evaluations) error {
	data, err := json.MarshalIndent(e, "", "  ")
	if err == nil {
		err = durable.WriteFile(filepath.Join(d.Path, rundir.BestFile), append(data, '\n'))
	}
	return err
}

// Best returns the best checkpoint that is whole; nil if the run keeps none.
func (d *Dir) Best() (*Best, error) {
	e, err := d.Evaluations()
	if err != nil {
		return nil, err
	}
	best, ok := e.best(func(v int64) bool { return durable.Missing(d.Of(v)) == "" })
	if !ok {
		return nil, nil
	}
	b := &Best{Metric: e.Metric, Value: float64(best.Value), Step: best.Version, Checkpoint: d.Of(best.Version)}
	if e.All[0].Version == 0 && e.better(e.All[0].Value, best.Value) {
		start := float64(e.All[0].Value)
		b.Start = &start
	}
	return b, nil
}

// preferred returns the step of the checkpoint that stands for the run: the best one, else the newest that is
// whole, else the last of all.
func (d *Dir) preferred(all []int64) int64 {
	if best, err := d.Best(); err == nil && best != nil {
		return best.Step
	}
	for _, step := range slices.Backward(all) {
		if durable.Missing(d.Of(step)) == "" {
			return step
		}
	}
	return all[len(all)-1]
}

// prune removes all but the newest checkpoints. It keeps the best one, and those that an evaluation asked
// for until it has ended. Afterwards these go, unless they are the best or the newest.
func (d *Dir) prune() error {
	steps, err := d.Steps()
	if err != nil || len(steps) == 0 {
		return err
	}
	e, err := d.Evaluations()
	if err != nil {
		return err
	}
	keep := map[int64]bool{steps[len(steps)-1]: true}
	if best, ok := e.best(func(v int64) bool { return slices.Contains(steps, v) }); ok {
		keep[best.Version] = true
	}
	left := d.Keep
	for _, step := range slices.Backward(steps) {
		asked := false // only by an evaluation
		if e.Metric != "" {
			state, err := readState(d.Of(step))
			asked = err == nil && state.ForEvaluation
		}
		if asked && step > e.newest() {
			keep[step] = true
		}
		if !asked {
			if left--; d.Keep <= 0 || left >= 0 {
				keep[step] = true
			}
		}
	}
	for _, step := range steps {
		if !keep[step] {
			if err := durable.RemoveDir(d.Of(step)); err != nil {
				return err
			}
		}
	}
	return nil
}

// newest returns the newest version that was evaluated; -1 if none was.
func (e *Evaluations) newest() int64 {
	if len(e.All) == 0 {
		return -1
	}
	return e.All[len(e.All)-1].Version
}
