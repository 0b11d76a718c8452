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
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/monitor"
)

// run is what a run's directory tells of it.
type run struct {
	Name   string
	dir    string
	sweep  rundir.Sweep // of which it is; zero for a run of none
	stages []stage      // in order of their first record
}

// stage is a stage of a run. A run without stages has one, whose name is "".
type stage struct {
	name     string
	dir      string
	run      string         // the run's name when it was recorded
	homes    []string       // its monitor directories; each of several explorers has one
	files    []rundir.Table // of those
	until    int64          // the last step that counts
	samples  []answers      // in order of time; only of a page
	config   string         // YAML of the settings that differ from the defaults; "" if unknown
	settings map[string]any // the same by dotted key
	failed   string         // the line with which its newest process failed; "" if it did not
}

// ErrNoRecords is the error for a directory whose run has not made a step.
var ErrNoRecords = errors.New("no records")

// Reader returns what the metrics.jsonl in a directory has, with the values of the metrics that are
// wanted. A line that is no record is an error.
type Reader func(dir string, wanted func(name string) bool) (rundir.Table, error)

// read reads a run from its directory. Each of several explorers has a metrics.jsonl of its own.
func read(dir string, from Reader, wanted func(name string) bool) (*run, error) {
	dir = filepath.Clean(dir)
	found, err := rundir.Open(dir)
	if err != nil {
		return nil, err
	}
	sweep, err := rundir.ReadSweep(found.Dir)
	if err != nil {
		return nil, err
	}
	r := &run{Name: filepath.Base(dir), dir: dir, sweep: sweep}
	runs := map[string]string{}
	for _, of := range found.Stages {
		s := stage{name: of.Name, dir: of.Dir, run: r.Name, homes: of.Monitors, until: math.MaxInt64}
		for _, home := range s.homes {
			about, err := s.read(home, from, wanted)
			if err != nil {
				return nil, err
			}
			if own, name, _ := strings.Cut(about.Name, "/"); own != "" { // the name of the run, and of its stage
				s.run = own
				runs[own] = filepath.Join(found.Dir, strings.TrimSuffix(s.name, name))
			}
		}
		if len(s.files) > 0 {
			r.stages = append(r.stages, s)
		}
	}
	if len(runs) > 1 { // one page would take the runs for stages of one
		return nil, fmt.Errorf("%s has %d runs below it: give the directories of the runs, such as %s", dir, len(runs),
			slices.Min(slices.Collect(maps.Values(runs))))
	}
	if len(r.stages) == 0 {
		return nil, fmt.Errorf("%s: %w in a %s: is it the directory of a run that has begun?", dir, ErrNoRecords, rundir.MetricsFile)
	}
	for i := range r.stages {
		s := &r.stages[i]
		var tree map[string]any
		if err := yaml.Unmarshal([]byte(s.config), &tree); err != nil {
			return nil, fmt.Errorf("run %s: %s: %w", r.Name, rundir.SettingsFile, err)
		}
		if tree != nil {
			s.settings = config.Flatten(tree)
		}
	}
	slices.SortFunc(r.stages, func(a, b stage) int {
		return cmp.Or(a.began().Compare(b.began()), strings.Compare(a.name, b.name))
	})
	return r, nil
}

// read reads a monitor directory of the stage. about is empty in one of an earlier version, and if it is damaged.
func (s *stage) read(home string, from Reader, wanted func(name string) bool) (about rundir.About, err error) {
	table, err := from(home, wanted)
	if err != nil {
		return about, err
	}
	if len(table.Steps) > 0 {
		s.files = append(s.files, table)
	}
	about, _ = rundir.ReadAbout(home)
	s.failed = cmp.Or(s.failed, failure(about))
	settings, err := rundir.ReadSettings(home)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	s.config = cmp.Or(s.config, string(settings))
	return about, err
}

// failure returns the line with which a part of a run failed; "" if none did.
func failure(about rundir.About) string {
	for _, name := range slices.Sorted(maps.Keys(about.Parts)) {
		if part := about.Parts[name]; part.Status == rundir.Failed {
			return cmp.Or(part.Error, "no reason is known")
		}
	}
	return ""
}

// isShown reports whether a page or a comparison shows a metric, if a run has it.
func isShown(name string) bool {
	return IsEvaluation(name) || name == rundir.EvalVersion || strings.HasPrefix(name, evalPrefix) && strings.HasSuffix(name, "/"+counted) ||
		slices.ContainsFunc(phases, func(p phaseMetric) bool { return p.metric == name }) ||
		slices.ContainsFunc(metrics, func(m shownMetrics) bool { return slices.Contains(m.names, name) })
}

// IsEvaluation reports whether a metric is an evaluation, and no length or time.
func IsEvaluation(name string) bool {
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
func (s *stage) points(metric string) (out []point) {
	var all []rundir.Point
	for _, r := range s.values(metric) {
		if !math.IsNaN(r.value) && !math.IsInf(r.value, 0) {
			all = append(all, rundir.Point{Step: r.step, Value: r.value})
		}
	}
	for _, p := range rundir.ByStep(all) {
		out = append(out, point{float64(p.Step), p.Value})
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

func (s *stage) edge(pick func([]int64) int64) int64 {
	var times []int64
	for _, f := range s.files {
		times = append(times, pick(f.Times))
	}
	return pick(times)
}

// evaluations returns the names of the evaluated metrics, except lengths and times.
func (s *stage) evaluations() []string {
	names := map[string]bool{}
	for _, f := range s.files {
		for _, name := range f.Names {
			if IsEvaluation(name) && slices.ContainsFunc(f.Column(name).Records, func(r uint32) bool { return f.Steps[r] <= s.until }) {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// readSamples reads the sample answers of a run's stages: of each file those of the first and the last record that
// has some.
func (r *run) readSamples() error {
	for i := range r.stages {
		s := &r.stages[i]
		var records []trinity.Record
		for _, home := range s.homes {
			if err := eachEnd(home, func(record trinity.Record) { records = append(records, record) }); err != nil {
				return err
			}
		}
		slices.SortStableFunc(records, func(a, b trinity.Record) int { return a.Time.Compare(b.Time) })
		for _, record := range records {
			s.samples = append(s.samples, answers{record.Step, record.Samples})
		}
	}
	return nil
}

// eachEnd visits the first and the last record with samples of the metrics.jsonl in a directory. A long file has
// many more, which it does not decode.
func eachEnd(dir string, visit func(trinity.Record)) error {
	f, size, err := durable.OpenWithin(dir, rundir.MetricsFile)
	if err != nil {
		return err
	}
	defer f.Close()
	var first, last []byte
	if err := rundir.EachLine(f, 0, size, func(line []byte, _ int64) {
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
		record, err := rundir.Parse(line)
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(dir, rundir.MetricsFile), err)
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
