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
	Notes       []string         `json:"notes"`   // what is not comparable

	diverged []string // runs, each with the metric whose last value is not finite
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
	More *Interval `json:"more,omitempty"` // over the seeds of both groups; nil if there are none
}

// Compare reads runs and compares them. With a metric, the groups are sorted by its final value, best
// first; those that have made fewer steps come last. Without one, they are in the order of dirs.
func Compare(metric string, dirs ...string) (*Comparison, error) {
	return CompareNamed(rundir.ReadTable, metric, nil, dirs...)
}

// CompareNamed compares runs as [Compare] does, whose metrics come from a reader, and calls each run by the
// name at the index of its directory. nil names them after their directories.
func CompareNamed(from Reader, metric string, names []string, dirs ...string) (*Comparison, error) {
	var runs []*run
	var empty []string
	for i, dir := range dirs {
		name := dir
		if names != nil {
			name = names[i]
		}
		r, err := read(dir, from, func(name string) bool { return name == metric || isShown(name) })
		switch {
		case errors.Is(err, ErrNoRecords):
			empty = append(empty, name)
		case err != nil:
			return nil, err
		default:
			runs = append(runs, r)
			if names != nil {
				r.Name = name
			}
		}
	}
	if runs == nil {
		return nil, fmt.Errorf("%s: %w in a metrics.jsonl: is it the directory of a run that has begun?", dirs[0], ErrNoRecords)
	}
	nameApart(runs)
	groups := groups(runs)
	if metric != "" {
		if err := rank(groups, metric); err != nil {
			return nil, err
		}
	}
	return compare(groups, metric, empty), nil
}

// compare compares groups. empty are directories whose runs have no records.
func compare(groups []*group, metric string, empty []string) *Comparison {
	c := &Comparison{Apart: apart(groups), Differences: differences(groups)}
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
		if metric != "" { // first
			names = append([]string{metric}, slices.DeleteFunc(names, func(name string) bool { return name == metric })...)
		}
		for _, name := range names {
			c.add(stage, name, groups)
		}
	}
	c.note(groups, empty)
	return c
}

// add compares a metric, if some group has it.
func (c *Comparison) add(stage, name string, groups []*group) {
	m := ComparedMetric{Stage: stage, Name: name, Values: make([]*Compared, len(groups))}
	var first map[string]float64 // of the first group, by seed
	for i, g := range groups {
		begins, ends := g.ends(stage, name)
		for _, r := range g.Runs {
			if s := r.stage(stage); s != nil && s.diverged(name) {
				c.diverged = append(c.diverged, r.Name+" "+name)
			}
		}
		if i == 0 {
			first = ends
		}
		if len(ends) == 0 {
			continue
		}
		of := &Compared{First: mean(sorted(begins)), Interval: interval(sorted(ends))}
		var more []float64
		for _, seed := range slices.Sorted(maps.Keys(ends)) {
			if v, ok := first[seed]; ok && i > 0 {
				more = append(more, ends[seed]-v)
			}
		}
		if more != nil {
			paired := interval(more)
			of.More = &paired
		}
		m.Values[i] = of
	}
	if slices.ContainsFunc(m.Values, func(v *Compared) bool { return v != nil }) {
		c.Metrics = append(c.Metrics, m)
	}
}

// sorted returns the values of a map in the order of its keys, so that sums have the same bits.
func sorted(m map[string]float64) (values []float64) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		values = append(values, m[key])
	}
	return values
}

// ends returns the first and the final values of a metric by seed, those of a seed that several runs
// have as means, without runs that diverged. A run whose seed is unknown has one of its own.
func (g *group) ends(stage, name string) (first, final map[string]float64) {
	begins, ends := map[string][]float64{}, map[string][]float64{}
	for _, r := range g.Runs {
		s := r.stage(stage)
		if s == nil {
			continue
		}
		if points := s.points(name); len(points) > 0 && !s.diverged(name) {
			seed := cmp.Or(r.seed(), r.dir)
			begins[seed] = append(begins[seed], points[0].y)
			ends[seed] = append(ends[seed], finalOf(name, points))
		}
	}
	first, final = map[string]float64{}, map[string]float64{}
	for seed := range ends {
		first[seed], final[seed] = mean(begins[seed]), mean(ends[seed])
	}
	return first, final
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
