package report

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/rundir"
)

// finalOf returns the final value of a metric; see [Compared].
func finalOf(metric string, points []point) float64 {
	n := 1
	if !strings.HasPrefix(metric, evalPrefix) && !strings.HasPrefix(metric, "bench/") {
		n = min(10, max(1, len(points)/10))
	}
	var tail []float64
	for _, p := range points[len(points)-n:] {
		tail = append(tail, p.y)
	}
	return mean(tail)
}

// Final returns the final value of a metric of a run up to a step, in the last stage that has it. It
// is NaN if the run diverged, and false without a value.
func Final(dir, metric string, step int64) (float64, bool, error) {
	r, err := read(dir, rundir.ReadTable, func(name string) bool { return name == metric })
	if err != nil {
		return 0, false, err
	}
	for _, s := range slices.Backward(r.stages) {
		s.until = step
		if s.diverged(metric) {
			return math.NaN(), true, nil
		}
		points := s.points(metric)
		if len(points) > 0 {
			return finalOf(metric, points), true, nil
		}
	}
	return 0, false, nil
}

// mainMetric returns the metric by which groups are judged: the first evaluation, or else the reward, or else the
// loss, of the last stage that has one; "" if none has.
func mainMetric(groups []*group) string {
	for _, stage := range slices.Backward(stageNames(groups)) {
		evaluations, others := metricsOf(stage, groups)
		slices.SortStableFunc(evaluations, ByWeight)
		if names := slices.Concat(evaluations, others); len(names) > 0 {
			return names[0]
		}
	}
	return ""
}

// ByWeight orders evaluations: first accuracies, then rewards, then parts of a reward such as the turns of a game, which
// say less of a run.
func ByWeight(a, b string) int {
	weight := func(name string) int {
		switch {
		case strings.Contains(name, "/accuracy/"):
			return 0
		case strings.Contains(name, "/reward/"):
			return 1
		}
		return 2
	}
	return cmp.Or(cmp.Compare(weight(a), weight(b)), strings.Compare(a, b))
}

// MainMetric returns the metric by which the run in dir is judged: its first evaluation, or else its
// reward, or else its loss; of several stages, that of the last one.
func MainMetric(dir string) (string, error) {
	r, err := read(dir, rundir.ReadTable, isShown)
	if err != nil {
		return "", err
	}
	if metric := mainMetric([]*group{{Runs: []*run{r}}}); metric != "" {
		return metric, nil
	}
	return "", fmt.Errorf("%s has no evaluation, no reward and no loss: name a metric of its metrics.jsonl", dir)
}

// Better reports whether a value of a metric is better than another one: [config.LessIsBetter] says which
// fall, all else rises. NaN is the worst.
func Better(metric string, a, b float64) bool {
	if math.IsNaN(a) || math.IsNaN(b) {
		return !math.IsNaN(a)
	}
	if config.LessIsBetter(metric) {
		return a < b
	}
	return a > b
}

// ErrNoMetric is the error for a metric that no run has.
var ErrNoMetric = errors.New("no run has the metric")

// rank sorts groups by the final value of a metric in the last stage that has it, or by its best one.
func rank(groups []*group, metric string, atBest bool) error {
	stages := stageNames(groups)
	final, steps := map[*group]float64{}, map[*group]int64{}
	for _, stage := range slices.Backward(stages) {
		for _, g := range groups {
			ends := g.ends(stage, metric)
			if len(ends.final) > 0 {
				final[g] = mean(sorted(ends.final))
			}
			if atBest && len(ends.best) > 0 {
				final[g] = mean(sorted(ends.best))
				continue // a run that stopped early may have been the best
			}
			for _, s := range g.stages(stage) {
				steps[g] = max(steps[g], s.steps())
			}
		}
		if len(final) > 0 {
			break
		}
		clear(steps)
	}
	if len(final) == 0 {
		return fmt.Errorf("%w %q: the names are those of metrics.jsonl, such as rollout/reward/mean", ErrNoMetric, metric)
	}
	slices.SortStableFunc(groups, func(a, b *group) int {
		va, hasA := final[a]
		vb, hasB := final[b]
		switch {
		case !hasA || !hasB:
			return btoi(hasB) - btoi(hasA)
		case steps[a] != steps[b]:
			return cmp.Compare(steps[b], steps[a])
		case Better(metric, va, vb):
			return -1
		case Better(metric, vb, va):
			return 1
		}
		return 0
	})
	return nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// stage returns the stage of a name; nil if the run has none.
func (r *run) stage(name string) *stage {
	if i := slices.IndexFunc(r.stages, func(s stage) bool { return s.name == name }); i >= 0 {
		return &r.stages[i]
	}
	return nil
}

// steps returns the number of steps that a stage has made: of the trainer, if it has one.
func (s *stage) steps() (n int64) {
	trains := false
	for i := range s.files {
		f := &s.files[i]
		for record, step := range f.Steps {
			if is := f.Role(record) == trinity.RoleTrainer; step > s.until || !is && trains {
				continue
			} else if is && !trains {
				trains, n = true, 0
			}
			n = max(n, step)
		}
	}
	return n
}

// total returns the number of steps that the settings of a stage ask for, 0 if they do not.
func (s *stage) total() int64 {
	for _, key := range []string{"trainer.total_steps", "buffer.total_steps"} {
		if n, err := strconv.ParseInt(fmt.Sprint(s.settings[key]), 10, 64); err == nil {
			return n
		}
	}
	return 0
}

// stageNames returns the names of all stages, in the order of the first run that has each.
func stageNames(groups []*group) (names []string) {
	for _, g := range groups {
		for _, r := range g.Runs {
			for _, s := range r.stages {
				if !slices.Contains(names, s.name) {
					names = append(names, s.name)
				}
			}
		}
	}
	return names
}

// metricsOf returns the names of the metrics of a stage that people look at: the evaluations of some
// run, and the others.
func metricsOf(stage string, groups []*group) (evaluations, others []string) {
	for _, g := range groups {
		for _, s := range g.stages(stage) {
			for _, name := range s.evaluations() {
				if !slices.Contains(evaluations, name) {
					evaluations = append(evaluations, name)
				}
			}
		}
	}
	for _, m := range metrics {
		for _, name := range m.names {
			if slices.ContainsFunc(groups, func(g *group) bool { return g.has(stage, name) }) {
				others = append(others, name)
			}
		}
	}
	return evaluations, others
}

func (g *group) has(name, metric string) bool {
	return slices.ContainsFunc(g.stages(name), func(s *stage) bool { return len(s.points(metric)) > 0 })
}
