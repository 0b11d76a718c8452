// Package report writes a page about one or several runs: curves, a table, answers, times and the
// configuration. The page is one HTML file without scripts.
package report

import (
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

	"go.yaml.in/yaml/v4"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/config"
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
	run      string           // the run's name when it was recorded
	records  []trinity.Record // in order of time
	config   string           // YAML of the settings that differ from the defaults; "" if unknown
	settings map[string]any   // the same by dotted key
	failed   string           // the line with which its newest process failed; "" if it did not
}

// ErrNoRecords is the error for a directory whose run has not made a step.
var ErrNoRecords = errors.New("no records")

// read reads a run from its directory. Each of several explorers has a metrics.jsonl of its own.
func read(dir string) (*run, error) {
	dir = filepath.Clean(dir)
	root, files, err := monitor.Files(dir)
	if err != nil {
		return nil, err
	}
	stages := map[string]*stage{}
	for _, path := range files {
		inside, err := filepath.Rel(root, path)
		if err != nil {
			return nil, err
		}
		name := stageOf(strings.Split(filepath.ToSlash(inside), "/"))
		records, err := monitor.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if stages[name] == nil {
			stages[name] = &stage{name: name, run: filepath.Base(dir)}
		}
		s := stages[name]
		about, err := monitor.ReadAbout(filepath.Dir(path))
		if err == nil { // else it is of an earlier version, or damaged
			own, _, _ := strings.Cut(about.Name, "/") // of the run, without its stage
			s.run = cmp.Or(own, s.run)
		}
		s.records = append(s.records, records...)
		s.failed = cmp.Or(s.failed, failure(about))
		settings, err := os.ReadFile(filepath.Join(filepath.Dir(path), monitor.ConfigFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		s.config = cmp.Or(s.config, string(settings))
	}
	r := &run{Name: filepath.Base(dir), dir: dir}
	for _, s := range stages {
		if len(s.records) == 0 {
			continue
		}
		var tree map[string]any
		if err := yaml.Unmarshal([]byte(s.config), &tree); err != nil {
			return nil, fmt.Errorf("run %s: %s: %w", r.Name, monitor.ConfigFile, err)
		}
		if tree != nil {
			s.settings = config.Flatten(tree)
		}
		slices.SortStableFunc(s.records, func(a, b trinity.Record) int { return a.Time.Compare(b.Time) })
		r.stages = append(r.stages, *s)
	}
	if len(r.stages) == 0 {
		return nil, fmt.Errorf("%s: %w in a %s: is it the directory of a run with the jsonl monitor?", dir, ErrNoRecords, monitor.File)
	}
	slices.SortFunc(r.stages, func(a, b stage) int {
		return cmp.Or(a.records[0].Time.Compare(b.records[0].Time), strings.Compare(a.name, b.name))
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
		if part == "monitor" {
			return strings.Join(path[:i], "/")
		}
	}
	return strings.Join(path, "/")
}

// points returns the values of a metric, in order of steps. Of several values of a step, which
// several explorers give, it returns the mean.
func (s *stage) points(metric string) []point {
	values := map[int64][]float64{}
	for _, r := range s.records {
		if v, ok := r.Metrics[metric]; ok && !math.IsNaN(v) && !math.IsInf(v, 0) {
			values[r.Step] = append(values[r.Step], v)
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
	for _, r := range slices.Backward(s.records) {
		if v, ok := r.Metrics[metric]; ok {
			return math.IsNaN(v) || math.IsInf(v, 0)
		}
	}
	return false
}

// evaluations returns the names of the evaluated metrics, except lengths and times.
func (s *stage) evaluations() []string {
	names := map[string]bool{}
	for _, r := range s.records {
		for _, name := range monitor.Evaluations(r.Metrics) {
			if !strings.Contains(name, "length") && !strings.Contains(name, "/time/") {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// answers returns the sample answers of the first and the last step that has some.
func (s *stage) answers() (out []answers) {
	for _, r := range s.records {
		if len(r.Samples) == 0 {
			continue
		}
		if len(out) < 2 {
			out = append(out, answers{})
		}
		out[len(out)-1] = answers{r.Step, r.Samples}
	}
	return out
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

// phases are the metrics with the seconds of the parts of a step, by role, and what a part is.
var phases = []struct{ role, metric, name string }{
	{"explorer", "time/explorer_sync_interval", "waits for weights"},
	{"explorer", "time/explore_step", "rollouts"},
	{"explorer", "time/experience_pipeline/total", "operators and advantage"},
	{"explorer", "time/eval", "evaluation"},
	{"trainer", "time/read_experience", "waits for experiences"},
	{"trainer", "time/train_step", "training"},
	{"trainer", "time/sync_weight", "publishes weights"},
	{"trainer", "time/eval", "evaluation"},
}

// times returns the seconds of each phase that occurred.
func (s *stage) times() []phase {
	var out []phase
	total := map[string]float64{}
	for _, p := range phases {
		seconds := 0.0
		for _, r := range s.records {
			if v := r.Metrics[p.metric]; r.Role == p.role && !math.IsNaN(v) {
				seconds += v
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
