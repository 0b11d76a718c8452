// Package run wires a configuration into explorer, trainer, buffer and synchronizer, and runs it: modes, stages, checkpoints, resume.
package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/trinity-go/trinity/config"
	"github.com/trinity-go/trinity/durable"
	"github.com/trinity-go/trinity/failpoint"
	"github.com/trinity-go/trinity/monitor"
)

// Options are what a run needs besides its configuration.
type Options struct {
	// Stop, when cancelled, ends the run after the training step at hand, with a checkpoint.
	Stop context.Context
	// Say receives lines for people.
	Say func(string)
	// Join is the URL of the trainer that mode explore rolls out for and mode serve follows; "" is the one of the run's directory. User information in it is the token, else
	// TRINITY_TOKEN is.
	Join string
}

// Summary is what a run did.
type Summary struct {
	Stages []StageSummary `json:"stages"`
}

var failStage = failpoint.New("run.stage") // before a stage is marked as finished

// doneFile marks a finished stage; it holds the directory that the next stage starts from.
const doneFile = "stage_done.json"

type stageDone struct {
	Model string `json:"model"`
	Steps int64  `json:"steps"`
}

// check looks at the model that the next stage starts from, if the stage has written one and it was not removed since.
func (d *stageDone) check() error {
	if !present(filepath.Join(d.Model, durable.SumsFile)) {
		return nil
	}
	return durable.Verify(d.Model)
}

// Run runs all stages that are not finished yet. The error is the cause of opts.Stop when that ended it.
func Run(ctx context.Context, cfg *config.Config, opts Options) (*Summary, error) {
	summary, err := runAll(ctx, cfg, opts)
	return summary, advised(err)
}

func runAll(ctx context.Context, cfg *config.Config, opts Options) (*Summary, error) {
	summary := &Summary{}
	if err := failpoint.Check(); err != nil {
		return summary, err
	}
	if err := fits(ctx, cfg, opts.Say); err != nil {
		return summary, err
	}
	if len(cfg.Stages) == 0 {
		err := summary.run(ctx, cfg, opts)
		return summary, err
	}
	from := start{model: cfg.Model.ModelPath}
	for i := range cfg.Stages {
		stageCfg, err := cfg.Stage(i)
		if err != nil {
			return summary, err
		}
		from.begin(stageCfg)
		done, err := finished(stageCfg.CheckpointJobDir)
		if err != nil {
			return summary, err
		}
		if done != nil {
			if err := done.check(); err != nil {
				return summary, fmt.Errorf("stage %s is finished, but %w: put the file back, or remove %s to run the stage again", cfg.Stages[i].StageName, err, stageCfg.CheckpointJobDir)
			}
			summary.Stages = append(summary.Stages, StageSummary{Name: cfg.Stages[i].StageName, Mode: stageCfg.Mode, Steps: done.Steps, Model: done.Model, Skipped: true})
		} else if err := summary.run(ctx, stageCfg, opts); err != nil {
			return summary, fmt.Errorf("stage %s: %w", cfg.Stages[i].StageName, err)
		}
		last := &summary.Stages[len(summary.Stages)-1]
		last.Name = cfg.Stages[i].StageName
		from.after(stageCfg, last.Model)
		if err := failStage.Hit(""); err != nil {
			return summary, err
		}
		if err := durable.WriteFile(filepath.Join(stageCfg.CheckpointJobDir, doneFile), encodeJSON(stageDone{Model: last.Model, Steps: last.Steps})); err != nil {
			return summary, err
		}
	}
	return summary, nil
}

// fits refuses a run of which a stage has an algorithm whose parts do not fit together or data that is nowhere, or needs more memory than there is. Models that are on
// no disk yet are fetched between the two.
func fits(ctx context.Context, cfg *config.Config, say func(string)) error {
	stages := []*config.Config{cfg}
	for i := range cfg.Stages {
		stage, err := cfg.Stage(i)
		if err != nil {
			return err
		}
		stages = append(stages, stage)
	}
	if len(cfg.Stages) > 0 {
		stages = stages[1:]
	}
	for _, stage := range stages {
		if err := checkAlgorithm(stage); err != nil {
			return err
		}
		if err := checkDatasets(stage); err != nil {
			return err
		}
	}
	for i, stage := range stages {
		if done, err := finished(stage.CheckpointJobDir); err != nil || done != nil {
			continue // an error is reported when it is this stage's turn
		}
		path, err := ResolveModel(ctx, cfg.Model.ModelPath, say)
		if err != nil {
			return err
		}
		critic, err := criticPath(ctx, stage, say)
		if err != nil {
			return err
		}
		if stage.Mode != "train" {
			if err := fetchRewardModels(ctx, stage, say); err != nil {
				return err
			}
		}
		if err := fetchTeachers(ctx, stage, say); err != nil {
			return err
		}
		m, err := stageMemory(stage, path, critic)
		if err != nil {
			return err
		}
		if why, err := m.doesNotFit(); err != nil || why != "" {
			if len(cfg.Stages) > 0 {
				why = "stage " + cfg.Stages[i].StageName + ": " + why
			}
			return errors.Join(err, errors.New(why))
		}
	}
	return nil
}

// finished reads the mark of a finished stage; nil means that it is not.
func finished(dir string) (*stageDone, error) {
	data, err := os.ReadFile(filepath.Join(dir, doneFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var d stageDone
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, doneFile), err)
	}
	return &d, nil
}

// run runs one stage and appends what it did, if it began.
func (sum *Summary) run(ctx context.Context, cfg *config.Config, opts Options) (err error) {
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
	if err := prepare(ctx, cfg, juicer, opts); err != nil {
		return err
	}
	s, err := open(ctx, cfg, opts.Say)
	if err != nil {
		return err
	}
	s.juicer = juicer
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
		return s.both(ctx, opts)
	case "train":
		return s.train(ctx, opts)
	case "explore":
		return s.explore(ctx, opts)
	case "serve":
		return s.serve(ctx, opts)
	case "bench":
		return s.bench(ctx, opts)
	}
	return fmt.Errorf("mode %s is not part of this version", cfg.Mode)
}

// freshDir gives a run that must not continue a directory of its own.
func freshDir(cfg *config.Config) error {
	entries, err := os.ReadDir(cfg.CheckpointJobDir)
	if err == nil && len(entries) > 0 && !cfg.ContinueFromCheckpoint && cfg.Mode != "serve" {
		stamp := time.Now().Format("20060102150405")
		cfg.Name += "_" + stamp
		cfg.CheckpointJobDir += "_" + stamp
		cfg.Buffer.CacheDir = filepath.Join(cfg.CheckpointJobDir, "buffer")
		cfg.Monitor.CacheDir = filepath.Join(cfg.CheckpointJobDir, "monitor")
		cfg.Log.SaveDir = filepath.Join(cfg.CheckpointJobDir, "log")
	}
	return os.MkdirAll(cfg.CheckpointJobDir, 0o755)
}

// ownDirs gives an explorer that is one of several what the others would write as well.
func ownDirs(cfg *config.Config) {
	if cfg.Mode != "explore" || cfg.Explorer.Name == config.OnlyExplorer {
		return
	}
	for _, dir := range []*string{&cfg.Buffer.CacheDir, &cfg.Monitor.CacheDir, &cfg.Log.SaveDir} {
		*dir = filepath.Join(*dir, cfg.Explorer.Name)
	}
	copies := &cfg.DataProcessor.ExperiencePipeline
	for _, path := range []*string{&copies.InputSavePath, &copies.OutputSavePath} {
		if *path != "" {
			*path = filepath.Join(filepath.Dir(*path), cfg.Explorer.Name+"-"+filepath.Base(*path))
		}
	}
}

// record opens the monitors; records after fromStep, of a run that was killed, are dropped.
func (s *stage) record(fromStep int64, total int64) error {
	cfg := s.cfg
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
