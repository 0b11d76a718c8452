// Package settle builds the plug-ins of a stage, finds its models and data, checks what they need of one another, and
// opens the models.
package settle

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/trinity-go/trinity/algorithm"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/model/hub"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/run/feed"
	"github.com/trinity-go/trinity/internal/run/place"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/model/renderer"
	"github.com/trinity-go/trinity/registry"
)

// Stage is one stage of a run with what follows from its configuration. Every plug-in that it
// names is built once, and every model path is looked up once.
type Stage struct {
	*config.Settled
	Objective *algorithm.Algorithm // nil in modes bench and serve, which read none
	Openers   place.Engines
	Tasksets  []feed.Taskset // of the tasksets that the mode rolls out
	asked     []Auxiliary    // by their plug-ins; locate finds them

	// locate sets the fields below. A path is "" if the model is not on this machine.
	ModelPath     string
	CriticPath    string        // "" also if the stage trains no critic
	Rewards       []rewardModel // that the tasks require
	teacherModels []teacherModel
	Text          *renderer.Renderer // nil if the model has no tokenizer
	runs          bool               // and keeps the images that it shows; a plan writes nothing
}

// Resolve builds the plug-ins that a configuration names. Of files it only reads which base model an
// adapter in model.model_path names.
func Resolve(cfg *config.Settled) (*Stage, error) {
	s := &Stage{Settled: cfg}
	err := separateAdapter(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Trains || cfg.Explores || cfg.Records() {
		if s.Objective, err = buildAlgorithm(cfg); err != nil {
			return nil, err
		}
	}
	if s.Openers, err = place.NewEngines(cfg); err != nil {
		return nil, err
	}
	if err := checkToolCallParser(cfg); err != nil {
		return nil, err
	}
	if s.Tasksets, err = feed.Tasksets(cfg); err != nil {
		return nil, err
	}
	for i := range s.Tasksets {
		for key, needs := range s.Tasksets[i].Needs() {
			for _, spec := range needs.RewardModels {
				s.Rewards = append(s.Rewards, rewardModel{RewardModelSpec: spec, Key: key + spec.Arg})
			}
		}
	}
	if err := checkWords(cfg, s.Objective, s.Tasksets); err != nil {
		return nil, err
	}
	s.asked, err = checkAsked(cfg, s.Tasksets)
	return s, err
}

// separateAdapter replaces a checkpoint in model.model_path with the model in it, and an adapter with
// its base model, and makes the adapter the first of model.lora_configs.
func separateAdapter(cfg *config.Settled) error {
	m := &cfg.Model
	path, err := checkpoint.Named(m.ModelPath, here)
	if err != nil {
		return cfg.At(checkpoint.ModelKey, err.Error(), "")
	}
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

// finder returns the path of the model that a key names, "" if it is not on this machine.
type finder func(name, key string) (path string, err error)

// here finds a model that is on this machine; "" if it is not.
func here(name string) (string, error) {
	path, _ := feed.Local(name, false)
	return path, nil
}

// fetch returns a finder that downloads models, and writes those that checkpoints lack.
func fetch(ctx context.Context, cfg *config.Settled, say func(string)) finder {
	return func(name, key string) (string, error) {
		download := func(name string) (string, error) { return hub.Resolve(ctx, name, say) }
		if isAtService(cfg, key) {
			download = func(name string) (string, error) { return hub.ResolveText(ctx, name, say) }
		}
		open := checkpoint.Open
		if key == checkpoint.CriticKey {
			open = checkpoint.OpenCritic
		}
		path, err := open(name, download, say)
		if err != nil {
			return "", err
		}
		return download(path)
	}
}

// isAtService reports whether a key names a model whose weights a service has, or of which only the tokenizer is read.
func isAtService(cfg *config.Settled, key string) bool {
	if key == checkpoint.ModelKey && cfg.Model.ExternalModel.Enable && !cfg.Trains {
		return true
	}
	return cfg.Model.Tinker.Enable && (key == checkpoint.ModelKey || slices.ContainsFunc(cfg.Teachers, func(t config.Teacher) bool {
		return t.Served == nil && key == t.Key+".model_path"
	}))
}

// Fetch finds the models of the stage, downloads those that are not on this machine, and checks them.
func (s *Stage) Fetch(ctx context.Context, say func(string)) error {
	s.runs = true
	return s.locate(fetch(ctx, s.Settled, say))
}

// FetchPolicy finds the model that the stage trains or samples, and the critic's.
func (s *Stage) FetchPolicy(ctx context.Context, say func(string)) error {
	s.runs = true
	return s.locatePolicy(fetch(ctx, s.Settled, say))
}

// LookUp finds the models of the stage that are on this machine, and downloads none. It notes in f which are not.
func (s *Stage) LookUp(f *config.Facts) error {
	return s.locate(func(name, key string) (string, error) { return s.lookUp(f, name, key) })
}

// lookUp finds a model that is on this machine, and notes another one in f.
func (s *Stage) lookUp(f *config.Facts, name, key string) (string, error) {
	name, err := checkpoint.Lookup(name, here)
	if err != nil {
		return "", s.At(key, err.Error(), "")
	}
	path, onHub := feed.Local(name, false)
	if isAtService(s.Settled, key) && path == "" {
		path, _ = hub.CachedText(name)
	}
	if path == "" {
		absent(f, key, name, onHub)
	}
	return path, nil
}

// locate finds the models of the stage and checks those that are on this machine. It loads no
// weights.
func (s *Stage) locate(find finder) (err error) {
	if err := s.locatePolicy(find); err != nil {
		return err
	}
	for i := range s.Rewards {
		r := &s.Rewards[i]
		if r.Local, err = find(r.Path, r.Key); err != nil {
			return s.At(r.Key, "reward model: "+err.Error(), "")
		}
		if r.Local == "" {
			continue
		}
		if err := s.checkRewardModel(r); err != nil {
			return err
		}
	}
	if err = locateAsked(s.Settled, s.asked, find); err != nil {
		return err
	}
	s.teacherModels = nil
	for _, t := range s.Settled.Teachers {
		if t.Served != nil {
			s.teacherModels = append(s.teacherModels, teacherModel{Teacher: t})
			continue
		}
		key := t.Key + ".model_path"
		path, err := find(t.Path, key)
		if err != nil {
			return s.At(key, err.Error(), "")
		}
		if path == "" {
			continue
		}
		if err := s.CheckTeacher(path); err != nil {
			return s.At(t.Key, err.Error(), "")
		}
		s.teacherModels = append(s.teacherModels, teacherModel{t, s.teacherSpec(t, path)})
	}
	return nil
}

// locatePolicy finds the model that the stage trains or samples, and the critic's.
func (s *Stage) locatePolicy(find finder) (err error) {
	if s.ModelPath, err = find(s.Model.ModelPath, checkpoint.ModelKey); err != nil {
		return err
	}
	if s.ModelPath != "" {
		if s.Text, err = openText(s.Settled, s.ModelPath, s.runs); err != nil {
			return err
		}
		for i := range s.Tasksets {
			s.Tasksets[i].Text = s.Text
		}
		if err := s.checkTools(); err != nil {
			return err
		}
		if err := nameBase(&s.Model, s.ModelPath); err != nil {
			return err
		}
	}
	switch {
	case s.Critic == nil:
	case s.Model.CriticModelPath == s.Model.ModelPath:
		s.CriticPath = s.ModelPath
	default:
		s.CriticPath, err = find(s.Model.CriticModelPath, checkpoint.CriticKey)
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

// absent notes in f a model or dataset that is not on this machine.
func absent(f *config.Facts, key, name string, onHub bool) {
	if onHub {
		f.Fetch[key] = name
	} else {
		f.Missing[key] = name
	}
}

// OpenText opens the tokenizer and the chat template of a stage's model, if the model is on this machine.
// It loads no weights, and downloads and starts nothing.
func OpenText(cfg *config.Settled) (*renderer.Renderer, error) {
	if err := separateAdapter(cfg); err != nil {
		return nil, err
	}
	path, err := checkpoint.Lookup(cfg.Model.ModelPath, here)
	if err == nil {
		path, err = here(path)
	}
	if err != nil {
		return nil, err
	}
	if path == "" {
		return nil, fmt.Errorf("the model %s is not on this machine", cfg.Model.ModelPath)
	}
	text, err := openText(cfg, path, false)
	if err == nil && text == nil {
		err = fmt.Errorf("the model %s has no tokenizer", cfg.Model.ModelPath)
	}
	return text, err
}

// Reader returns what opens the data of the stage.
func (s *Stage) Reader(say func(string)) feed.Reader {
	return feed.Reader{Settled: s.Settled, Say: say, Tasksets: s.Tasksets, Objective: s.Objective, Text: s.Text, ModelPath: s.ModelPath}
}

// OpenCheckpoint returns the directory of the model or the adapter in a checkpoint, which it writes if
// training did not.
func (s *Stage) OpenCheckpoint(dir string, say func(string)) (string, error) {
	return checkpoint.Open(dir, here, say)
}

// OpenCritic is OpenCheckpoint for the critic.
func (s *Stage) OpenCritic(dir string, say func(string)) (string, error) {
	return checkpoint.OpenCritic(dir, here, say)
}

// ModelDir returns the directory of the model or the adapter in a checkpoint.
func (s *Stage) ModelDir() string {
	if len(s.Model.LoraConfigs) > 0 {
		return checkpoint.AdapterDir
	}
	return checkpoint.ModelDir
}

// Vocabulary returns how many token ids the policy may sample. A model may have more embeddings than its tokenizer has
// tokens, and samples each of them.
func (s *Stage) Vocabulary() int {
	size := s.Text.Tokenizer().VocabSize()
	if s.ModelPath == "" {
		return size
	}
	if m, err := model.ReadConfig(s.ModelPath); err == nil { // else the engine says what is wrong with it
		size = max(size, m.VocabSize)
	}
	return size
}
