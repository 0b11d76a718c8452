package rundir

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity/internal/durable"
)

// maxBest is the size of the largest file of evaluations that is read, half a million of them.
const maxBest = 32 << 20

// EvalVersion is the metric with the version of the weights that an evaluation measured.
const EvalVersion = "eval/model_version"

// Evaluations are what a run knows of its versions by the metric of trainer.keep_best. They lie beside the
// checkpoints, because they outlive each of them.
type Evaluations struct {
	Metric string       `json:"metric"`
	Lower  bool         `json:"lower_is_better"`
	All    []Evaluation `json:"evaluations"` // by version
}

// Evaluation is the value of the metric under one version of the weights.
type Evaluation struct {
	Version int64  `json:"version"` // the train step that made it; 0 is the model that the run began with
	Value   Number `json:"value"`
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
		e.All[i].Value = Number(value)
	} else {
		e.All = slices.Insert(e.All, i, Evaluation{version, Number(value)})
	}
}

// better reports whether a is better than b. Means of the same numbers may differ by how they were added, so a
// billionth is no difference. NaN is better than nothing.
func (e *Evaluations) better(a, b Number) bool {
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
	best := Number(math.NaN())
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
	best, ok := e.BestOf(func(int64) bool { return true })
	return ok && best.Version == version
}

// BestOf returns the best evaluation of the versions that are there, except for version 0.
func (e *Evaluations) BestOf(isThere func(version int64) bool) (best Evaluation, ok bool) {
	for _, one := range e.All {
		if one.Version > 0 && isThere(one.Version) && !math.IsNaN(float64(one.Value)) && (!ok || e.better(one.Value, best.Value)) {
			best, ok = one, true
		}
	}
	return best, ok
}

// ReadEvaluations reads what the run in a stage's directory knows of its versions; without a file it knows nothing.
func ReadEvaluations(dir string) (e Evaluations, err error) {
	data, err := durable.ReadWithin(dir, BestFile, maxBest)
	if errors.Is(err, fs.ErrNotExist) {
		return e, nil
	}
	if err == nil && json.Unmarshal(data, &e) != nil {
		err = fmt.Errorf("%s is damaged: remove it to forget which checkpoint is the best", filepath.Join(dir, BestFile))
	}
	slices.SortFunc(e.All, func(a, b Evaluation) int { return cmp.Compare(a.Version, b.Version) })
	return e, err
}

// ReadBest returns the best checkpoint of the stage in a directory that is whole; nil if the stage keeps none.
func ReadBest(dir string) (*Best, error) {
	e, err := ReadEvaluations(dir)
	if err != nil {
		return nil, err
	}
	best, ok := e.BestOf(func(v int64) bool { return durable.Missing(Checkpoint(dir, v)) == "" })
	if !ok {
		return nil, nil
	}
	b := &Best{Metric: e.Metric, Value: float64(best.Value), Step: best.Version, Checkpoint: Checkpoint(dir, best.Version)}
	if e.All[0].Version == 0 && e.better(e.All[0].Value, best.Value) {
		start := float64(e.All[0].Value)
		b.Start = &start
	}
	return b, nil
}

// Checkpoint is the directory of a step's checkpoint in that of a stage.
func Checkpoint(dir string, step int64) string {
	return filepath.Join(dir, StepPrefix+strconv.FormatInt(step, 10))
}

// Newest returns the newest version that was evaluated; -1 if none was.
func (e *Evaluations) Newest() int64 {
	if len(e.All) == 0 {
		return -1
	}
	return e.All[len(e.All)-1].Version
}

// Checkpoints lists the steps of the checkpoints in a stage's directory. It also lists those without some of their
// files: no kill leaves one, but a user may have copied or removed it in part.
func Checkpoints(dir string) ([]int64, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var steps []int64
	for _, e := range entries {
		n, err := strconv.ParseInt(strings.TrimPrefix(e.Name(), StepPrefix), 10, 64)
		if err == nil && e.IsDir() && strings.HasPrefix(e.Name(), StepPrefix) {
			steps = append(steps, n)
		}
	}
	slices.Sort(steps)
	return steps, nil
}
