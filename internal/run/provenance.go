package run

import (
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/run/feed"
)

// provenance returns what a checkpoint of the stage notes about it: settings, model and the data that it
// reads.
func (s *Settled) provenance(read []feed.Dataset) (m checkpoint.Provenance, err error) {
	m.Data = map[string]string{}
	if m.Settings, err = checkpoint.Settings(s.Settled); err != nil {
		return m, err
	}
	if s.modelPath != "" {
		if m.Model, err = checkpoint.Fingerprint(s.modelPath, checkpoint.IsModelFile); err != nil {
			return m, err
		}
	}
	sources := s.Sources()
	for _, d := range read {
		key := d.Key + ".path"
		path, _ := feed.Local(d.Path, true)
		if path == "" || !slices.Contains(sources, key) || strings.Contains(key, ".eval_") {
			continue
		}
		isRow := func(name string) bool { return d.Options.TaskDir || dataset.IsFile(name) }
		if m.Data[key], err = checkpoint.Fingerprint(path, isRow); err != nil {
			return m, err
		}
	}
	return m, nil
}

// changes compares a stage with its newest checkpoint, if it resumes from one. The error has a line
// for each difference that keeps it from resuming. told has a line for each other difference. begun
// reports whether the stage began with the model that its configuration names.
func (s *Settled) changes(now checkpoint.Provenance, begun bool) (told []string, err error) {
	if !s.ContinueFromCheckpoint || !s.Trains {
		return nil, nil
	}
	if err := s.checkAlone(); err != nil {
		return nil, err
	}
	dir := checkpoint.Dir{Path: s.CheckpointJobDir}
	return dir.Compare(s.Settled, now, begun)
}
