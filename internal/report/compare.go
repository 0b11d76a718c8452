package report

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/rundir"
)

// Comparison puts groups of runs beside one another: runs whose settings differ in their names and
// seeds alone are a group.
type Comparison struct {
	Groups      []ComparedGroup  `json:"groups"`
	Apart       []Apart          `json:"apart"` // the settings that name the groups
	Differences []difference     `json:"differences"`
	Metrics     []ComparedMetric `json:"metrics"` // evaluations first
	Best        []Standing       `json:"best"`    // the single runs at the best of their evaluations, best first
	Others      []Other          `json:"others"`  // evaluations by which another run is the best
	Notes       []string         `json:"notes"`   // what is not comparable

	asked    Asked
	answered *evaluations
	diverged []string // runs, each with the metric whose last value is not finite
}

// Asked says what a comparison is of.
type Asked struct {
	Metric string   // by which the groups are sorted, best first; "" leaves the order of the directories
	AtBest bool     // evaluations count at the best step of each run, not at the last one
	Alone  bool     // every run is a group
	Names  []string // of the runs, by directory; nil names them after their directories
	Tables Reader   // nil: rundir.ReadTable
	Rows   Rows     // nil: from the traces of the runs
}

// ComparedGroup names the runs of a group.
type ComparedGroup struct {
	Name string        `json:"name"`
	Runs []ComparedRun `json:"runs"`
}

// ComparedRun is a run, with the steps that its last stage has made.
type ComparedRun struct {
	Name  string `json:"name"`
	Dir   string `json:"dir"`
	Seed  string `json:"seed"` // "" if unknown
	Steps int64  `json:"steps"`
}

// ComparedMetric is a metric of a stage in each group; nil in a group that lacks it.
type ComparedMetric struct {
	Stage  string      `json:"stage,omitempty"`
	Name   string      `json:"name"`
	Values []*Compared `json:"values"`
}

// Compared is a metric in a group: its first value, its final value, and by how much that is more
// than in the first group. The final value of an evaluation is the last one, of another metric the
// mean of the last tenth of the steps, at least one and at most ten.
type Compared struct {
	First float64 `json:"first"`
	Interval
	Best *Interval   `json:"best,omitempty"` // of an evaluation: of the best step of each run
	More *Difference `json:"more,omitempty"` // over the seeds of both groups, or the rows of two runs; nil if there are none
}

// Compare reads runs and compares them. With a metric, the groups are sorted by its final value, best
// first; those that have made fewer steps come last. Without one, they are in the order of dirs.
func Compare(metric string, dirs ...string) (*Comparison, error) {
	return Asked{Metric: metric}.Compare(dirs...)
}

// Compare reads runs and compares them.
func (a Asked) Compare(dirs ...string) (*Comparison, error) {
	if a.Tables == nil {
		a.Tables = rundir.ReadTable
	}
	if a.Rows == nil {
		a.Rows = readRows
	}
	var runs []*run
	var empty []string
	for i, dir := range dirs {
		name := dir
		if a.Names != nil {
			name = a.Names[i]
		}
		r, err := read(dir, a.Tables, func(name string) bool { return name == a.Metric || isShown(name) })
		switch {
		case errors.Is(err, ErrNoRecords):
			empty = append(empty, name)
		case err != nil:
			return nil, err
		default:
			runs = append(runs, r)
			if a.Names != nil {
				r.Name = name
			}
		}
	}
	if runs == nil {
		return nil, fmt.Errorf("%s: %w in a metrics.jsonl: is it the directory of a run that has begun?", dirs[0], ErrNoRecords)
	}
	nameApart(runs)
	groups := groups(runs, a.Alone)
	if a.Metric != "" {
		if err := rank(groups, a.Metric, a.AtBest); err != nil {
			return nil, err
		}
	}
	return a.compare(runs, groups, empty), nil
}

// compare compares groups of runs. empty are directories whose runs have no records.
func (a Asked) compare(runs []*run, groups []*group, empty []string) *Comparison {
	c := &Comparison{Apart: apart(groups), Differences: differences(groups), asked: a, answered: newEvaluations(a.Rows)}
	for _, g := range groups {
		of := ComparedGroup{Name: g.Name}
		for _, r := range g.Runs {
			of.Runs = append(of.Runs, ComparedRun{r.Name, r.dir, r.seed(), r.stages[len(r.stages)-1].steps()})
		}
		c.Groups = append(c.Groups, of)
	}
	for _, stage := range stageNames(groups) {
		evaluations, others := metricsOf(stage, groups)
		names := slices.Concat(evaluations, others)
		if a.Metric != "" { // first
			names = append([]string{a.Metric}, slices.DeleteFunc(names, func(name string) bool { return name == a.Metric })...)
		}
		for _, name := range names {
			c.add(stage, name, groups)
		}
	}
	c.stand(runs, groups)
	c.note(groups, empty)
	return c
}

// add compares a metric, if some group has it.
func (c *Comparison) add(stage, name string, groups []*group) {
	m := ComparedMetric{Stage: stage, Name: name, Values: make([]*Compared, len(groups))}
	var first map[string]float64 // of the first group, by seed
	for i, g := range groups {
		ends := g.ends(stage, name)
		for _, r := range g.Runs {
			if s := r.stage(stage); s != nil && s.diverged(name) {
				c.diverged = append(c.diverged, r.Name+" "+name)
			}
		}
		values := ends.final
		if c.asked.AtBest && len(ends.best) > 0 {
			values = ends.best
		}
		if i == 0 {
			first = values
		}
		if len(ends.final) == 0 {
			continue
		}
		of := &Compared{First: mean(sorted(ends.first)), Interval: interval(sorted(ends.final))}
		if len(ends.best) > 0 {
			best := interval(sorted(ends.best))
			of.Best = &best
		}
		if i > 0 {
			of.More = c.more(stage, name, g, groups[0], values, first)
		}
		m.Values[i] = of
	}
	if slices.ContainsFunc(m.Values, func(v *Compared) bool { return v != nil }) {
		c.Metrics = append(c.Metrics, m)
	}
}

// more returns by how much the values of a group are more than those of the first one, both by seed: over pairs of seeds, or
// of single runs over the rows that both answered.
func (c *Comparison) more(stage, metric string, g, first *group, values, than map[string]float64) *Difference {
	var more []float64
	var pairs []pair
	for _, seed := range slices.Sorted(maps.Keys(values)) {
		if v, ok := than[seed]; ok {
			more = append(more, values[seed]-v)
			pairs = append(pairs, pair{g.placed(stage, metric, seed, c.asked.AtBest), first.placed(stage, metric, seed, c.asked.AtBest)})
		}
	}
	single := len(g.Runs) == 1 && len(first.Runs) == 1
	if single {
		pairs = []pair{{g.placed(stage, metric, "", c.asked.AtBest), first.placed(stage, metric, "", c.asked.AtBest)}}
	}
	var over *Interval
	if !slices.ContainsFunc(pairs, func(p pair) bool { return p.of.stage == nil || p.than.stage == nil }) && len(pairs) > 0 {
		over = c.answered.more(metric, pairs...)
	}
	switch {
	case single && over != nil:
		return differing(*over, overTheRows)
	case single && c.asked.Alone && more == nil && len(values) > 0 && len(than) > 0:
		more = []float64{mean(sorted(values)) - mean(sorted(than))}
	case more == nil:
		return nil
	}
	seeds := interval(more)
	if seeds.High != nil && over != nil { // seeds that happen to agree are not more certain than their rows
		if half := *over.High - over.Mean; half > *seeds.High-seeds.Mean {
			low, high := seeds.Mean-half, seeds.Mean+half
			seeds.Low, seeds.High = &low, &high
		}
	}
	return differing(seeds, overTheSeeds)
}

// placed returns the last or the best evaluation of the only run of a seed, or of the group if the seed is ""; nothing
// without one.
func (g *group) placed(stage, metric, seed string, atBest bool) (of placed) {
	for _, r := range g.Runs {
		if seed != "" && cmp.Or(r.seed(), r.dir) != seed {
			continue
		}
		if of.stage != nil { // several
			return placed{}
		}
		of = r.placed(stage, metric, atBest)
	}
	return of
}

// placed returns the last or the best evaluation of a stage; nothing without one.
func (r *run) placed(stage, metric string, atBest bool) placed {
	s := r.stage(stage)
	if s == nil || !IsEvaluation(metric) {
		return placed{}
	}
	e := s.evaluation(metric)
	switch {
	case e == nil:
		return placed{}
	case atBest:
		return placed{s, e.Step, float64(e.Best)}
	}
	return placed{s, e.lastStep, float64(e.Last)}
}

// sorted returns the values of a map in the order of its keys, so that sums have the same bits.
func sorted(m map[string]float64) (values []float64) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		values = append(values, m[key])
	}
	return values
}

// ends are values of a metric by seed.
type ends struct{ first, final, best map[string]float64 }

// ends returns the first, the final and, of an evaluation, the best values of a metric by seed, those of a seed that several
// runs have as means, without runs that diverged. A run whose seed is unknown has one of its own.
func (g *group) ends(stage, name string) ends {
	first, final, best := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
	for _, r := range g.Runs {
		s := r.stage(stage)
		if s == nil {
			continue
		}
		if points := s.points(name); len(points) > 0 && !s.diverged(name) {
			seed := cmp.Or(r.seed(), r.dir)
			first[seed] = append(first[seed], points[0].y)
			final[seed] = append(final[seed], finalOf(name, points))
			if e := s.evaluation(name); e != nil && IsEvaluation(name) {
				best[seed] = append(best[seed], float64(e.Best))
			}
		}
	}
	means := func(of map[string][]float64) map[string]float64 {
		out := map[string]float64{}
		for seed, values := range of {
			out[seed] = mean(values)
		}
		return out
	}
	return ends{means(first), means(final), means(best)}
}

// note says what is not comparable.
func (c *Comparison) note(groups []*group, empty []string) {
	add := func(format string, of []string) {
		if len(of) > 0 {
			c.Notes = append(c.Notes, fmt.Sprintf(format, strings.Join(of, ", ")))
		}
	}
	add("without a step, so left out: %s", empty)
	var short, apart []string
	for _, stage := range stageNames(groups) {
		most := int64(0)
		for _, g := range groups {
			for _, s := range g.stages(stage) {
				most = max(most, s.steps(), s.total())
			}
		}
		for _, g := range groups {
			for _, r := range g.Runs {
				s := r.stage(stage)
				if s == nil || s.steps() >= most && s.failed == "" {
					continue
				}
				name := fmt.Sprintf("%s (%d of %d", strings.TrimSuffix(r.Name+" "+stage, " "), s.steps(), most)
				if s.failed != "" {
					name += ", failed: " + s.failed
				}
				short = append(short, name+")")
			}
		}
	}
	add("whose answers cannot be read, so without a difference over rows: %s", c.answered.failed)
	add("not finite at the end, so left out: %s", c.diverged)
	add("failed, stopped or shorter, so their final values are of an earlier step: %s", short)
	for i, g := range groups {
		paired := func(m ComparedMetric) bool { return m.Values[i] != nil && m.Values[i].More != nil }
		if i > 0 && !slices.ContainsFunc(c.Metrics, paired) {
			apart = append(apart, g.Name)
		}
	}
	if apart != nil {
		c.Notes = append(c.Notes, fmt.Sprintf("no seed of %s, so without a difference: %s", groups[0].Name, strings.Join(apart, ", ")))
	}
}
