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

// made returns what a checkpoint of the stage notes about it: settings, model and data.
func (s *Settled) made() (m checkpoint.Made, err error) {
	m.Data = map[string]string{}
	if m.Settings, err = checkpoint.Settings(s.Settled); err != nil {
		return m, err
	}
	if s.modelPath != "" {
		if m.Model, err = checkpoint.Fingerprint(s.modelPath, checkpoint.IsModelFile); err != nil {
			return m, err
		}
	}
	read, err := datasets(s)
	if err != nil {
		return m, err
	}
	sources, f := s.Sources(), config.Facts{Fetch: map[string]string{}, Missing: map[string]string{}}
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
// for each difference that keeps it from resuming. told has a line for each other difference. begun
// reports whether the stage began with the model that its configuration names.
func (s *Settled) changes(now checkpoint.Made, begun bool) (told []string, err error) {
	if !s.ContinueFromCheckpoint || !s.Trains {
		return nil, nil
	}
	if err := s.checkAlone(); err != nil {
		return nil, err
	}
	dir := checkpoint.Dir{Path: s.CheckpointJobDir}
	return dir.Compare(s.Settled, now, begun)
}

// checkAlone returns an error if mode both resumes a run of several explorers: nobody would know
// which rows the others have explored.
func (s *Settled) checkAlone() error {
	if !s.Together {
		return nil
	}
	names, err := fleet.Explorers(s.CheckpointJobDir)
	others := slices.DeleteFunc(names, func(name string) bool { return name == s.Explorer.Name })
	if err != nil || len(others) == 0 {
		return err
	}
	what := fmt.Sprintf("is %s, which has explorer %s alone, and the run has the explorers %s, whose rows would be explored again",
		s.Mode, s.Explorer.Name, strings.Join(others, ", "))
	return s.At("mode", what, "resume in modes train and explore, or "+checkpoint.Anew)
}
