package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/failpoint"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/run/feed"
	"github.com/trinity-go/trinity/internal/run/record"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/internal/rundir"
)

var failStage = failpoint.New("run.stage") // before the run marks a stage as finished

// stageDone is the content of [rundir.StageDone], which marks a finished stage.
type stageDone struct {
	Model string                `json:"model"` // directory that the next stage starts from; "" if it wrote none
	Steps int64                 `json:"steps"`
	Made  checkpoint.Provenance `json:"made"`
}

// refuseChanges returns an error if the configuration differs from that of the finished stage. first
// says that the stage is the first, which starts from the model of the configuration.
func (d *stageDone) refuseChanges(cfg *settle.Stage, first bool) error {
	f := config.Facts{Fetch: map[string]string{}, Missing: map[string]string{}} // what is not here any more is not compared
	if err := cfg.LookUp(&f); err != nil {
		return err
	}
	now, err := cfg.Provenance(feed.Datasets(cfg.Settled, ""))
	if err != nil {
		return err
	}
	return d.Made.RefuseChanges(cfg.Settled, now, first)
}

// check verifies the files of the model that the next stage starts from. A model that the stage did
// not write, or that somebody has removed since, is no error.
func (d *stageDone) check() error {
	if d.Model == "" || !record.Present(filepath.Join(d.Model, durable.SumsFile)) {
		return nil
	}
	return durable.Verify(d.Model)
}

// skips reports whether the options leave out stage i of a configuration.
func (o Options) skips(cfg *config.Config, i int) bool {
	return o.Stage != "" && cfg.Stages[i].StageName != o.Stage
}

// stageName returns the name of a stage, "" if the configuration has no stages.
func stageName(cfg *config.Config, i int) string {
	if len(cfg.Stages) == 0 {
		return ""
	}
	return cfg.Stages[i].StageName
}

// chosen returns the stages of a configuration that the options do not leave out.
func (o Options) chosen(cfg *config.Config) (stages []*config.Settled) {
	for i, s := range cfg.Settled() {
		if !o.skips(cfg, i) {
			stages = append(stages, s)
		}
	}
	return stages
}

// checkStage returns an error if the options name a stage that does not exist, or join a trainer
// without naming the stage.
func checkStage(cfg *config.Config, opts Options) error {
	var names []string
	for i, s := range cfg.Stages {
		if names = append(names, s.StageName); opts.Stage != "" && !opts.skips(cfg, i) {
			return nil
		}
	}
	switch {
	case opts.Stage != "" && names == nil:
		return fmt.Errorf("--stage %s: %s has no stages", opts.Stage, cfg.File())
	case opts.Stage != "":
		return fmt.Errorf("--stage %s: the stages of %s are %s", opts.Stage, cfg.File(), strings.Join(names, ", "))
	case opts.Join != "" && names != nil:
		return fmt.Errorf("--join: %s has the stages %s: name the one that joins with --stage, and set its mode to explore or serve",
			cfg.File(), strings.Join(names, ", "))
	}
	return nil
}

// runStages runs all stages one after the other, or only opts.Stage. Each starts from the models
// that the stages before it wrote.
func (sum *Summary) runStages(ctx, stop context.Context, cfg *config.Config, stages []*settle.Stage, opts Options) error {
	unlock, err := lockStages(cfg, stages, opts)
	if err != nil {
		return err
	}
	defer unlock()
	from, unfinished := inherited{model: stages[0].Model.ModelPath}, ""
	for i := range cfg.Stages {
		name := cfg.Stages[i].StageName
		stageCfg := stages[i]
		from.apply(stageCfg.Settled)
		done, err := finished(stageCfg.Settled, i == len(cfg.Stages)-1)
		if err != nil {
			return err
		}
		if done != nil && stageCfg.Mode != "serve" {
			if !feed.Follows(stageCfg.Settled) { // an explorer of the stage has another mode, and nothing to do
				if err := done.refuseChanges(stageCfg, i == 0); err != nil {
					return err
				}
			}
			if err := done.check(); err != nil {
				return fmt.Errorf("stage %s is finished, but %w: put the file back, or remove %s to run the stage again",
					name, err, stageCfg.CheckpointJobDir)
			}
			was, err := done.summary(stageCfg.Settled, name)
			if err != nil {
				return err
			}
			sum.Stages = append(sum.Stages, was)
		} else if opts.skips(cfg, i) {
			unfinished = name
			continue
		} else if unfinished != "" && !feed.Follows(stageCfg.Settled) {
			return fmt.Errorf("--stage %s: it starts from the model of stage %s, which is not finished: run that stage first",
				name, unfinished)
		} else if err := stageCfg.FetchPolicy(ctx, opts.Say); err != nil { // an earlier stage has written it
			return err
		} else if err := sum.runStage(ctx, stop, stageCfg, opts, name); err != nil {
			return fmt.Errorf("stage %s: %w", name, err)
		}
		from.add(stageCfg.Settled, sum.Stages[len(sum.Stages)-1].Model)
		if name == opts.Stage {
			return nil
		}
	}
	return nil
}

// runStage runs a stage and marks it as finished, unless another process trains it.
func (sum *Summary) runStage(ctx, stop context.Context, cfg *settle.Stage, opts Options, name string) error {
	opts.Stage = name
	if err := sum.run(ctx, stop, cfg, opts); err != nil {
		return err
	}
	last := &sum.Stages[len(sum.Stages)-1]
	last.Name = name
	if err := failStage.Hit(""); err != nil || feed.Follows(cfg.Settled) {
		return err
	}
	done := stageDone{Model: last.Model, Steps: last.Steps, Made: last.Made}
	return durable.WriteFile(filepath.Join(cfg.CheckpointJobDir, rundir.StageDone), encodeJSON(done))
}

// finished reads the mark of a finished stage. It returns nil if the stage is not finished, or if it
// is the last one and its configuration now asks for more steps.
func finished(cfg *config.Settled, last bool) (*stageDone, error) {
	data, err := os.ReadFile(filepath.Join(cfg.CheckpointJobDir, rundir.StageDone))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var d stageDone
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(cfg.CheckpointJobDir, rundir.StageDone), err)
	}
	now, err := checkpoint.Settings(cfg)
	if err != nil || last && d.Made.LessThan(now) {
		return nil, err
	}
	return &d, nil
}

// summary returns what the metrics of the finished stage tell of it.
func (d *stageDone) summary(cfg *config.Settled, name string) (record.StageSummary, error) {
	sum := record.StageSummary{Name: name, Mode: cfg.Mode, Algorithm: cfg.Algorithm.AlgorithmType, Model: d.Model, Skipped: true}
	if d.Model != "" {
		dir := checkpoint.Dir{Path: cfg.CheckpointJobDir}
		sum.Checkpoint = dir.Of(d.Steps)
	}
	err := sum.Recall(cfg.Monitor.CacheDir)
	sum.Steps = d.Steps
	if cfg.Trainer.KeepBest != "" && err == nil {
		sum.Best, err = rundir.ReadBest(cfg.CheckpointJobDir)
	}
	return sum, err
}

// encodeJSON encodes a small record of this package, which never fails.
func encodeJSON(v any) []byte {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err)
	}
	return append(data, '\n')
}

// inherited names the models that a stage starts from: those that the stages before it wrote. All
// stages train an adapter, or none does.
type inherited struct {
	model   string
	adapter string // PEFT directory; "" before the first
	critic  string // model directory; "" before the first stage that trains one
}

// apply sets the models in a stage's configuration.
func (h *inherited) apply(cfg *config.Settled) {
	if cfg.Model.CriticModelPath == cfg.Model.ModelPath { // the default
		cfg.Model.CriticModelPath = cmp.Or(h.critic, h.model)
	}
	cfg.Model.ModelPath = h.model
	if h.adapter != "" {
		cfg.Model.LoraConfigs[0].Path = h.adapter
	}
}

// add notes the model that a stage wrote, or "". A critic that it trained lies beside the policy.
func (h *inherited) add(cfg *config.Settled, wrote string) {
	switch {
	case wrote == "":
		return
	case len(cfg.Model.LoraConfigs) > 0:
		h.adapter = wrote
	default:
		h.model = wrote
	}
	if cfg.Critic != nil {
		dir := filepath.Dir(filepath.Dir(wrote))
		h.critic = filepath.Join(dir, checkpoint.CriticModelDir)
	}
}

// lockStages keeps two processes from doing the stages of one run by turns, each with its own
// configuration: it locks the parts of all stages that are left. A process that does one stage alone
// has the locks of that stage.
func lockStages(cfg *config.Config, stages []*settle.Stage, opts Options) (unlock func(), err error) {
	var names, homes []string
	for i, s := range stages {
		homes = append(homes, s.Monitor.CacheDir)
		if done, err := finished(s.Settled, i == len(stages)-1); err == nil && done == nil && opts.Stage == "" {
			names = append(names, record.Parts(s.Settled)...)
		}
	}
	if names == nil {
		return func() {}, nil
	}
	if err := durable.MkdirAll(cfg.CheckpointJobDir, 0o755); err != nil {
		return nil, err
	}
	slices.Sort(names)
	return record.LockDir(cfg.CheckpointJobDir, slices.Compact(names), homes...)
}
