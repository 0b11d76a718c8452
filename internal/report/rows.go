package report

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

// Rows returns the answers of the evaluation at a step that the stage in a directory keeps; none if it keeps none.
type Rows func(dir string, step int64) ([]*trace.Held, error)

// readRows reads the answers that a trace keeps.
func readRows(dir string, step int64) ([]*trace.Held, error) {
	all, err := trace.Evaluations(filepath.Join(dir, rundir.Traces))
	for _, f := range all {
		if f.Who == trace.OfRun && f.Step == step {
			rows, err := trace.ReadEvaluated(f.Path)
			return trace.HeldOf(rows), err
		}
	}
	return nil, err
}

// question is a held-out row, with what it asks.
type question struct {
	taskset string
	row     int64
	asks    [sha256.Size]byte
}

// scores are the rewards and the parts of rewards of an evaluation's answers, by row and name.
type scores map[question]map[string][]float64

func scoresOf(answers []*trace.Held) scores {
	all := scores{}
	for _, h := range answers {
		q := question{h.Taskset, h.Row, sha256.Sum256([]byte(h.Prompt + "\x00" + h.Truth))}
		if all[q] == nil {
			all[q] = map[string][]float64{}
		}
		named := map[string]float64{}
		_ = json.Unmarshal([]byte(h.Parts), &named) // it may be empty
		if h.Reward != nil {
			named["reward"] = *h.Reward
		}
		for name, v := range named {
			all[q][name] = append(all[q][name], v)
		}
	}
	return all
}

// in returns the value of each row in a metric, of repeats their mean; none if the mean of the rows is not the value that
// the metric has, which then measures something else.
func (s scores) in(metric string, value float64) map[question]float64 {
	if !strings.HasPrefix(path.Base(metric), "mean@") {
		return nil
	}
	out, all := map[question]float64{}, []float64(nil)
	for q, named := range s {
		part, ok := strings.CutPrefix(strings.TrimPrefix(path.Dir(metric), evalPrefix), q.taskset+"/")
		if v := named[part]; ok && len(v) > 0 {
			out[q] = mean(v)
			all = append(all, out[q])
		}
	}
	slices.Sort(all) // so that the sum has the same bits
	if math.Abs(mean(all)-value) > 1e-4*max(1, math.Abs(value)) {
		return nil
	}
	return out
}

// evaluations reads the answers of evaluations, each once.
type evaluations struct {
	read   Rows
	known  map[string]scores
	failed []string
}

func newEvaluations(read Rows) *evaluations {
	return &evaluations{read: read, known: map[string]scores{}}
}

// placed is an evaluation of a stage, with the value of its metric.
type placed struct {
	stage *stage
	step  int64
	value float64
}

func (all *evaluations) scores(dir string, step int64) scores {
	key := fmt.Sprint(dir, "@", step)
	known, ok := all.known[key]
	if !ok && all.read != nil {
		answers, err := all.read(dir, step)
		if err != nil {
			all.failed = append(all.failed, fmt.Sprintf("step %d of %s: %v", step, dir, err))
		}
		known = scoresOf(answers)
		all.known[key] = known
	}
	return known
}

// pair is two evaluations.
type pair struct{ of, than placed }

// more returns by how much the first evaluations of pairs are more than the others in a metric, on average over the rows that
// all answered; nil without two such rows.
func (all *evaluations) more(metric string, pairs ...pair) *Interval {
	sums, seen := map[question]float64{}, map[question]int{}
	low, high := math.Inf(1), math.Inf(-1)
	for _, p := range pairs {
		a := all.scores(p.of.stage.dir, p.of.step).in(metric, p.of.value)
		if len(a) == 0 {
			return nil
		}
		b := all.scores(p.than.stage.dir, p.than.step).in(metric, p.than.value)
		for q, v := range a {
			if other, ok := b[q]; ok {
				sums[q] += v - other
				seen[q]++
				low, high = min(low, v, other), max(high, v, other)
			}
		}
	}
	var apart []float64
	for q, sum := range sums {
		if seen[q] == len(pairs) {
			apart = append(apart, sum/float64(len(pairs)))
		}
	}
	if len(apart) < 2 {
		return nil
	}
	slices.Sort(apart)
	over := overRows(apart, high-low)
	return &over
}
