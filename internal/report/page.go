package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/durable"
)

//go:embed page.html
var source string

var page = template.Must(template.New("page").Funcs(template.FuncMap{"colour": func(i int) int { return i % colours }}).Parse(source))

// metrics are the charts of a stage besides its evaluations, and the metrics in each.
var metrics = []struct {
	title string
	names []string
}{
	{"Reward", []string{"rollout/reward/mean"}},
	{"Loss", []string{"actor/final_loss"}},
	{"KL divergence (nats)", []string{"actor/kl_loss", "actor/ppo_kl"}},
	{"Entropy (nats)", []string{"actor/entropy_loss"}},
	{"Response length (tokens)", []string{"rollout/response_length/mean"}},
	{"Gradient norm", []string{"actor/grad_norm"}},
	{"Critic's loss", []string{"critic/vf_loss"}},
}

// section is a stage on the page.
type section struct {
	Name    string
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

// row is a metric's first and last value. Of several runs, both are means.
type row struct {
	Name, First, Last string
}

func write(w io.Writer, dirs []string) error {
	var runs []*run
	for _, dir := range dirs {
		r, err := read(filepath.Clean(dir))
		if err != nil {
			return err
		}
		runs = append(runs, r)
	}
	nameApart(runs)
	begin, end := span(runs)
	return page.Execute(w, map[string]any{
		"Runs": runs, "Several": len(runs) > 1, "Sections": sections(runs),
		"Begin": begin.Local().Format(time.DateTime), "Took": end.Sub(begin).Round(time.Second),
	})
}

// File is the name of a run's report.
const File = "report.html"

// WriteFile writes the page about the runs in dirs to a file.
func WriteFile(path string, dirs ...string) error {
	var b bytes.Buffer
	if err := write(&b, dirs); err != nil {
		return err
	}
	return durable.WriteFile(path, b.Bytes())
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
			first, last := s.records[0].Time, s.records[len(s.records)-1].Time
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
// share one.
func sections(runs []*run) []section {
	var names []string
	for _, r := range runs {
		for _, s := range r.stages {
			if !slices.Contains(names, s.name) {
				names = append(names, s.name)
			}
		}
	}
	var out []section
	for _, name := range names {
		sec := section{Name: name}
		var stages []*stage
		for _, r := range runs {
			i := slices.IndexFunc(r.stages, func(s stage) bool { return s.name == name })
			if i < 0 {
				continue
			}
			s := &r.stages[i]
			stages = append(stages, s)
			sec.Answers = append(sec.Answers, told[[]answers]{r.Name, s.answers()})
			sec.Times = append(sec.Times, told[[]phase]{r.Name, s.times()})
			sec.Configs = append(sec.Configs, told[string]{r.Name, s.config})
		}
		sec.draw(stages)
		out = append(out, sec)
	}
	return out
}

// draw adds the charts and the table.
func (s *section) draw(stages []*stage) {
	var evaluations []string
	for _, st := range stages {
		for _, name := range st.evaluations() {
			if !slices.Contains(evaluations, name) {
				evaluations = append(evaluations, name)
			}
		}
	}
	s.add("Evaluation", evaluations, stages)
	for _, m := range metrics {
		s.add(m.title, m.names, stages)
	}
}

// add adds a chart of the metrics that some stage has, and their rows of the table.
func (s *section) add(title string, names []string, stages []*stage) {
	c := chart{Title: title}
	for _, name := range names {
		line := series{Name: strings.TrimSuffix(strings.TrimPrefix(name, "eval/"), "/mean")}
		var first, last []float64
		for _, st := range stages {
			points := st.points(name)
			line.runs = append(line.runs, points)
			if len(points) > 0 {
				first, last = append(first, points[0].y), append(last, points[len(points)-1].y)
			}
		}
		if len(first) > 0 {
			c.Series = append(c.Series, line)
			s.Table = append(s.Table, row{name, value(first), value(last)})
		}
	}
	if len(c.Series) > 0 {
		s.Charts = append(s.Charts, c)
	}
}

// value formats the value of one run, or the mean and the standard deviation of several.
func value(v []float64) string {
	mean, deviation := spread(v)
	if len(v) == 1 {
		return fmt.Sprintf("%.4g", mean)
	}
	return fmt.Sprintf("%.4g ± %.2g (%d runs)", mean, deviation, len(v))
}
