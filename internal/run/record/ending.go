package record

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/report"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/monitor"
)

// End is how a stage ended; "" while nothing has told.
type End monitor.Status

// EndOf returns how a stage ended that returned err.
func EndOf(err error, stop context.Context) End {
	switch {
	case err == nil:
		return End(monitor.Finished)
	case stop.Err() != nil && errors.Is(err, context.Cause(stop)):
		return End(monitor.Stopped)
	}
	return End(monitor.Failed)
}

// Keep notes beside the metrics how this process ended, for those who watch the run. The run does
// not fail if it cannot.
func (e End) Keep(cfg *config.Settled, err error, stop context.Context, say func(string)) {
	if e == "" {
		e = EndOf(err, stop)
	}
	var kept error
	if status := monitor.Status(e); err != nil && status != monitor.Stopped {
		kept = noteFailure(cfg, err)
	} else {
		kept = monitor.KeepEnd(cfg.Monitor.CacheDir, Parts(cfg), status, "")
	}
	if kept != nil {
		say(fmt.Sprintf("how the run ended is not kept: %v", kept))
	}
}

// noteFailure notes the line with which a stage failed. It describes a stage that never opened its monitors.
func noteFailure(cfg *config.Settled, why error) error {
	run, err := monitored(cfg)
	if err != nil || len(run.Parts) == 0 {
		return err
	}
	if _, err := os.Stat(filepath.Join(run.Dir, rundir.AboutFile)); err != nil {
		if err := keepSettings(cfg); err != nil {
			return err
		}
	}
	line, _, _ := strings.Cut(ScrubOf(&cfg.Config)(WithAdvice(why).Error()), "\n")
	return monitor.KeepFailure(run, line)
}

// KeepFailure notes that a run failed before its first unfinished stage could begin. It notes nothing where
// another run lies, and while another process does the run. A run that never had a directory gets none: what
// is refused before it begins writes nothing.
func KeepFailure(stages []*config.Settled, why error, say func(string)) {
	for _, stage := range stages {
		dir := stage.CheckpointJobDir
		if len(Parts(stage)) == 0 || Present(filepath.Join(dir, rundir.StageDone)) {
			continue
		}
		if mustMove(&stage.Config) || !Present(dir) {
			return
		}
		OwnDirs(stage)
		unlock, err := LockDir(dir, Parts(stage))
		if err != nil {
			return
		}
		defer unlock()
		if err := noteFailure(stage, why); err != nil {
			say(fmt.Sprintf("how the run failed is not kept: %v", err))
		}
		return
	}
}

// neverBegan reports whether a directory has only what runs left that failed before they began, so that
// another run may begin there.
func neverBegan(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	failed := false
	for _, e := range entries {
		switch {
		case strings.HasPrefix(e.Name(), "."): // locks, and who held them
		case e.Name() == rundir.Monitor && describesFailure(dir), e.IsDir() && neverBegan(filepath.Join(dir, e.Name())): // of a stage
			failed = true
		default:
			return false
		}
	}
	return failed
}

// describesFailure reports whether the monitors of a run have nothing but the description of one that failed,
// and no process does the run.
func describesFailure(dir string) bool {
	home := filepath.Join(dir, rundir.Monitor)
	entries, err := os.ReadDir(home)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if e.IsDir() || !strings.HasPrefix(e.Name(), ".") && !slices.Contains([]string{rundir.AboutFile, rundir.SettingsFile}, e.Name()) {
			return false
		}
	}
	about, err := rundir.ReadAbout(home)
	if err != nil {
		return false
	}
	for _, part := range about.Parts {
		if part.Status != monitor.Failed {
			return false
		}
	}
	held, err := rundir.IsHeld(dir, about.Parts)
	return !held && err == nil
}

// keepSettings writes the settings that differ from the defaults, for the report. Explorer and
// trainer in two processes may write at the same time.
func keepSettings(cfg *config.Settled) error {
	text, err := cfg.Differences()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cfg.Monitor.CacheDir, 0o755); err != nil {
		return err
	}
	release, err := durable.Acquire(context.Background(), filepath.Join(cfg.Monitor.CacheDir, ".config.lock"))
	if err != nil {
		return err
	}
	defer release()
	return durable.WriteFile(filepath.Join(cfg.Monitor.CacheDir, rundir.SettingsFile), []byte(text))
}

// Report writes the report of the run in dir, if the run has made a step, and returns its path. A run does not fail
// because of its report.
func Report(dir string, say func(string)) string {
	path := filepath.Join(dir, report.File)
	page, err := report.Read(dir)
	if err == nil {
		err = page.WriteFile(path)
	}
	switch {
	case err == nil:
		return path
	case !errors.Is(err, report.ErrNoRecords) && !errors.Is(err, fs.ErrNotExist):
		say("no report: " + err.Error())
	}
	return ""
}

// StageSummary says what a stage did. The closing table shows it.
type StageSummary struct {
	Name       string    `json:"name"`
	Mode       string    `json:"mode"`
	Algorithm  string    `json:"algorithm"`
	Steps      int64     `json:"steps"`   // train steps; without a trainer, explore steps
	Rewards    []float64 `json:"rewards"` // mean reward of each explored step
	Losses     []float64 `json:"losses"`  // of each train step
	Sampled    float64   `json:"rollout_tokens_per_second"`
	Trained    float64   `json:"train_tokens_per_second"`
	Evals      []Eval    `json:"evaluations"`
	Checkpoint string    `json:"checkpoint"` // directory of the newest one
	Model      string    `json:"model"`      // directory that `trinity chat` opens; "" if the stage wrote none
	Skipped    bool      `json:"skipped"`    // it was already complete

	Best *rundir.Best `json:"best,omitempty"` // of trainer.keep_best; Model is then its model

	Made checkpoint.Provenance `json:"-"` // with what a run has made it

	rollout, train rate
	records        int // added
}

// Eval is one evaluation of one taskset metric.
type Eval struct {
	Step  int64   `json:"step"`
	Name  string  `json:"name"` // of monitor.Evaluations, e.g. eval/held_out/accuracy/mean@1
	Value float64 `json:"value"`
}

// rate counts tokens and the seconds that they took.
type rate struct{ tokens, seconds float64 }

func (r rate) perSecond() float64 {
	if r.seconds == 0 {
		return 0
	}
	return r.tokens / r.seconds
}

// The metrics that a summary reads.
const (
	meanReward  = "rollout/reward/mean"
	finalLoss   = "actor/final_loss"
	exploreTime = "time/explore_step"
	sampleRate  = "rollout/tokens_per_second"
	trainTime   = "time/train_step"
	trainRate   = "perf/throughput"
)

// add counts a record.
func (s *StageSummary) add(r trinity.Record) {
	m := r.Metrics
	s.records++
	if v, ok := m[meanReward]; ok {
		s.Rewards = append(s.Rewards, v)
	}
	if v, ok := m[finalLoss]; ok {
		s.Losses = append(s.Losses, v)
	}
	if t, ok := m[exploreTime]; ok {
		s.rollout.tokens += m[sampleRate] * t
		s.rollout.seconds += t
	}
	if t, ok := m[trainTime]; ok {
		s.train.tokens += m[trainRate] * t
		s.train.seconds += t
	}
	for _, name := range monitor.Evaluations(m) {
		s.Evals = append(s.Evals, Eval{Step: r.Step, Name: name, Value: m[name]})
	}
	s.Steps = max(s.Steps, r.Step)
	s.Sampled, s.Trained = s.rollout.perSecond(), s.train.perSecond()
}

// isSummed reports whether add reads a metric, beside evaluations.
func isSummed(name string) bool {
	return slices.Contains([]string{meanReward, finalLoss, exploreTime, sampleRate, trainTime, trainRate}, name) ||
		len(monitor.Evaluations(trinity.Metrics{name: 0})) > 0
}

// Recall replaces what the records of this process tell by what those of the whole run tell, so that the
// table of a resumed run begins where the run began. Of a long run it reads nothing else.
func (s *StageSummary) Recall(dir string) error {
	t, err := rundir.ReadTable(dir, isSummed)
	if len(t.Steps) == 0 {
		return err
	}
	steps := s.Steps // of the trainer, which an explorer's records may pass
	s.Rewards, s.Losses, s.Evals, s.rollout, s.train = nil, nil, nil, rate{}, rate{}
	for r := range t.Records() {
		s.add(r)
	}
	if steps > 0 {
		s.Steps = steps
	}
	return err
}

// Ends returns the means of the first and the last tenth of the values. A tenth is at least one
// value and at most ten.
func Ends(v []float64) (head, tail float64) {
	if len(v) == 0 {
		return math.NaN(), math.NaN()
	}
	n := min(10, max(1, len(v)/10))
	for i := range n {
		head += v[i] / float64(n)
		tail += v[len(v)-1-i] / float64(n)
	}
	return head, tail
}

// WithAdvice adds to the error of a disk what users can do about it. They need not repair anything
// in the run's directory.
func WithAdvice(err error) error {
	const again = "and start the same command again: it resumes from the last checkpoint"
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w; make room %s", err, again)
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; let this user write there %s", err, again)
	case errors.Is(err, syscall.EIO):
		return fmt.Errorf("%w; the disk is broken or disconnected: repair it, or move the directory to another disk, %s", err, again)
	}
	return err
}
