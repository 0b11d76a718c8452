package run

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"

	"github.com/trinity-go/trinity/config"
	"github.com/trinity-go/trinity/dataset"
	"github.com/trinity-go/trinity/internal/database"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/model/hub"
)

// Facts looks up what a plan needs: sizes of local models and datasets, and this machine. It fetches and writes nothing; a model or dataset
// that is only a hub name is listed as to be fetched, and what is nowhere as missing.
func Facts(settled *config.Settled) (config.Facts, error) {
	f := config.Facts{
		Machine: config.Machine{Cores: runtime.GOMAXPROCS(0), Memory: int64(Machine().Available)},
		Rows:    map[string]int{}, Fetch: map[string]string{}, Missing: map[string]string{},
	}
	cfg, err := Resolve(settled)
	if err != nil {
		return f, err
	}
	if err := cfg.locate(lookUp(&f)); err != nil {
		return f, err
	}
	if err := cfg.models(&f); err != nil {
		return f, err
	}
	if f.TaskPipeline, err = taskPipelineWords(cfg); err != nil {
		return f, err
	}
	with, err := cfg.made()
	if err != nil {
		return f, err
	}
	if f.Changed, err = cfg.changes(with, !cfg.IsStage()); err != nil {
		return f, err
	}
	read, err := datasets(cfg)
	if err != nil {
		return f, err
	}
	for _, d := range read {
		path, ok := local(d.path, d.key+".path", true, &f)
		if !ok {
			continue
		}
		rows, err := openRows(context.Background(), path, d.of)
		if err != nil {
			return f, err
		}
		f.Rows[d.key] = rows.Len()
		if err := cfg.checkTaskset(rows, d.key); err != nil {
			return f, err
		}
	}
	return f, nil
}

// named is a dataset that a configuration names; key is the section with its path.
type named struct {
	key, path string
	of        dataset.Options
}

// datasets lists the datasets that a configuration names, but for one that the task pipeline has yet to make.
func datasets(cfg *Settled) (all []named, err error) {
	later := ""
	recipe, made, err := taskPipeline(cfg)
	if err != nil {
		return nil, err
	}
	if recipe != nil && made == nil {
		later = recipe.Output
	}
	add := func(key, path string, of dataset.Options) {
		if path != "" && path != later { // config says what is missing
			all = append(all, named{key, path, of})
		}
	}
	for _, t := range cfg.Data.Tasksets {
		add(t.Key, t.Path, tasksOf(t.Taskset))
	}
	for _, b := range cfg.Besides() {
		add(b.Key, b.Path, bufferRows(&b.ExperienceBuffer))
	}
	if b := cfg.Buffer.TrainerInput.ExperienceBuffer; b != nil && (b.SchemaType != "experience" || cfg.Recorded) {
		add("buffer.trainer_input.experience_buffer", b.Path, bufferRows(b))
	}
	return all, nil
}

// checkDatasets refuses a dataset that the stage reads and that is neither on this machine nor a hub's, nor made by a stage before, or of which files are missing.
func checkDatasets(cfg *Settled, before []*Settled) error {
	if done, err := finished(cfg.CheckpointJobDir); err != nil || done != nil {
		return err
	}
	all, err := datasets(cfg)
	if err != nil {
		return err
	}
	read := cfg.Sources()
	f := config.Facts{Fetch: map[string]string{}, Missing: map[string]string{}}
	for _, d := range all {
		key := d.key + ".path"
		if !slices.Contains(read, key) || slices.ContainsFunc(before, func(s *Settled) bool { return s.Leaves(d.path) }) {
			continue
		}
		path, here := local(d.path, key, true, &f)
		if f.Missing[key] != "" {
			return cfg.At(key, fmt.Sprintf("dataset %s: no such file or directory", d.path), "")
		}
		if here && !database.IsURL(path) {
			if err := dataset.Find(path, d.of); err != nil {
				return cfg.At(key, err.Error(), "")
			}
		}
	}
	return nil
}

// models fills in the sizes of the model and what a run takes with it, if it is on this machine.
func (cfg *Settled) models(f *config.Facts) error {
	if cfg.modelPath == "" {
		return nil
	}
	m, err := model.ReadConfig(cfg.modelPath)
	if err != nil {
		return fmt.Errorf("model.model_path: %w", err)
	}
	if cfg.located() {
		memory, err := cfg.memory()
		if err != nil {
			return err
		}
		if f.Memory = memory.parts; len(f.Memory) > 0 {
			if f.DoesNotFit, err = memory.doesNotFit(); err != nil {
				return err
			}
		}
	}
	f.Model, err = modelFacts(m, cfg.Model.LoraConfigs)
	return err
}

// local returns the path of what is on this machine; what is not is noted in f.
func local(name, key string, isDataset bool, f *config.Facts) (string, bool) {
	if _, err := os.Stat(name); err == nil || isDataset && database.IsURL(name) {
		return name, true
	}
	hubName, isName := name, hub.IsName(name)
	if isDataset {
		hubName, isName = datasetName(name), isHubDataset(name)
	}
	if dir, ok := hub.Cached(hubName); ok {
		return dir, true
	}
	if isName {
		f.Fetch[key] = name
	} else {
		f.Missing[key] = name
	}
	return "", false
}

// modelFacts are the sizes of the model and of what is trained of it.
func modelFacts(m *model.Config, loras []config.Lora) (config.ModelFacts, error) {
	f := config.ModelFacts{Known: true, Parameters: m.Parameters(), Trained: m.Parameters()}
	if m.Mixture != nil {
		f.Active = m.ActiveParameters()
	}
	if len(loras) == 0 {
		return f, nil
	}
	adapter, err := adapterOf(m, &loras[0])
	if err != nil {
		return f, err
	}
	specs, err := adapter.Tensors(m)
	if err != nil {
		return f, err
	}
	f.Trained = 0
	for _, s := range specs {
		f.Trained += int64(s.Shape[0]) * int64(s.Shape[1])
	}
	return f, nil
}
