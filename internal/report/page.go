package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/safetext"
)

//go:embed page.html
var source string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"colour": look, "text": text, "chart": named,
}).Parse(source))

// shownMetrics are the metrics of a chart.
type shownMetrics struct {
	title string
	names []string
}

// Entropy is the metric with the entropy of the policy, in nats.
const Entropy = "actor/entropy_loss"

// metrics are the charts of a stage besides its evaluations.
var metrics = []shownMetrics{
	{"Reward", []string{"rollout/reward/mean"}},
	{"Loss", []string{"actor/final_loss"}},
	{"KL divergence (nats)", []string{"actor/kl_loss", "actor/ppo_kl"}},
	{"Entropy (nats)", []string{Entropy}},
	{"Response length (tokens)", []string{"rollout/response_length/mean"}},
	{"Gradient norm", []string{"actor/grad_norm"}},
	{"Critic's loss", []string{"critic/vf_loss"}},
}

// section is a stage on the page.
type section struct {
	Name    string
	Main    []chart // of several groups the chart of the metric that ranks them; all charts of one
	Charts  []chart
	Table   []row
	Answers []told[[]answers] // of each run
	Times   []told[[]phase]
	Configs []told[string]
}

// told is what one run tells.
type told[T any] struct {
	Run string
	It  T
}

// row is a metric's first and last value in a group of runs. Of several runs, both are means.
type row struct {
	Metric, Group, First, Last string
	Runs                       int
}

// Page holds one or several runs, as the page shows them.
type Page struct {
	Runs        []*run
	Groups      []*group
	Differences []difference
	Sections    []section
	Headline    string        // what came of the runs, in a sentence
	Metric      string        // by which several groups are ranked; "" for one
	Apart       []Apart       // the settings that tell the groups apart
	Ranked      []ranked      // of several groups
	Weights     []string      // where the best group has its weights: a line for each of its runs
	Rollouts    template.HTML // what stands below all else; may be ""
}

// Read reads the runs in dirs.
func Read(dirs ...string) (*Page, error) {
	var p Page
	for _, dir := range dirs {
		r, err := read(dir, rundir.ReadTable, isShown)
		if err == nil {
			err = r.readSamples()
		}
		if err != nil {
			return nil, err
		}
		p.Runs = append(p.Runs, r)
	}
	nameApart(p.Runs)
	p.Groups = groups(p.Runs, false)
	if err := p.rankAll(); err != nil {
		return nil, err
	}
	p.Differences, p.Sections = differences(p.Groups), sections(p.Runs, p.Groups, p.Metric)
	return &p, nil
}

// File is the name of a run's report.
const File = "report.html"

// WriteFile writes the page to a file.
func (p *Page) WriteFile(path string) error {
	var b bytes.Buffer
	if err := p.write(&b); err != nil {
		return err
	}
	return durable.WriteFile(path, b.Bytes())
}

func (p *Page) write(w io.Writer) error {
	begin, end := span(p.Runs)
	return page.Execute(w, map[string]any{
		"Page": p, "Several": len(p.Runs) > 1, "Begin": begin.Local().Format(time.DateTime), "Took": end.Sub(begin).Round(time.Second),
	})
}

// nameApart numbers runs that have the same name.
func nameApart(runs []*run) {
	count := map[string]int{}
	for _, r := range runs {
		if count[r.Name]++; count[r.Name] > 1 {
			r.Name = fmt.Sprintf("%s (%d)", r.Name, count[r.Name])
		}
	}
}

// span returns the times of the first and the last record.
func span(runs []*run) (begin, end time.Time) {
	for _, r := range runs {
		for _, s := range r.stages {
			first, last := s.began(), s.ended()
			if begin.IsZero() || first.Before(begin) {
				begin = first
			}
			if last.After(end) {
				end = last
			}
		}
	}
	return begin, end
}

// sections returns a section for each name of a stage. Stages of different runs with the same name
// share one. Of several groups the chart of a metric stands above the others.
func sections(runs []*run, groups []*group, metric string) []section {
	var out []section
	for _, r := range runs {
		for i := range r.stages {
			s := &r.stages[i]
			at := slices.IndexFunc(out, func(sec section) bool { return sec.Name == s.name })
			if at < 0 {
				at = len(out)
				out = append(out, section{Name: s.name})
			}
			sec := &out[at]
			sec.Answers = append(sec.Answers, told[[]answers]{r.Name, s.answers()})
			sec.Times = append(sec.Times, told[[]phase]{r.Name, s.times()})
			sec.Configs = append(sec.Configs, told[string]{r.Name, s.config})
		}
	}
	for i := range out {
		out[i].draw(groups)
		isOther := func(c chart) bool { return metric != "" && !slices.Contains(c.metrics, metric) }
		out[i].Main = slices.DeleteFunc(slices.Clone(out[i].Charts), isOther)
		out[i].Charts = slices.DeleteFunc(out[i].Charts, func(c chart) bool { return !isOther(c) })
	}
	return out
}

// draw adds the charts and the table.
func (s *section) draw(groups []*group) {
	evaluations, _ := metricsOf(s.Name, groups)
	s.add("Evaluation", evaluations, groups)
	for _, m := range metrics {
		s.add(m.title, m.names, groups)
	}
}

// add adds the metrics that some run has to the table, and their charts: one with all metrics, or
// for several groups one of each metric, with a curve per group. Metrics with the same values share
// a curve.
func (s *section) add(title string, names []string, groups []*group) {
	var all []chart // of each metric
	for _, name := range names {
		c := chart{Title: strings.TrimSuffix(strings.TrimPrefix(name, evalPrefix), "/mean"), metrics: []string{name}}
		for i, g := range groups {
			line := series{Name: g.Name, Colour: i}
			var first, last []float64
			for _, st := range g.stages(s.Name) {
				points := st.points(name)
				line.runs = append(line.runs, points)
				if len(points) > 0 {
					first, last = append(first, points[0].y), append(last, points[len(points)-1].y)
				}
			}
			if len(first) > 0 {
				c.Series = append(c.Series, line)
				s.Table = append(s.Table, row{name, g.Name, value(first), value(last), len(first)})
			}
		}
		same := func(other chart) bool { return slices.EqualFunc(c.Series, other.Series, series.same) }
		if i := slices.IndexFunc(all, same); i >= 0 {
			all[i].Title += ", " + c.Title
			all[i].metrics = append(all[i].metrics, name)
		} else if len(c.Series) > 0 {
			all = append(all, c)
		}
	}
	if len(groups) == 1 && len(all) > 1 {
		together := chart{Title: title}
		for i, c := range all {
			together.Series = append(together.Series, series{c.Title, i, c.Series[0].runs})
		}
		all = []chart{together}
	} else {
		for i := range all {
			if len(names) > 1 {
				all[i].Title = title + ": " + all[i].Title
			} else {
				all[i].Title = title
			}
		}
	}
	s.Charts = append(s.Charts, all...)
}

// named is a chart with whether its curves need names.
func named(c chart, p *Page) map[string]any {
	return map[string]any{"Chart": c, "Named": len(c.Series) > 1 || len(p.Groups) > 1}
}

// text returns what a model has read or written, without characters that turn the text around or act
// on a terminal.
func text(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = safetext.Printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

// value formats the value of one run, or the mean and the standard deviation of several.
func value(v []float64) string {
	mean, deviation := spread(v)
	if len(v) == 1 {
		return fmt.Sprintf("%.4g", mean)
	}
	if deviation < 1e-12*math.Abs(mean) { // rounding
		deviation = 0
	}
	return fmt.Sprintf("%.4g ± %.2g", mean, deviation)
}
