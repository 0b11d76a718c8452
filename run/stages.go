package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/trinity-go/trinity/config"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/failpoint"
)

var failStage = failpoint.New("run.stage") // before a stage is marked as finished

// doneFile marks a finished stage; it holds the directory that the next stage starts from.
const doneFile = "stage_done.json"

type stageDone struct {
	Model string `json:"model"`
	Steps int64  `json:"steps"`
}

// check looks at the model that the next stage starts from, if the stage has written one and it was not removed since.
func (d *stageDone) check() error {
	if d.Model == "" || !present(filepath.Join(d.Model, durable.SumsFile)) {
		return nil
	}
	return durable.Verify(d.Model)
}

// passes says that stage i of a configuration is not the only one to run.
func (o Options) passes(cfg *config.Config, i int) bool {
	return o.Stage != "" && cfg.Stages[i].StageName != o.Stage
}

// checkStage refuses to run a stage that there is not, and to join a trainer by all stages.
func checkStage(cfg *config.Config, opts Options) error {
	var names []string
	for i, s := range cfg.Stages {
		if names = append(names, s.StageName); opts.Stage != "" && !opts.passes(cfg, i) {
			return nil
		}
	}
	switch {
	case opts.Stage != "" && names == nil:
		return fmt.Errorf("--stage %s: %s has no stages", opts.Stage, cfg.File())
	case opts.Stage != "":
		return fmt.Errorf("--stage %s: the stages of %s are %s", opts.Stage, cfg.File(), strings.Join(names, ", "))
	case opts.Join != "" && names != nil:
		return fmt.Errorf("--join: %s has the stages %s: say which one the trainer is joined for, by --stage, and set its mode to explore or serve", cfg.File(), strings.Join(names, ", "))
	}
	return nil
}

// runStages runs the stages one after the other, each with what the one before has left, or the one of the options.
func (sum *Summary) runStages(ctx, stop context.Context, cfg *config.Config, stages []*Settled, opts Options) error {
	from, unfinished := start{model: cfg.Model.ModelPath}, ""
	for i := range cfg.Stages {
		name := cfg.Stages[i].StageName
		stageCfg := stages[i]
		from.begin(stageCfg)
		done, err := finished(stageCfg.CheckpointJobDir)
		if err != nil {
			return err
		}
		if done != nil {
			if err := done.check(); err != nil {
				return fmt.Errorf("stage %s is finished, but %w: put the file back, or remove %s to run the stage again", name, err, stageCfg.CheckpointJobDir)
			}
			sum.Stages = append(sum.Stages, StageSummary{Name: name, Mode: stageCfg.Mode, Steps: done.Steps, Model: done.Model, Skipped: true})
		} else if opts.passes(cfg, i) {
			unfinished = name
			continue
		} else if unfinished != "" && !follows(stageCfg) {
			return fmt.Errorf("--stage %s: it begins with what stage %s leaves, which is not finished: run that first", name, unfinished)
		} else if err := stageCfg.locate(fetch(ctx, opts.Say)); err != nil { // an earlier stage has written its model
			return err
		} else if err := sum.runStage(ctx, stop, stageCfg, opts, name); err != nil {
			return fmt.Errorf("stage %s: %w", name, err)
		}
		from.after(stageCfg, sum.Stages[len(sum.Stages)-1].Model)
		if name == opts.Stage {
			return nil
		}
	}
	return nil
}

// follows says that the process is not the stage, but works for the one that trains it.
func follows(cfg *Settled) bool {
	return cfg.Mode == "serve" || cfg.Mode == "explore" && cfg.Buffer.TrainerInput.ExperienceBuffer.StorageType != "file"
}

// runStage runs a stage, and marks it as finished where it is this process's to say so.
func (sum *Summary) runStage(ctx, stop context.Context, cfg *Settled, opts Options, name string) error {
	opts.Stage = name
	if err := sum.run(ctx, stop, cfg, opts); err != nil {
		return err
	}
	last := &sum.Stages[len(sum.Stages)-1]
	last.Name = name
	if err := failStage.Hit(""); err != nil || follows(cfg) {
		return err
	}
	return durable.WriteFile(filepath.Join(cfg.CheckpointJobDir, doneFile), encodeJSON(stageDone{Model: last.Model, Steps: last.Steps}))
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

// encodeJSON encodes a small record of this package, which never fails.
func encodeJSON(v any) []byte {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err)
	}
	return append(data, '\n')
}
