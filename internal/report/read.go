// Package report writes a page about one or several runs: curves, a table, answers, times and the
// configuration. The page is one HTML file without scripts.
package report

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/columns"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/monitor"
)

// run is what a run's directory tells of it.
type run struct {
	Name   string
	dir    string
	stages []stage // in order of their first record
}

// stage is a stage of a run. A run without stages has one, whose name is "".
type stage struct {
	name     string
	run      string          // the run's name when it was recorded
	files    []columns.Table // of each of several explorers
	until    int64           // the last step that counts
	samples  []answers       // in order of time; only of a page
	config   string          // YAML of the settings that differ from the defaults; "" if unknown
	settings map[string]any  // the same by dotted key
	failed   string          // the line with which its newest process failed; "" if it did not
}

// ErrNoRecords is the error for a directory whose run has not made a step.
var ErrNoRecords = errors.New("no records")

// Reader returns what the metrics.jsonl in a directory has, with the values of the metrics that are
// wanted. A line that is no record is an error.
type Reader func(dir string, wanted func(name string) bool) (columns.Table, error)

// readColumns is the Reader that keeps nothing.
func readColumns(dir string, wanted func(name string) bool) (columns.Table, error) {
	f := columns.New(dir, nil)
	_, err := f.Update(wanted, columns.Mark{})
	return f.Table(), cmp.Or(err, f.Damage())
}

// read reads a run from its directory. Each of several explorers has a metrics.jsonl of its own.
func read(dir string, from Reader, wanted func(name string) bool) (*run, error) {
	dir = filepath.Clean(dir)
	root, files, err := rundir.Files(dir)
	if err != nil {
		return nil, err
	}
	stages, runs := map[string]*stage{}, map[string]string{}
	for _, path := range files {
		inside, err := filepath.Rel(root, path)
		if err != nil {
			return nil, err
		}
		name := stageOf(strings.Split(filepath.ToSlash(inside), "/"))
		table, err := from(filepath.Dir(path), wanted)
		if err != nil {
			return nil, err
		}
		if stages[name] == nil {
			stages[name] = &stage{name: name, run: filepath.Base(dir), until: math.MaxInt64}
		}
		s := stages[name]
		about, err := monitor.ReadAbout(filepath.Dir(path))
		if err == nil { // else it is of an earlier version, or damaged
			own, of, _ := strings.Cut(about.Name, "/") // the name of the run, and of its stage
			s.run = cmp.Or(own, s.run)
			runs[own] = filepath.Join(root, strings.TrimSuffix(name, of))
		}
		if len(table.Steps) > 0 {
			s.files = append(s.files, table)
		}
		s.failed = cmp.Or(s.failed, failure(about))
		settings, err := os.ReadFile(filepath.Join(filepath.Dir(path), rundir.Settings))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		s.config = cmp.Or(s.config, string(settings))
	}
	delete(runs, "")   // of an earlier version
	if len(runs) > 1 { // one page would take the runs for stages of one
		return nil, fmt.Errorf("%s has %d runs below it: give the directories of the runs, such as %s", dir, len(runs),
			slices.Min(slices.Collect(maps.Values(runs))))
	}
	r := &run{Name: filepath.Base(dir), dir: dir}
	for _, s := range stages {
		if len(s.files) == 0 {
			continue
		}
		var tree map[string]any
		if err := yaml.Unmarshal([]byte(s.config), &tree); err != nil {
			return nil, fmt.Errorf("run %s: %s: %w", r.Name, rundir.Settings, err)
		}
		if tree != nil {
			s.settings = config.Flatten(tree)
		}
		r.stages = append(r.stages, *s)
	}
	if len(r.stages) == 0 {
		return nil, fmt.Errorf("%s: %w in a %s: is it the directory of a run that has begun?", dir, ErrNoRecords, rundir.Metrics)
	}
	slices.SortFunc(r.stages, func(a, b stage) int {
		return cmp.Or(a.began().Compare(b.began()), strings.Compare(a.name, b.name))
	})
	return r, nil
}

// failure returns the line with which a part of a run failed; "" if none did.
func failure(about monitor.About) string {
	for _, name := range slices.Sorted(maps.Keys(about.Parts)) {
		if part := about.Parts[name]; part.Status == monitor.Failed {
			return cmp.Or(part.Error, "no reason is known")
		}
	}
	return ""
}

// stageOf returns the name of the stage to which a file belongs, whose path is split. It is the
// directory above the last one called monitor.
func stageOf(path []string) string {
	for i, part := range slices.Backward(path) {
		if part == rundir.Monitor {
			return strings.Join(path[:i], "/")
		}
	}
	return strings.Join(path, "/")
}

// isShown reports whether a page or a comparison shows a metric, if a run has it.
func isShown(name string) bool {
	return isEvaluation(name) || slices.ContainsFunc(phases, func(p phaseMetric) bool { return p.metric == name }) ||
		slices.ContainsFunc(metrics, func(m shownMetrics) bool { return slices.Contains(m.names, name) })
}

// isEvaluation reports whether a metric is an evaluation, and no length or time.
func isEvaluation(name string) bool {
	return len(monitor.Evaluations(trinity.Metrics{name: 0})) > 0 && !strings.Contains(name, "length") && !strings.Contains(name, "/time/")
}

// recorded is a value of a metric.
type recorded struct {
	step, time int64
	role       string
	value      float64
}

// values returns the values of a metric in order of time.
func (s *stage) values(metric string) (all []recorded) {
	for i := range s.files {
		f := &s.files[i]
		column := f.Column(metric)
		for k, record := range column.Records {
			if step := f.Steps[record]; step <= s.until {
				all = append(all, recorded{step, f.Times[record], f.Role(int(record)), column.Values[k]})
			}
		}
	}
	byTime := func(a, b recorded) int { return cmp.Compare(a.time, b.time) }
	if !slices.IsSortedFunc(all, byTime) {
		slices.SortStableFunc(all, byTime)
	}
	return all
}

// points returns the values of a metric, in order of steps. Of several values of a step, which
// several explorers give, it returns the mean.
func (s *stage) points(metric string) []point {
	values := map[int64][]float64{}
	for _, r := range s.values(metric) {
		if !math.IsNaN(r.value) && !math.IsInf(r.value, 0) {
			values[r.step] = append(values[r.step], r.value)
		}
	}
	var out []point
	for _, step := range slices.Sorted(maps.Keys(values)) {
		out = append(out, point{float64(step), mean(values[step])})
	}
	return out
}

// diverged reports whether the last value of a metric is no finite number.
func (s *stage) diverged(metric string) bool {
	all := s.values(metric)
	if len(all) == 0 {
		return false
	}
	last := all[len(all)-1].value
	return math.IsNaN(last) || math.IsInf(last, 0)
}

// began returns the time of the first record, and ended that of the last one.
func (s *stage) began() time.Time { return time.UnixMilli(s.edge(slices.Min[[]int64])) }
func (s *stage) ended() time.Time { return time.UnixMilli(s.edge(slices.Max[[]int64])) }

func (s *stage) edge(of func([]int64) int64) int64 {
	var times []int64
	for _, f := range s.files {
		times = append(times, of(f.Times))
	}
	return of(times)
}

// evaluations returns the names of the evaluated metrics, except lengths and times.
func (s *stage) evaluations() []string {
	names := map[string]bool{}
	for _, f := range s.files {
		for _, name := range f.Names {
			if isEvaluation(name) && slices.ContainsFunc(f.Column(name).Records, func(r uint32) bool { return f.Steps[r] <= s.until }) {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// readSamples reads the sample answers of a run's stages: of each file those of the first and the last record that
// has some.
func (r *run) readSamples() error {
	root, files, err := rundir.Files(r.dir)
	if err != nil {
		return err
	}
	all := map[string][]trinity.Record{}
	for _, path := range files {
		inside, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name := stageOf(strings.Split(filepath.ToSlash(inside), "/"))
		if err := eachEnd(filepath.Dir(path), func(record trinity.Record) { all[name] = append(all[name], record) }); err != nil {
			return err
		}
	}
	for name, records := range all {
		slices.SortStableFunc(records, func(a, b trinity.Record) int { return a.Time.Compare(b.Time) })
		if s := r.stage(name); s != nil {
			for _, record := range records {
				s.samples = append(s.samples, answers{record.Step, record.Samples})
			}
		}
	}
	return nil
}

// eachEnd visits the first and the last record with samples of the metrics.jsonl in a directory. A long file has
// many more, which it does not decode.
func eachEnd(dir string, visit func(trinity.Record)) error {
	f, size, err := durable.OpenWithin(dir, rundir.Metrics)
	if err != nil {
		return err
	}
	defer f.Close()
	var first, last []byte
	if err := columns.EachLine(f, 0, size, func(line []byte, _ int64) {
		switch {
		case !bytes.Contains(line, []byte(`,"samples":[`)): // metrics are no lists, and texts have escaped quotes
		case first == nil:
			first = bytes.Clone(line)
		default:
			last = append(last[:0], line...)
		}
	}); err != nil {
		return err
	}
	for _, line := range [][]byte{first, last} {
		if line == nil {
			continue
		}
		record, err := monitor.Parse(line)
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(dir, rundir.Metrics), err)
		}
		visit(record)
	}
	return nil
}

// answers returns the sample answers of the first and the last step that has some.
func (s *stage) answers() []answers {
	if n := len(s.samples); n > 2 {
		return []answers{s.samples[0], s.samples[n-1]}
	}
	return s.samples
}

type answers struct {
	Step    int64
	Samples []trinity.Sample
}

// phase is how long a role was busy with something, or waited.
type phase struct {
	Role, Name string
	Seconds    float64
	Share      float64 // percent of the role's time
}

type phaseMetric struct{ role, metric, name string }

// phases are the metrics with the seconds of the parts of a step, by role, and what a part is.
var phases = []phaseMetric{
	{trinity.RoleExplorer, "time/explorer_sync_interval", "waits for weights"},
	{trinity.RoleExplorer, "time/explore_step", "rollouts"},
	{trinity.RoleExplorer, "time/experience_pipeline/total", "operators and advantage"},
	{trinity.RoleExplorer, "time/eval", "evaluation"},
	{trinity.RoleTrainer, "time/read_experience", "waits for experiences"},
	{trinity.RoleTrainer, "time/train_step", "training"},
	{trinity.RoleTrainer, "time/sync_weight", "publishes weights"},
	{trinity.RoleTrainer, "time/eval", "evaluation"},
}

// times returns the seconds of each phase that occurred.
func (s *stage) times() []phase {
	var out []phase
	total := map[string]float64{}
	for _, p := range phases {
		seconds := 0.0
		for _, r := range s.values(p.metric) {
			if r.role == p.role && !math.IsNaN(r.value) {
				seconds += r.value
			}
		}
		if total[p.role] += seconds; seconds > 0 {
			out = append(out, phase{Role: p.role, Name: p.name, Seconds: seconds})
		}
	}
	for i := range out {
		out[i].Share = 100 * out[i].Seconds / total[out[i].Role]
	}
	return out
}
