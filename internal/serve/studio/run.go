package studio

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
)

// Run is a run in the list. Times are ms since 1970.
type Run struct {
	ID          string  `json:"id"`
	Stage       string  `json:"stage"`
	Project     string  `json:"project"`
	Group       string  `json:"group"`
	Name        string  `json:"name"`
	State       State   `json:"state"`
	Waiting     string  `json:"waiting"`   // for whom
	Error       string  `json:"error"`     // that it failed with
	Algorithm   string  `json:"algorithm"` // its type, and the parts that replace those of the type
	Mode        string  `json:"mode"`
	Model       string  `json:"model"`
	Step        int64   `json:"step"`
	TotalSteps  int64   `json:"total_steps"`
	Reward      *Number `json:"reward"`
	RewardName  string  `json:"reward_name"` // the metric that it is
	Spark       Numbers `json:"spark"`
	Began       int64   `json:"began"`
	Updated     int64   `json:"updated"`
	SecondsLeft *Number `json:"seconds_left"`
	Traced      bool    `json:"traced"`

	Placed

	Evaluation *Evaluation `json:"evaluation"` // null without one
	Tasksets   int         `json:"tasksets"`   // that the run evaluates
	Weights    *Weights    `json:"weights"`    // null without a checkpoint
	Warnings   []string    `json:"warnings"`   // the newest lines with which it warned
}

// Number is a number that JSON may not have: those are words, as in metrics.jsonl.
type Number = rundir.Number

// Numbers are numbers that JSON may not have.
type Numbers []float64

// MarshalJSON implements [json.Marshaler].
func (n Numbers) MarshalJSON() ([]byte, error) {
	all := make([]Number, len(n))
	for i, v := range n {
		all[i] = Number(v)
	}
	return json.Marshal(all)
}

// answer answers with all runs, or with a run and its stages, the newest first.
func (s *runs) answer(r *http.Request) (any, error) {
	runs, damaged, err := s.list(r.URL.Query().Get("below"))
	return map[string]any{"runs": list(runs), "damaged": list(damaged)}, err
}

// list returns all runs, or a run and its stages, the newest first, and lines about what cannot be read.
func (s *runs) list(below string) (runs []*Run, damaged []string, err error) {
	root, err := s.root()
	if err != nil {
		return nil, nil, fmt.Errorf("%w: give the directory of the runs with --dir", err)
	}
	ids, damaged := s.finder.find(root)
	s.forget(root, ids)
	if below != "" {
		ids = slices.DeleteFunc(ids, func(id string) bool { return id != below && !strings.HasPrefix(id, below+"/") })
	}
	lines := make([][]string, len(ids))
	runs = make([]*Run, len(ids))
	var reading sync.WaitGroup
	next := make(chan int)
	for range min(len(ids), runtime.GOMAXPROCS(0)) {
		reading.Go(func() {
			for i := range next {
				runs[i], lines[i] = s.at(dirIn(root, ids[i]), ids[i]).summary()
			}
		})
	}
	for i := range ids {
		next <- i
	}
	close(next)
	reading.Wait()
	runs = slices.DeleteFunc(runs, func(r *Run) bool { return r == nil }) // gone meanwhile
	s.name(root, runs)
	slices.SortStableFunc(runs, func(a, b *Run) int { return cmp.Or(cmp.Compare(b.Updated, a.Updated), strings.Compare(a.ID, b.ID)) })
	return runs, append(damaged, slices.Concat(lines...)...), nil
}

// details answers with a run and its settings.
func details(_ *http.Request, f *runFiles) (any, error) {
	run, damaged := f.summary()
	if run == nil {
		return nil, notFound{fmt.Errorf("the run %q is gone", f.id)}
	}
	set, _ := f.settings() // summary tells an error
	return struct {
		*Run
		Config   string         `json:"config"`
		Settings map[string]any `json:"settings"`
		Damaged  []string       `json:"damaged"`
	}{run, set.text, set.flat, list(damaged)}, nil
}

// summary returns what the list tells of a run, and lines about what cannot be read; nil if the run is
// gone. Of files that it has read before it reads what is new.
func (f *runFiles) summary() (*Run, []string) {
	dir := f.dir
	if !exists(dir) {
		return nil, nil
	}
	var damaged []string
	note := func(err error) {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			damaged = append(damaged, err.Error())
		}
	}
	run := &Run{ID: f.id, Traced: exists(filepath.Join(dir, rundir.Traces)), Spark: Numbers{}, Placed: Placed{Sets: []Set{}}}
	set, err := f.settings()
	note(err)
	run.Project, run.Group, run.Name = set.value("project"), set.value("group"), filepath.Base(dir)
	run.Algorithm, run.Mode, run.Model = set.algorithm(), set.value("mode"), set.value("model.model_path")
	run.Tasksets = set.tasksets()
	parts, pace := map[string]rundir.Part{}, 0.0
	var began, wrote, touched time.Time // wrote is what the files tell, and touched when they changed, as those of a copy all did
	described := false
	monitors := rundir.Monitors(dir)
	for _, d := range monitors {
		about, err := rundir.ReadAbout(d)
		note(err)
		if err == nil {
			described = true
			run.Project, run.Group, run.Name = about.Project, about.Group, about.Name
			run.TotalSteps = max(run.TotalSteps, about.TotalSteps)
			maps.Copy(parts, about.Parts)
			began, touched = earlier(began, about.Began), later(touched, modified(filepath.Join(d, rundir.AboutFile)))
			for _, part := range about.Parts {
				wrote = later(wrote, part.Time)
			}
		}
		t, err := f.tail(d, parts[trinity.RoleTrainer].Starts)
		note(err)
		if err == nil {
			wrote, touched = later(wrote, time.UnixMilli(t.last)), later(touched, time.Unix(0, t.modified))
			if t.first > 0 {
				began = earlier(began, time.UnixMilli(t.first))
			}
			pace = max(pace, t.pace)
			run.add(t)
		}
	}
	run.nameStage(dir, set, described)
	note(f.placed(run))
	run.Evaluation = f.evaluation(monitors)
	run.Weights, err = f.weights(run.Evaluation)
	note(err)
	warnings, err := f.warnings(monitors)
	note(err)
	run.Warnings = list(warnings)
	touched = later(touched, modified(filepath.Join(dir, rundir.Traces)))
	complete := run.TotalSteps > 0 && run.Step >= run.TotalSteps
	state, line := stateOf(dir, parts, touched, complete)
	if run.State = state; state == Waiting {
		run.Waiting = line
	} else {
		run.Error = line
	}
	lives := state == Running || state == Waiting
	if wrote = later(wrote, began); lives || !wrote.After(time.UnixMilli(0)) {
		wrote = touched
	}
	run.Began, run.Updated = millis(began), millis(wrote)
	if lives && pace > 0 && run.TotalSteps > 0 {
		left := Number(max(0, pace*float64(run.TotalSteps-run.Step)/1000))
		run.SecondsLeft = &left
	}
	return run, damaged
}

// add adds what a metrics.jsonl tells. The trainer's step counts, and of rewards the one of the best
// rank.
func (r *Run) add(t *tail) {
	r.Step = max(r.Step, t.step())
	if t.reward == "" || r.RewardName != "" && rank(r.RewardName) <= rank(t.reward) {
		return
	}
	r.RewardName, r.Spark = t.reward, t.spark
	if n := len(t.spark); n > 0 {
		value := Number(t.spark[n-1])
		r.Reward = &value
	}
}

// nameStage takes the name of a stage from that of the run, "run/stage". A run of an earlier version
// has no name of its own in its settings if it is a stage.
func (r *Run) nameStage(dir string, set *settings, described bool) {
	if name, stage, ok := strings.Cut(r.Name, "/"); ok {
		r.Name, r.Stage = name, stage
	} else if !described && set.flat["name"] == nil && len(set.flat) > 0 && r.Name != defaults()["name"] {
		r.Name, r.Stage = filepath.Base(filepath.Dir(dir)), r.Name
	}
}

func modified(path string) time.Time {
	info, err := os.Lstat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// earlier returns the earlier of two times, or b if a is unknown (zero).
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
