// Package run wires a configuration into explorer, trainer, buffer and synchronizer, and runs it: modes, stages, checkpoints, resume.
package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity/config"
	"github.com/trinity-go/trinity/internal/database"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/failpoint"
	"github.com/trinity-go/trinity/monitor"
)

// Options are what a run needs besides its configuration.
type Options struct {
	Say func(string) // receives lines for people
	// Join is the URL of the trainer that mode explore rolls out for and mode serve follows; "" is the
	// trainer of the run's directory. User information in the URL is the token; without it,
	// TRINITY_TOKEN holds the token.
	Join string
	// Stage is the only stage to run; "" runs all stages, one after the other.
	Stage string
}

// Summary is what a run did.
type Summary struct {
	Stages []StageSummary `json:"stages"`
}

// Run runs the stages that are not finished yet, or only opts.Stage. The end of stop ends the run after
// the training step in progress, with a checkpoint; the error is then the cause of stop. The end of ctx
// ends the run at once.
func Run(ctx, stop context.Context, cfg *config.Config, opts Options) (*Summary, error) {
	summary, err := runAll(ctx, stop, cfg, opts)
	return summary, advised(err)
}

func runAll(ctx, stop context.Context, cfg *config.Config, opts Options) (*Summary, error) {
	summary := &Summary{}
	if err := failpoint.Check(); err != nil {
		return summary, err
	}
	if err := checkStage(cfg, opts); err != nil {
		return summary, err
	}
	stages, err := settle(ctx, cfg, opts)
	if err != nil {
		return summary, err
	}
	if len(cfg.Stages) == 0 {
		return summary, summary.run(ctx, stop, stages[0], opts)
	}
	return summary, summary.runStages(ctx, stop, cfg, stages, opts)
}

// unusedKeys says which keys are set and change nothing in any of the stages, "" if there is none.
func unusedKeys(stages []*Settled) string {
	const most = 5
	var keys []string
	for _, stage := range stages {
		for _, n := range stage.Unused() {
			if !slices.Contains(keys, n.Key) {
				keys = append(keys, n.Key)
			}
		}
	}
	if len(keys) == 0 {
		return ""
	}
	if more := len(keys) - most; more > 0 {
		keys = append(keys[:most], fmt.Sprintf("%d more", more))
	}
	return "set, but not used: " + strings.Join(keys, ", ") + "; trinity check says why"
}

// settle resolves the stages of a run and refuses one that cannot come to its end: data that is
// nowhere, a model that does not fit, more memory than there is. It downloads what is not on this
// machine.
func settle(ctx context.Context, cfg *config.Config, opts Options) ([]*Settled, error) {
	var stages []*Settled
	for i, c := range cfg.Settled() {
		s, err := Resolve(c)
		if err != nil {
			return nil, err
		}
		stages = append(stages, s)
		if !opts.passes(cfg, i) {
			if err := checkDatasets(s, stages[:i]); err != nil {
				return nil, err
			}
		}
	}
	if line := unusedKeys(stages); line != "" {
		opts.Say(line)
	}
	for i, s := range stages {
		if done, err := finished(s.CheckpointJobDir); err != nil || done != nil || opts.passes(cfg, i) {
			continue // an error is reported when it is this stage's turn
		}
		if err := s.locate(fetch(ctx, opts.Say)); err != nil {
			return nil, err
		}
		why, err := s.doesNotFit()
		if why != "" && len(cfg.Stages) > 0 {
			why = "stage " + cfg.Stages[i].StageName + ": " + why
		}
		if err == nil && why != "" {
			err = errors.New(why)
		}
		if err != nil {
			return nil, err
		}
	}
	return stages, nil
}

// doesNotFit says in one line that a stage needs more memory than there is; "" if it does not.
func (s *Settled) doesNotFit() (string, error) {
	m, err := s.memory()
	if err != nil {
		return "", err
	}
	return m.doesNotFit()
}

// run runs one stage and appends what it did, if it began.
func (sum *Summary) run(ctx, stop context.Context, cfg *Settled, opts Options) (err error) {
	if opts.Join != "" && cfg.Mode != "explore" && cfg.Mode != "serve" {
		return fmt.Errorf("--join is of the modes explore and serve, and this is mode %s", cfg.Mode)
	}
	if err := freshDir(cfg); err != nil {
		return err
	}
	ownDirs(cfg)
	unlock, err := lockDir(cfg.CheckpointJobDir, parts(cfg))
	if err != nil {
		return err
	}
	defer unlock()
	juicer := newJuicer(cfg, opts.Say)
	if juicer != nil {
		defer func() { err = errors.Join(err, juicer.Close()) }()
	}
	if err := prepare(ctx, stop, cfg, juicer, opts); err != nil {
		return err
	}
	with, err := cfg.made()
	if err != nil {
		return err
	}
	changed, err := cfg.changes(with, true)
	if err != nil {
		return err
	}
	for _, c := range changed {
		opts.Say(c)
	}
	s, err := open(cfg, opts.Say)
	if err != nil {
		return err
	}
	s.juicer, s.madeWith = juicer, with
	defer func() { err = errors.Join(err, s.close()) }()
	defer func() {
		if s.log != nil { // it began
			done := &s.log.summary
			done.Name, done.Mode, done.Algorithm = cfg.Name, cfg.Mode, cfg.Algorithm.AlgorithmType
			done.Skipped = err == nil && done.records == 0
			sum.Stages = append(sum.Stages, *done)
		}
	}()
	switch cfg.Mode {
	case "both", "colocate":
		return s.both(ctx, stop)
	case "train":
		return s.train(ctx, stop, opts)
	case "explore":
		return s.explore(ctx, stop, opts)
	case "serve":
		return s.serve(ctx, stop, opts)
	case "bench":
		return s.bench(ctx, stop)
	}
	return fmt.Errorf("mode %s is not part of this version", cfg.Mode)
}

// freshDir gives a run that must not continue a directory of its own.
func freshDir(cfg *Settled) error {
	entries, err := os.ReadDir(cfg.CheckpointJobDir)
	if err == nil && len(entries) > 0 && !cfg.ContinueFromCheckpoint && cfg.Mode != "serve" {
		stamp := time.Now().Format("20060102150405")
		cfg.Name += "_" + stamp
		cfg.CheckpointJobDir += "_" + stamp
		cfg.Buffer.CacheDir = filepath.Join(cfg.CheckpointJobDir, "buffer")
		cfg.Monitor.CacheDir = filepath.Join(cfg.CheckpointJobDir, "monitor")
		cfg.Log.SaveDir = filepath.Join(cfg.CheckpointJobDir, "log")
	}
	return durable.MkdirAll(cfg.CheckpointJobDir, 0o755)
}

// ownDirs gives an explorer that is one of several what the others would write as well.
func ownDirs(cfg *Settled) {
	if !oneOfSeveral(cfg) {
		return
	}
	for _, dir := range []*string{&cfg.Buffer.CacheDir, &cfg.Monitor.CacheDir, &cfg.Log.SaveDir} {
		*dir = filepath.Join(*dir, cfg.Explorer.Name)
	}
	copies := &cfg.DataProcessor.ExperiencePipeline
	paths := []*string{&copies.InputSavePath, &copies.OutputSavePath}
	if b := cfg.Buffer.TrainerInput.ExperienceBuffer; b.StorageType == "file" {
		paths = append(paths, &b.Path)
	}
	for _, path := range paths {
		if *path != "" && !database.IsURL(*path) { // a database has names of its own
			*path = filepath.Join(filepath.Dir(*path), cfg.Explorer.Name+"-"+filepath.Base(*path))
		}
	}
}

func oneOfSeveral(cfg *Settled) bool {
	return cfg.Mode == "explore" && cfg.Explorer.Name != config.OnlyExplorer
}

// record opens the monitors; records after fromStep, of a run that was killed, are dropped.
func (s *stage) record(fromStep int64, total int64) error {
	cfg := s.Settled
	mons, err := monitor.Open(cfg.Monitor.MonitorType, cfg.Monitor.MonitorArgs, monitor.Run{
		Dir: cfg.Monitor.CacheDir, Project: cfg.Project, Group: cfg.Group, Name: cfg.Name, FromStep: fromStep, TotalSteps: total,
	})
	if err != nil {
		return err
	}
	if s.log, err = newRecorder(cfg.Log.SaveDir, mons); err != nil {
		return err
	}
	line := fmt.Sprintf("%s: mode %s, algorithm %s, model %s", cfg.Name, cfg.Mode, cfg.Algorithm.AlgorithmType, s.modelPath)
	if fromStep > 0 {
		line += fmt.Sprintf(", goes on after step %d", fromStep)
	}
	s.say(line + "; writes to " + cfg.CheckpointJobDir)
	return nil
}
