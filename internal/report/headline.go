package report

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/rundir"
)

// ranked is a group in the first table of a page of several: the best stands first.
type ranked struct {
	Group             *group
	Values            []string // of the settings that tell the groups apart
	First, Last, More string   // More is the difference to the first row
}

const (
	evalPrefix = "eval/"
	counted    = "finished_task_count" // the metric with the number of rows that an evaluation asked
)

// shortMetric returns the name of a metric for a sentence: held_out/accuracy for eval/held_out/accuracy/mean@1.
func shortMetric(name string) string {
	if last := path.Base(name); strings.HasPrefix(last, "mean") {
		name = path.Dir(name)
	}
	return strings.TrimPrefix(strings.TrimPrefix(name, evalPrefix), "bench/")
}

// rankAll puts the groups in the order of the metric by which they are judged, the best first, and says in a
// sentence what came of them.
func (p *Page) rankAll() error {
	stages := stageNames(p.Groups)
	metric := mainMetric(p.Groups)
	if metric == "" {
		return nil
	}
	defer func() { p.Weights = weights(p.Groups[0]) }() // ranked by then
	begin, end := span(p.Runs)
	took := " in " + brieflyTook(end.Sub(begin))
	if len(p.Groups) == 1 {
		p.Headline = p.Groups[0].sentence(stages, metric) + took + "."
		return nil
	}
	if err := rank(p.Groups, metric, false); err != nil {
		return err
	}
	p.Metric, p.Apart = metric, apart(p.Groups)
	c := &Comparison{answered: newEvaluations(readRows), asked: Asked{Metric: metric}}
	for _, stage := range slices.Backward(stages) {
		if c.add(stage, metric, p.Groups); len(c.Metrics) > 0 {
			break
		}
	}
	for i, g := range p.Groups {
		r := ranked{Group: g, First: "–", Last: "–"}
		for _, of := range p.Apart {
			r.Values = append(r.Values, of.Values[i])
		}
		if v := c.Metrics[0].Values[i]; v != nil {
			if r.First, r.Last = fmt.Sprintf("%.4g", v.First), v.Interval.text(); i > 0 {
				r.More = v.more()
			}
		}
		p.Ranked = append(p.Ranked, r)
	}
	p.Headline = fmt.Sprintf("%s is best: %s %s", p.Groups[0].Name, shortMetric(metric), p.Ranked[0].Last)
	if v := c.Metrics[0].Values[1]; v != nil && v.More != nil {
		p.Headline += fmt.Sprintf("; the next, %s, differs by %+.3g", p.Groups[1].Name, v.More.Mean)
		if v.More.High != nil {
			p.Headline += fmt.Sprintf(" ± %.2g", *v.More.High-v.More.Mean)
			if v.More.Tells != beyondChance && v.More.Mean != 0 {
				p.Headline += fmt.Sprintf(", which %d %s do not tell from chance", v.More.N, v.More.Over)
			}
		}
	}
	p.Headline += fmt.Sprintf(". %d runs%s.", len(p.Runs), took)
	if c.stand(p.Runs, p.Groups); len(c.Best) > 0 && !c.isBetter() {
		p.Headline += " " + c.noneBetter()
	}
	return nil
}

// weights says where the best checkpoints of a group's runs are (trainer.keep_best).
func weights(g *group) (lines []string) {
	for _, r := range g.Runs {
		for _, s := range slices.Backward(r.stages) {
			if best, err := rundir.ReadBest(filepath.Join(r.dir, filepath.FromSlash(s.name))); err == nil && best != nil {
				lines = append(lines, fmt.Sprintf("%s, step %d, %s %.4g: %s", r.Name, best.Step, shortMetric(best.Metric), best.Value, best.Checkpoint))
				break
			}
		}
	}
	return lines
}

// Title names the groups, or the sweep if they are many.
func (p *Page) Title() string {
	const most = 4
	if len(p.Groups) <= most {
		var labels []string
		for _, g := range p.Groups {
			labels = append(labels, g.Label())
		}
		return strings.Join(labels, ", ")
	}
	sweep := p.Runs[0].sweep.Name
	if sweep == "" || slices.ContainsFunc(p.Runs, func(r *run) bool { return r.sweep.Name != sweep }) {
		return fmt.Sprintf("%d runs", len(p.Runs))
	}
	return fmt.Sprintf("%s (%d runs)", sweep, len(p.Runs))
}

// sentence says how a metric of a single group went, in the last stage that has it.
func (g *group) sentence(stages []string, metric string) string {
	for _, stage := range slices.Backward(stages) {
		for _, s := range g.stages(stage) {
			points := s.points(metric)
			if len(points) == 0 {
				continue
			}
			first, last := points[0], points[len(points)-1]
			text := fmt.Sprintf("%s: %.3g → %.3g", shortMetric(metric), first.y, last.y)
			best := slices.MaxFunc(points, func(a, b point) int { return btoi(Better(metric, a.y, b.y)) - btoi(Better(metric, b.y, a.y)) })
			if IsEvaluation(metric) && Better(metric, best.y, last.y) {
				text += fmt.Sprintf(", best %.3g at step %g", best.y, best.x)
			}
			if set, _, ok := strings.Cut(strings.TrimPrefix(metric, evalPrefix), "/"); ok && IsEvaluation(metric) {
				if rows := s.points(evalPrefix + set + "/" + counted); len(rows) > 0 {
					text += fmt.Sprintf(" on %g rows", rows[len(rows)-1].y)
				}
			}
			if len(g.Runs) > 1 {
				text += fmt.Sprintf(" (%s, the first of %d runs)", g.Runs[0].Name, len(g.Runs))
			}
			return text
		}
	}
	return shortMetric(metric)
}

// brieflyTook returns a time in few characters.
func brieflyTook(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}
