package run

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/config"
	"github.com/trinity-go/trinity/dataset"
	"github.com/trinity-go/trinity/run/checkpoint"
	"github.com/trinity-go/trinity/serve/fleet"
)

// made tells what the checkpoints of a stage are made with.
func (cfg *Settled) made() (m checkpoint.Made, err error) {
	m.Data = map[string]string{}
	if m.Settings, err = checkpoint.Settings(cfg.Settled); err != nil {
		return m, err
	}
	if cfg.modelPath != "" {
		if m.Model, err = checkpoint.Fingerprint(cfg.modelPath, checkpoint.IsModelFile); err != nil {
			return m, err
		}
	}
	read, err := datasets(cfg)
	if err != nil {
		return m, err
	}
	sources, f := cfg.Sources(), config.Facts{Fetch: map[string]string{}, Missing: map[string]string{}}
	for _, d := range read {
		key := d.key + ".path"
		path, ok := local(d.path, key, true, &f)
		if !ok || !slices.Contains(sources, key) || strings.Contains(key, ".eval_") {
			continue
		}
		isRow := func(name string) bool { return d.of.TaskDir || dataset.IsFile(name) }
		if m.Data[key], err = checkpoint.Fingerprint(path, isRow); err != nil {
			return m, err
		}
	}
	return m, nil
}

// changes compares a stage with its newest checkpoint, if it resumes from one. The error has a line
// for each difference that keeps it from resuming; told has a line for each of the others. begun
// reports whether the stage began with the model that its configuration names.
func (cfg *Settled) changes(now checkpoint.Made, begun bool) (told []string, err error) {
	if !cfg.ContinueFromCheckpoint || !cfg.Trains {
		return nil, nil
	}
	if err := cfg.checkAlone(); err != nil {
		return nil, err
	}
	dir := checkpoint.Dir{Path: cfg.CheckpointJobDir}
	return dir.Compare(cfg.Settled, now, begun)
}

// checkAlone refuses to continue, in the process of the trainer, a run that several explorers began:
// nobody would know which rows the others have explored.
func (cfg *Settled) checkAlone() error {
	if !cfg.Together {
		return nil
	}
	names, err := fleet.Explorers(cfg.CheckpointJobDir)
	others := slices.DeleteFunc(names, func(name string) bool { return name == cfg.Explorer.Name })
	if err != nil || len(others) == 0 {
		return err
	}
	what := fmt.Sprintf("is %s, which has explorer %s alone, and the run has the explorers %s, whose rows would be explored again",
		cfg.Mode, cfg.Explorer.Name, strings.Join(others, ", "))
	return cfg.At("mode", what, "go on in modes train and explore, or "+checkpoint.Anew)
}
