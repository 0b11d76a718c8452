package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
)

// Standing is a single run at the best of its evaluations, at any step.
type Standing struct {
	Run   string `json:"run"`
	Label string `json:"label"` // the shortest name that tells it from the others
	Evaluation
	Gain    *Difference `json:"gain,omitempty"` // over the model with which it began, in the rows that both answered
	More    *Difference `json:"more,omitempty"` // than the first run, in the rows that both answered; nil without such rows
	Weights string      `json:"weights"`        // the checkpoint of the version; "" if none is kept
	Model   string      `json:"model"`          // with which it began
}

// Other is an evaluation on other rows, or at another temperature, by which another run is the best one.
type Other struct {
	Name  string        `json:"name"` // of the metric
	Run   string        `json:"run"`
	Label string        `json:"label"`
	Best  rundir.Number `json:"best"`
	Step  int64         `json:"step"`
	Has   rundir.Number `json:"has"` // the best single run at its step
}

// stand ranks single runs by the best of their evaluations in the metric that was asked for, or else in the main one, in the
// last stage that has it.
func (c *Comparison) stand(runs []*run, groups []*group) {
	metric := c.asked.Metric
	if !IsEvaluation(metric) {
		metric = mainMetric(groups)
	}
	if !IsEvaluation(metric) {
		return
	}
	all := make([]subject, len(runs))
	for i, r := range runs {
		all[i] = r.subject(r.Name)
	}
	labels := nameAll(all).Labels
	for _, stage := range slices.Backward(stageNames(groups)) {
		var all []judged
		for i, r := range runs {
			s := r.stage(stage)
			if s == nil {
				continue
			}
			e := s.evaluation(metric)
			if e == nil {
				continue
			}
			j := judged{
				Standing{Run: r.Name, Label: labels[i], Evaluation: *e, Model: s.setting("model.model_path")},
				placed{s, e.Step, float64(e.Best)},
			}
			if path := rundir.Checkpoint(s.dir, e.Version); e.Version > 0 && durable.Missing(path) == "" {
				j.Weights = path
			}
			if e.IsStart && e.Version > 0 {
				j.Gain = c.overRows(metric, j.placed, placed{s, e.firstStep, float64(e.First)})
			}
			all = append(all, j)
		}
		if len(all) == 0 {
			continue
		}
		slices.SortFunc(all, func(a, b judged) int {
			return cmp.Or(btoi(Better(metric, b.value, a.value))-btoi(Better(metric, a.value, b.value)), strings.Compare(a.Run, b.Run))
		})
		for i, j := range all {
			if i > 0 {
				j.More = c.overRows(metric, j.placed, all[0].placed)
			}
			c.Best = append(c.Best, j.Standing)
		}
		c.disagree(metric, all)
		return
	}
}

// judged is a standing with the evaluation that it is by.
type judged struct {
	Standing
	placed
}

// disagree finds the evaluations of the same quantity on other tasksets by which another run than the best one is better.
// all are in the order of the standings.
func (c *Comparison) disagree(metric string, all []judged) {
	best := all[0]
	names := map[string]bool{}
	for i := range best.stage.files {
		for _, name := range best.stage.files[i].Names {
			if name != metric && IsEvaluation(name) && quantity(name) == quantity(metric) {
				names[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		values := best.stage.points(name)
		at := slices.IndexFunc(values, func(p point) bool { return p.x == float64(best.step) })
		if at < 0 {
			continue
		}
		other := Other{Name: name, Has: rundir.Number(values[at].y)}
		for _, j := range all[1:] {
			e := j.stage.evaluation(name)
			if e != nil && e.Version > 0 && Better(name, float64(e.Best), values[at].y) &&
				(other.Run == "" || Better(name, float64(e.Best), float64(other.Best))) {
				other.Run, other.Label, other.Best, other.Step = j.Run, j.Label, e.Best, e.Step
			}
		}
		if other.Run != "" {
			c.Others = append(c.Others, other)
		}
	}
}

// quantity returns what an evaluation measures, without its taskset: accuracy for eval/held_out/accuracy/mean@1.
func quantity(name string) string {
	_, name, _ = strings.Cut(shortMetric(name), "/")
	return name
}

// overRows returns by how much an evaluation is more than another one over the rows that both answered; nil without such rows.
func (c *Comparison) overRows(metric string, of, than placed) *Difference {
	if over := c.answered.more(metric, pair{of, than}); over != nil {
		return differing(*over, overTheRows)
	}
	return nil
}

// isBetter reports whether a trained version of some run is better than the model with which that run began.
func (c *Comparison) isBetter() bool {
	return slices.ContainsFunc(c.Best, func(s Standing) bool { return s.IsBetter() })
}

// noneBetter says that no trained version is better than the model with which the runs began.
func (c *Comparison) noneBetter() string {
	best := c.Best[0]
	start := slices.MaxFunc(c.Best, func(a, b Standing) int {
		return btoi(Better(a.Name, float64(a.First), float64(b.First))) - btoi(Better(a.Name, float64(b.First), float64(a.First)))
	})
	text := fmt.Sprintf("No run is better than the model it began with (%s %.4g; model %s)", shortMetric(best.Name), start.First, start.Model)
	if best.Version == 0 {
		return text + "."
	}
	return text + fmt.Sprintf("; the best checkpoint has %.4g: %s, step %d.", best.Best, best.Label, best.Step)
}

// verdict says in lines which single run is best, and by how much.
func (c *Comparison) verdict() (lines []string) {
	if len(c.Best) == 0 {
		return nil
	}
	best := c.Best[0]
	switch {
	case !c.isBetter():
		lines = append(lines, c.noneBetter())
	default:
		line := fmt.Sprintf("Best single run at any step: %s, %s %.4g at step %d", best.Label, shortMetric(best.Name), best.Best, best.Step)
		if best.IsStart {
			line += fmt.Sprintf(", was %.4g at the start", best.First)
		}
		if best.Gain != nil {
			line += fmt.Sprintf(" (%s)", best.Gain.text())
		}
		lines = append(lines, line+".")
	}
	if len(c.Best) > 1 {
		next := c.Best[1]
		line := fmt.Sprintf("The next, %s, has %.4g at step %d: ", next.Label, next.Best, next.Step)
		if next.More != nil {
			line += next.More.text() + "."
		} else {
			line += "one run each, and no answers to the same rows are kept, so nobody can tell this from chance."
		}
		lines = append(lines, line)
	}
	for _, o := range c.Others {
		lines = append(lines, fmt.Sprintf("By %s another run is best: %s, %.4g at step %d; %s has %.4g at step %d.",
			shortMetric(o.Name), o.Label, o.Best, o.Step, best.Label, o.Has, best.Step))
	}
	if best.Weights != "" {
		lines = append(lines, "Its weights: "+best.Weights)
	}
	return lines
}

// text returns the difference with its interval, over how many rows or seeds it is, and whether chance explains it.
func (d *Difference) text() string {
	text := fmt.Sprintf("%+.4g", d.Mean)
	if d.High != nil {
		text += fmt.Sprintf(" ± %.2g", *d.High-d.Mean)
	}
	if text += fmt.Sprintf(" over %d %s", d.N, d.Over); d.Tells == withinChance {
		text += ", within chance"
	}
	return text
}
