// Package sweep runs a configuration with many settings, each a run of its own in a process of its
// own, and says which is best.
package sweep

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/report"
	"github.com/trinity-go/trinity/internal/rundir"
)

// Ways to search.
const (
	Grid    = "grid"    // all combinations
	Random  = "random"  // combinations that the configuration's seed draws
	Halving = "halving" // all combinations for a few steps; of each rung the best go on
)

// Options describe a sweep.
type Options struct {
	// Load loads the configuration with settings, key=value.
	Load func(settings []string) (*config.Config, error)
	// Command has the arguments of this binary that run the configuration; settings follow.
	Command []string

	Settings []string // of every trial
	Varied   []Varied
	Seeds    int    // of each trial
	Search   string // Grid, Random or Halving
	Metric   string // that says which trial is best; "" is the first evaluation, or else the reward
	MaxRuns  int    // at most; 0 is no bound
	Parallel int    // runs at once
	Eta      int    // Halving keeps one trial of so many, and gives it so many times the steps

	Say func(line string)
}

// Result is what a sweep leaves.
type Result struct {
	Dirs   []string // of the runs
	Metric string   // by which trials are compared
	Failed int      // runs
}

// sweep is a sweep under way.
type sweep struct {
	Options
	base   *config.Config
	trials []*trial
	dirs   map[string]bool // of the runs
	metric string

	measured sync.Once // the first run that ended had the metric
	watched  sync.Once // the first run that began is watched for the metric
}

// trial is one combination of settings, a run for each seed.
type trial struct {
	words string // the settings, for people
	runs  []*oneRun
}

// oneRun is a run of a trial.
type oneRun struct {
	name, dir string
	last      *config.Settled // stage
	settings  []string
	failed    string // why it failed; "" if it did not
}

func (t *trial) failed() bool {
	return slices.ContainsFunc(t.runs, func(r *oneRun) bool { return r.failed != "" })
}

// Run runs a sweep. When ctx ends, the runs that are under way end with a checkpoint; the same sweep
// then goes on where it stopped. The error of a single run is in the result alone.
func Run(ctx context.Context, o Options) (*Result, error) {
	s := &sweep{Options: o, metric: o.Metric, dirs: map[string]bool{}}
	if err := s.plan(); err != nil {
		return nil, err
	}
	var err error
	if o.Search == Halving {
		err = s.halve(ctx)
	} else if err = s.runAll(ctx, s.trials, nil); err == nil {
		err = s.chooseMetric(s.trials)
	}
	out := &Result{Metric: s.metric}
	for _, t := range s.trials {
		for _, r := range t.runs {
			if r.failed != "" {
				out.Failed++
			}
			out.Dirs = append(out.Dirs, r.dir)
		}
	}
	return out, err
}

// plan makes the trials, and checks the configuration of each.
func (s *sweep) plan() (err error) {
	s.Settings = append(slices.Clone(s.Settings), "continue_from_checkpoint=true")
	if s.base, err = s.Load(s.Settings); err != nil {
		return err
	}
	if s.base.Mode == "explore" || s.base.Mode == "serve" {
		return fmt.Errorf("mode %s: a sweep runs trainings, which are modes both, colocate and train, or evaluations, mode bench", s.base.Mode)
	}
	most := math.MaxInt
	if s.MaxRuns > 0 {
		if most = s.MaxRuns / s.Seeds; most == 0 {
			return fmt.Errorf("--max-runs %d is less than one trial of %d seeds", s.MaxRuns, s.Seeds)
		}
	}
	var points [][]string
	if s.Search == Random {
		if s.MaxRuns == 0 {
			return errors.New("--search random: give --max-runs, the number of runs")
		}
		points = draw(s.Varied, most, uint64(s.base.Seed))
	} else if points, err = grid(s.Varied); err != nil {
		return err
	}
	if len(points) > most {
		return fmt.Errorf("%d trials with %d seeds are %d runs, and --max-runs is %d: use --search random, or shorter lists",
			len(points), s.Seeds, len(points)*s.Seeds, s.MaxRuns)
	}
	for i, name := range names(s.Varied, points) {
		if err := s.addTrial(name, points[i]); err != nil {
			return err
		}
	}
	return nil
}

// addTrial adds a trial with a run for each seed, from that of the configuration on.
func (s *sweep) addTrial(name string, point []string) error {
	t := &trial{}
	settings := slices.Clone(s.Settings)
	var words []string
	for i, value := range point {
		words = append(words, s.Varied[i].Key+"="+value)
	}
	t.words = strings.Join(words, " ")
	settings = append(settings, words...)
	for i := range s.Seeds {
		seed := s.base.Seed + i
		r := &oneRun{name: fmt.Sprintf("%s_%s_seed%d", s.base.Name, name, seed)}
		if point == nil {
			r.name = fmt.Sprintf("%s_seed%d", s.base.Name, seed)
		}
		r.settings = append(slices.Clone(settings), fmt.Sprintf("seed=%d", seed), fmt.Sprintf("name=%q", r.name))
		cfg, err := s.Load(r.settings)
		if err != nil {
			return fmt.Errorf("trial %s: %w", t.words, err)
		}
		r.dir, r.last = cfg.CheckpointJobDir, cfg.Settled()[len(cfg.Settled())-1]
		if s.dirs[r.dir] {
			return fmt.Errorf("trial %s: another trial has its directory %s: write the values otherwise", t.words, r.dir)
		}
		s.dirs[r.dir] = true
		if err := checkSettings(r.dir, cfg); err != nil {
			return err
		}
		t.runs = append(t.runs, r)
	}
	s.trials = append(s.trials, t)
	return nil
}

// runAll runs trials to their ends, with settings besides their own. It returns an error only if ctx
// has ended, or if the first run that ends lacks the metric that the options name: the others then stop.
func (s *sweep) runAll(ctx context.Context, trials []*trial, more []string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan *oneRun)
	var workers sync.WaitGroup
	for range s.Parallel {
		workers.Go(func() {
			for r := range queue {
				s.watched.Do(func() { go s.watch(ctx, r) })
				s.run(ctx, r, more)
				if ctx.Err() == nil && r.failed == "" && s.Metric != "" {
					s.measured.Do(func() {
						if _, err := report.Compare(s.Metric, r.dir); err != nil {
							cancel(fmt.Errorf("--metric: %w", err))
						}
					})
				}
			}
		})
	}
	for _, t := range trials {
		for _, r := range t.runs {
			queue <- r
		}
	}
	close(queue)
	workers.Wait()
	return context.Cause(ctx)
}

// watch says if the first records of a run lack the metric that the options name. They do not prove that it never
// comes, so the run goes on to its end.
func (s *sweep) watch(ctx context.Context, r *oneRun) {
	const often = time.Second
	for s.Metric != "" {
		t, err := rundir.ReadTable(r.last.Monitor.CacheDir, nil)
		if err != nil {
			return
		}
		if slices.Contains(t.Names, s.Metric) {
			return
		}
		if isMeasured(&t, s.Metric, r.last.Mode) {
			s.Say(fmt.Sprintf("WARNING: --metric: %s has logged its first steps without %q: the names are those of %s",
				r.name, s.Metric, filepath.Join(r.last.Monitor.CacheDir, rundir.MetricsFile)))
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(often):
		}
	}
}

// isMeasured reports whether every role of a stage has logged a step; for a metric of an evaluation, whether it
// has logged one.
func isMeasured(t *rundir.Table, metric, mode string) bool {
	if evaluation := "eval/"; strings.HasPrefix(metric, evaluation) {
		return slices.ContainsFunc(t.Names, func(name string) bool { return strings.HasPrefix(name, evaluation) })
	}
	roles := map[string]bool{}
	for i, step := range t.Steps {
		roles[t.Role(i)] = roles[t.Role(i)] || step > 0
	}
	return (roles[trinity.RoleTrainer] || mode == "bench") && (roles[trinity.RoleExplorer] || mode == "train")
}

// run runs one run, unless it has finished or ctx has ended.
func (s *sweep) run(ctx context.Context, r *oneRun, more []string) {
	if ctx.Err() != nil {
		return
	}
	began, err := s.start(ctx, r, append(slices.Clone(r.settings), more...))
	switch {
	case ctx.Err() != nil:
		s.Say(r.name + ": stopped")
	case err != nil:
		r.failed = err.Error()
		s.Say(fmt.Sprintf("%s: failed: %v", r.name, err))
	case began:
		s.Say(r.name + ": finished")
	}
}

// halve runs the trials by successive halving: all of them for a few steps; then, of each rung, the
// best 1/Eta for Eta times as many steps. What it decides depends on the metrics of the runs alone.
func (s *sweep) halve(ctx context.Context) error {
	rungs, err := s.rungs()
	if err != nil {
		return err
	}
	left := slices.Clone(s.trials)
	for i, steps := range rungs {
		more := []string{fmt.Sprintf("buffer.total_steps=%d", steps)}
		if s.base.Trainer.TotalSteps != nil {
			more = append(more, fmt.Sprintf("trainer.total_steps=%d", steps))
		}
		if err := s.runAll(ctx, left, more); err != nil {
			return err
		}
		left = slices.DeleteFunc(left, (*trial).failed)
		if err := s.chooseMetric(left); err != nil || len(left) == 0 {
			return err
		}
		if left, err = s.ranked(left, steps); err != nil {
			return err
		}
		line := fmt.Sprintf("rung %d of %d, %d steps: best of %d is %s", i+1, len(rungs), steps, len(left), left[0].words)
		if i+1 < len(rungs) {
			left = left[:max(1, len(left)/s.Eta)]
			line += fmt.Sprintf("; the next rung has the best %d", len(left))
		}
		s.Say(line)
	}
	return nil
}

// rungs returns the steps of each rung. The last one has those of the configuration.
func (s *sweep) rungs() (steps []int, err error) {
	total := s.base.Buffer.TotalSteps
	varied := slices.ContainsFunc(s.Varied, func(v Varied) bool { return strings.HasSuffix(v.Key, ".total_steps") })
	switch scheduler := s.base.Algorithm.Optimizer.LRSchedulerType; {
	case len(s.base.Stages) > 0:
		return nil, errors.New("--search halving extends runs of one stage: sweep the stages one after the other")
	case varied:
		return nil, errors.New("--search halving sets the number of steps itself: give total_steps one value")
	case total == nil:
		return nil, errors.New("--search halving divides buffer.total_steps: set it")
	case scheduler != "constant":
		return nil, fmt.Errorf("--search halving extends runs, and algorithm.optimizer.lr_scheduler_type %s depends on their number of steps: "+
			"set constant", scheduler)
	}
	steps = []int{*total}
	for n := len(s.trials) / s.Eta; n > 0 || len(steps) == 1 && len(s.trials) > 1; n /= s.Eta {
		steps = append(steps, steps[len(steps)-1]/s.Eta)
	}
	slices.Reverse(steps)
	if steps[0] == 0 {
		return nil, fmt.Errorf("--search halving: buffer.total_steps %d is too few for %d rungs, each with 1/%d of the steps of the next",
			*total, len(steps), s.Eta)
	}
	return steps, nil
}

// ranked returns trials by the mean of the metric up to a step, best first.
func (s *sweep) ranked(trials []*trial, steps int) ([]*trial, error) {
	score := map[*trial]float64{}
	for _, t := range trials {
		for _, r := range t.runs {
			v, ok, err := report.Final(r.dir, s.metric, int64(steps))
			if err != nil {
				return nil, err
			}
			if !ok {
				return nil, fmt.Errorf("%s has no %s up to step %d: name a --metric that every rung measures, such as rollout/reward/mean",
					r.name, s.metric, steps)
			}
			score[t] += v / float64(len(t.runs))
		}
	}
	out := slices.Clone(trials)
	slices.SortStableFunc(out, func(a, b *trial) int {
		switch {
		case report.Better(s.metric, score[a], score[b]):
			return -1
		case report.Better(s.metric, score[b], score[a]):
			return 1
		}
		return 0
	})
	return out, nil
}

// chooseMetric chooses the metric, unless the options name it, from the first trial that did not fail.
func (s *sweep) chooseMetric(trials []*trial) (err error) {
	if i := slices.IndexFunc(trials, func(t *trial) bool { return !t.failed() }); i >= 0 && s.metric == "" {
		s.metric, err = report.MainMetric(trials[i].runs[0].dir)
	}
	return err
}
