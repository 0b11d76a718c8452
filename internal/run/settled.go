package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/trinity-go/trinity/algorithm"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/model/hub"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/run/feed"
	"github.com/trinity-go/trinity/internal/run/place"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/model/renderer"
	"github.com/trinity-go/trinity/registry"
)

// Settled is one stage of a run with what follows from its configuration. Every plug-in that it
// names is built once, and every model path is looked up once.
type Settled struct {
	*config.Settled
	algorithm *algorithm.Algorithm // nil in modes bench and serve, which read none
	engines   place.Engines
	tasks     []feed.Taskset // of the tasksets that the mode rolls out

	// locate sets the fields below. A path is "" if the model is not on this machine.
	modelPath  string
	criticPath string        // "" also if the stage trains no critic
	rewards    []rewardModel // that the tasks require
	teachers   []teacher
	asked      []auxiliaryModel
	text       *renderer.Renderer // nil if the model has no tokenizer
}

// Resolve builds the plug-ins that a configuration names. Of files it only reads which base model an
// adapter in model.model_path names.
func Resolve(cfg *config.Settled) (*Settled, error) {
	s := &Settled{Settled: cfg}
	err := separateAdapter(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Trains || cfg.Explores || cfg.Records() {
		if s.algorithm, err = buildAlgorithm(cfg); err != nil {
			return nil, err
		}
	}
	if s.engines, err = place.NewEngines(cfg); err != nil {
		return nil, err
	}
	if err := (chat{s}).checkToolCallParser(); err != nil {
		return nil, err
	}
	if s.tasks, err = feed.Tasksets(cfg); err != nil {
		return nil, err
	}
	for i := range s.tasks {
		for key, needs := range s.tasks[i].Needs() {
			for _, spec := range needs.RewardModels {
				s.rewards = append(s.rewards, rewardModel{RewardModelSpec: spec, key: key + spec.Arg})
			}
		}
	}
	return s, (asking{s}).check()
}

// separateAdapter replaces a checkpoint in model.model_path with the model in it, and an adapter with
// its base model, and makes the adapter the first of model.lora_configs.
func separateAdapter(cfg *config.Settled) error {
	m := &cfg.Model
	path := checkpoint.ModelBelow(m.ModelPath)
	base, isAdapter, err := model.AdapterBase(path)
	switch {
	case err != nil:
		return cfg.At(checkpoint.ModelKey, err.Error(), "")
	case !isAdapter:
		base = path
	case len(m.LoraConfigs) > 0 && m.LoraConfigs[0].Path != "":
		return cfg.At("model.lora_configs.0.path", checkpoint.ModelKey+" is an adapter, too", "keep one of them")
	default:
		m.LoraConfigs = append([]config.Lora{}, m.LoraConfigs...)
		if len(m.LoraConfigs) == 0 {
			m.LoraConfigs = make([]config.Lora, 1)
		}
		m.LoraConfigs[0].Path = path
	}
	if m.CriticModelPath == m.ModelPath { // the default
		m.CriticModelPath = base
	}
	m.ModelPath = base
	return nil
}

// buildAlgorithm builds the algorithm. The error names the key whose value does not fit.
func buildAlgorithm(cfg *config.Settled) (*algorithm.Algorithm, error) {
	built, err := algorithm.New(cfg.Method.Parts)
	if wrong := (registry.ArgError{}); errors.As(err, &wrong) {
		return nil, cfg.At("algorithm."+wrong.Key, wrong.Message, wrong.Hint)
	}
	return built, err
}

// finder returns the path of the model that a key names, or false if it is not on this machine.
type finder func(name, key string) (path string, here bool, err error)

// fetch returns a finder that downloads models.
func fetch(ctx context.Context, say func(string)) finder {
	return func(name, _ string) (string, bool, error) {
		path, err := hub.Resolve(ctx, name, say)
		return path, err == nil, err
	}
}

// lookUp returns a finder that downloads nothing. It notes in f which models are not on this
// machine.
func lookUp(f *config.Facts) finder {
	return func(name, key string) (string, bool, error) {
		path, onHub := feed.Local(name, false)
		if path == "" {
			absent(f, key, name, onHub)
		}
		return path, path != "", nil
	}
}

// locate finds the models of the stage and checks those that are on this machine. It loads no
// weights.
func (s *Settled) locate(find finder) (err error) {
	if err := s.locatePolicy(find); err != nil {
		return err
	}
	for i := range s.rewards {
		r := &s.rewards[i]
		if r.path, _, err = find(checkpoint.ModelBelow(r.Path), r.key); err != nil {
			return s.At(r.key, "reward model: "+err.Error(), "")
		}
		if r.path == "" {
			continue
		}
		if err := s.checkRewardModel(r); err != nil {
			return err
		}
	}
	if err := (asking{s}).locate(find); err != nil {
		return err
	}
	s.teachers = nil
	for _, t := range s.Settled.Teachers {
		if t.Served != nil {
			s.teachers = append(s.teachers, teacher{Teacher: t})
			continue
		}
		key := t.Key + ".model_path"
		path, here, err := find(t.Path, key)
		if err != nil {
			return s.At(key, err.Error(), "")
		}
		if !here {
			continue
		}
		if err := s.checkTeacher(path); err != nil {
			return s.At(t.Key, err.Error(), "")
		}
		s.teachers = append(s.teachers, teacher{t, s.teacherSpec(t, path)})
	}
	return nil
}

// locatePolicy finds the model that the stage trains or samples, and the critic's.
func (s *Settled) locatePolicy(find finder) (err error) {
	if s.modelPath, _, err = find(s.Model.ModelPath, checkpoint.ModelKey); err != nil {
		return err
	}
	if s.modelPath != "" {
		if s.text, err = (chat{s}).openText(); err != nil {
			return err
		}
		for i := range s.tasks {
			s.tasks[i].Text = s.text
		}
		if err := (chat{s}).checkTools(); err != nil {
			return err
		}
		if err := nameBase(&s.Model, s.modelPath); err != nil {
			return err
		}
	}
	switch {
	case s.Critic == nil:
	case s.Model.CriticModelPath == s.Model.ModelPath:
		s.criticPath = s.modelPath
	default:
		s.criticPath, _, err = find(s.Model.CriticModelPath, checkpoint.CriticKey)
	}
	return err
}

// nameBase sets the name of the base model that a saved adapter has: a hub name, or a path that does
// not depend on the working directory. The model was found at path.
func nameBase(m *config.Model, path string) (err error) {
	if len(m.LoraConfigs) == 0 || m.LoraConfigs[0].BaseModelName != "" {
		return nil
	}
	name := m.ModelPath
	if name == path { // a file or a directory
		name, err = filepath.Abs(name)
	}
	m.LoraConfigs[0].BaseModelName = name
	return err
}

// located reports whether the policy's and the critic's models are on this machine.
func (s *Settled) located() bool { return s.modelPath != "" && (s.Critic == nil || s.criticPath != "") }

// absent notes in f a model or dataset that is not on this machine.
func absent(f *config.Facts, key, name string, onHub bool) {
	if onHub {
		f.Fetch[key] = name
	} else {
		f.Missing[key] = name
	}
}

// checkDatasets returns an error if a dataset that the stage reads lacks files, or is nowhere: not
// on this machine, not on a hub, and none that a stage before makes.
func checkDatasets(cfg *Settled, before []*Settled) error {
	if done, err := finished(cfg, false); err != nil || done != nil {
		return err
	}
	makes, err := feed.TaskPipelineOf(cfg.Settled)
	if err != nil {
		return err
	}
	read := cfg.Sources()
	for _, d := range feed.Datasets(cfg.Settled, makes.Pending()) {
		key := d.Key + ".path"
		made := slices.ContainsFunc(before, func(s *Settled) bool { return s.Leaves(d.Path) })
		if made || !slices.Contains(read, key) {
			continue
		}
		path, onHub := feed.Local(d.Path, true)
		if path == "" && !onHub {
			return cfg.At(key, fmt.Sprintf("dataset %s: no such file or directory", d.Path), "")
		}
		if path != "" && !dburl.IsURL(path) {
			if err := dataset.Find(path, d.Options); err != nil {
				return cfg.At(key, err.Error(), "")
			}
		}
	}
	return nil
}

// OpenText opens the tokenizer and the chat template of a stage's model, if the model is on this machine.
// It loads no weights, and downloads and starts nothing.
func OpenText(cfg *config.Settled) (*renderer.Renderer, error) {
	s := &Settled{Settled: cfg}
	if err := separateAdapter(cfg); err != nil {
		return nil, err
	}
	if s.modelPath, _ = feed.Local(checkpoint.ModelBelow(cfg.Model.ModelPath), false); s.modelPath == "" {
		return nil, fmt.Errorf("the model %s is not on this machine", cfg.Model.ModelPath)
	}
	text, err := (chat{s}).openText()
	if err == nil && text == nil {
		err = fmt.Errorf("the model %s has no tokenizer", cfg.Model.ModelPath)
	}
	return text, err
}

// reader returns what opens the data of the stage.
func (s *Settled) reader(say func(string)) feed.Reader {
	return feed.Reader{Settled: s.Settled, Say: say, Tasksets: s.tasks, Algorithm: s.algorithm, Text: s.text, ModelPath: s.modelPath}
}
