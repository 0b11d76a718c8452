package settle

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/run/feed"
	"github.com/trinity-go/trinity/internal/serve/fleet"
	"github.com/trinity-go/trinity/model"
)

// checkAdapters returns an error if an adapter does not fit the model.
func checkAdapters(m *model.Config, loras []config.Lora) error {
	for i := range loras {
		if _, err := adapterOf(m, &loras[i]); err != nil {
			return fmt.Errorf("model.lora_configs.%d: %w", i, err)
		}
	}
	return nil
}

// adapterOf reads an adapter from its PEFT directory. Without one it describes a new adapter.
func adapterOf(m *model.Config, l *config.Lora) (*model.LoRA, error) {
	if l.Path != "" {
		file, err := model.OpenAdapter(l.Path, m)
		if err != nil {
			return nil, err
		}
		return &file.LoRA, file.Close()
	}
	lora := model.NewLoRA(&l.LoRASpec)
	if err := lora.CheckExcluded(m); err != nil {
		return nil, err
	}
	_, err := lora.Tensors(m)
	return &lora, err
}

// warnOfBase reports a base that PEFT cannot open although the adapters of the run will name it. A stage that
// continues an adapter does not repeat what the stage before has said.
func warnOfBase(configs []config.Lora, say func(string)) {
	if len(configs) == 0 || configs[0].Path != "" || !strings.EqualFold(filepath.Ext(configs[0].BaseModelName), ".gguf") {
		return
	}
	base := configs[0].BaseModelName
	say(fmt.Sprintf("adapters of this run name the base %s, which PEFT cannot open; for PEFT, write the base as a directory "+
		"(trinity convert %[1]s --output DIR) and set model.lora_configs.0.base_model_name=DIR", base))
}

// loraSpec returns the adapter to train, or nil.
func loraSpec(configs []config.Lora) *engine.LoRASpec {
	if len(configs) == 0 {
		return nil
	}
	return &configs[0].LoRASpec
}

// Provenance returns what a checkpoint of the stage notes about it: settings, model and the data that it
// reads.
func (s *Stage) Provenance(read []feed.Dataset) (m checkpoint.Provenance, err error) {
	m.Data = map[string]string{}
	if m.Settings, err = checkpoint.Settings(s.Settled); err != nil {
		return m, err
	}
	if s.ModelPath != "" {
		if m.Model, err = checkpoint.Fingerprint(s.ModelPath, checkpoint.IsModelFile); err != nil {
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

// Changes compares a stage with its newest checkpoint, if it resumes from one. The error has a line
// for each difference that keeps it from resuming. told has a line for each other difference. begun
// reports whether the stage began with the model that its configuration names.
func (s *Stage) Changes(now checkpoint.Provenance, begun bool) (told []string, err error) {
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
func (s *Stage) checkAlone() error {
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
