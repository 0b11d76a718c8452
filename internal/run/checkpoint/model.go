package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/model/renderer"
	"github.com/trinity-go/trinity/registry"
)

// ModelName returns the last element of a model's path: of a model in a checkpoint, the checkpoint's.
func ModelName(path string) string {
	for _, sub := range []string{AdapterDir, ModelDir} {
		path = strings.TrimSuffix(filepath.Clean(path), string(filepath.Separator)+filepath.FromSlash(sub))
	}
	return filepath.Base(path)
}

// ModelBelow returns the directory of the adapter or the model in a checkpoint or in its directory
// actor. It returns any other path unchanged.
func ModelBelow(path string) string {
	for _, sub := range []string{AdapterDir, ModelDir} {
		for _, base := range []string{path, filepath.Dir(path)} {
			dir := filepath.Join(base, sub)
			if _, err := os.Stat(dir); err == nil && path != "" {
				return dir
			}
		}
	}
	return path
}

// Above returns the checkpoint in which a path is, or which it is itself; "" if there is none.
func Above(path string) string {
	for range strings.Count(ModelDir, "/") + 2 {
		if _, err := os.Stat(filepath.Join(path, stateFile)); err == nil && strings.HasPrefix(filepath.Base(path), rundir.StepPrefix) {
			return path
		}
		path = filepath.Dir(path)
	}
	return ""
}

// Read returns the step of a checkpoint and what it was made with.
func Read(dir string) (step int64, made Provenance, err error) {
	state, err := readState(dir)
	return state.Step, state.Made, err
}

// ServedName returns the name of the model in requests: that of the adapter if the model is one, else
// that of the model.
func ServedName(m *config.Model) string {
	if loras := m.LoraConfigs; len(loras) > 0 && loras[0].Path != "" {
		return ModelName(loras[0].Path)
	}
	return ModelName(m.ModelPath)
}

// Finder returns the path of a model, which it may download.
type Finder func(name string) (path string, err error)

// Open returns the directory of the model that a path names: a model, a checkpoint, or the directory of a
// run or a stage, of which it takes the best checkpoint if the run keeps one, else the newest. If the
// checkpoint has only what training resumes from, Open writes the model into it. Any other path, such as
// a hub name, is returned unchanged.
func Open(path string, find Finder, say func(string)) (string, error) {
	at := inRun(path)
	if at != path {
		say(fmt.Sprintf("%s is a run: this opens its checkpoint %s", path, at))
	}
	if dir := withoutModel(at); dir != "" {
		return writeModel(dir, policy, find, say)
	}
	return ModelBelow(at), nil
}

// OpenCritic is Open for the critic in a checkpoint. Any other path is returned unchanged.
func OpenCritic(path string, find Finder, say func(string)) (string, error) {
	dir := Above(path)
	switch {
	case dir == "" || dir != filepath.Clean(path):
		return path, nil
	case exists(filepath.Join(dir, CriticModelDir)):
		return filepath.Join(dir, CriticModelDir), nil
	case exists(filepath.Join(dir, CriticEngineDir)):
		return writeModel(dir, critic, find, say)
	}
	return "", fmt.Errorf("%s has no critic: name a checkpoint of a run whose algorithm trains one, or a model", dir)
}

// Named returns the model, the adapter or the checkpoint that a path names, as Open finds it. An adapter
// is small, so Named writes it if the checkpoint lacks it; a checkpoint without its model is returned itself.
func Named(path string, find Finder) (string, error) {
	at := inRun(path)
	dir := withoutModel(at)
	if dir == "" {
		return ModelBelow(at), nil
	}
	state, err := readState(dir)
	if err == nil && state.Made.trainsAdapter() {
		return writeModel(dir, policy, find, func(string) {})
	}
	return dir, err
}

// Lookup is Open for those who plan: it writes no model of all weights. Instead of one that a checkpoint
// lacks it returns the model that its run began with, which has the same shape.
func Lookup(path string, find Finder) (string, error) {
	at, err := Named(path, find)
	if err != nil || withoutModel(at) == "" {
		return at, err
	}
	state, err := readState(at)
	if err != nil {
		return "", err
	}
	return began(at, state.Made, ModelKey, find)
}

// withoutModel returns the checkpoint that a path names, or a folder of, if it has only what training
// resumes from; else "".
func withoutModel(path string) string {
	dir := Above(path)
	if dir == "" || ModelBelow(path) != path || !exists(filepath.Join(dir, EngineDir)) {
		return ""
	}
	below, err := filepath.Rel(dir, path)
	if err != nil || !slices.Contains([]string{".", "actor", ModelDir, AdapterDir}, filepath.ToSlash(below)) || ModelBelow(dir) != dir {
		return ""
	}
	return dir
}

// inRun returns the checkpoint that stands for the directory of a run or a stage: the best one if the run
// keeps it, or that with which the stage began if this was better; else the newest. Any other path is returned unchanged.
func inRun(path string) string {
	if path == "" || exists(filepath.Join(path, "config.json")) {
		return path
	}
	stages := []string{path}
	entries, _ := os.ReadDir(path) // a path that is no directory is no run either
	for _, e := range entries {
		if e.IsDir() {
			stages = append(stages, filepath.Join(path, e.Name()))
		}
	}
	newest, when := "", time.Time{}
	for _, stage := range stages {
		d := Dir{Path: stage}
		all, err := rundir.Checkpoints(d.Path)
		if err != nil || len(all) == 0 {
			continue
		}
		at := d.preferred(all)
		info, err := os.Stat(filepath.Join(at, stateFile))
		if err == nil && (newest == "" || info.ModTime().After(when)) {
			newest, when = at, info.ModTime()
		}
	}
	return cmp.Or(newest, path)
}

// part is a model of a checkpoint.
type part struct {
	state, model, adapter string // paths below the checkpoint
	key                   string // of the model that it began as
	head                  string
}

var (
	policy = part{EngineDir, ModelDir, AdapterDir, ModelKey, engine.LogprobHead}
	critic = part{CriticEngineDir, CriticModelDir, "", CriticKey, engine.ValueHead}
)

// Lock waits until no other process writes models into a checkpoint.
func Lock(ctx context.Context, dir string) (release func(), err error) {
	release, err = durable.Acquire(ctx, filepath.Join(dir, durable.LockPrefix+"model"))
	if errors.Is(err, os.ErrPermission) {
		err = fmt.Errorf("%w: copy the checkpoint to where you may write", err)
	}
	return release, err
}

// writeModel writes a model of a checkpoint that training has not written, from the engine's state.
func writeModel(dir string, p part, find Finder, say func(string)) (string, error) {
	if err := durable.Verify(dir); err != nil {
		return "", err
	}
	state, err := readState(dir)
	if err != nil {
		return "", err
	}
	base, err := began(dir, state.Made, p.key, find)
	if err != nil {
		return "", err
	}
	reader, err := readerOf(state.Made)
	if err != nil {
		return "", fmt.Errorf("%s has only what training resumes from, and %w", dir, err)
	}
	spec := engine.TrainerSpec{ModelPath: base, Head: p.head}
	out := filepath.Join(dir, p.model)
	if p.adapter != "" && state.Made.trainsAdapter() {
		out = filepath.Join(dir, p.adapter)
		spec.LoRA = &engine.LoRASpec{BaseModelName: state.Made.Settings[loraKeys+"base_model_name"]}
	}
	release, err := Lock(context.Background(), dir)
	if err != nil {
		return "", fmt.Errorf("%s has only what training resumes from, and its model cannot be written there: %w", dir, err)
	}
	defer release()
	if exists(out) { // another process was first
		return out, nil
	}
	say(fmt.Sprintf("%s has only what training resumes from, so its model is written to %s", dir, out))
	text, err := renderer.Open(base, renderer.Options{})
	if err != nil {
		return "", err
	}
	err = durable.WriteDir(out, func(temp string) error {
		if err := reader.WriteModel(spec, filepath.Join(dir, p.state), temp); err != nil {
			return err
		}
		if text != nil {
			if err := text.Tokenizer().WriteFiles(temp); err != nil {
				return err
			}
		}
		return durable.Seal(temp)
	})
	return out, err
}

// readerOf returns what reads the states of the engine that made a checkpoint.
func readerOf(made Provenance) (engine.StateReader, error) {
	names := append([]string{made.Settings["trainer.trainer_type"]}, registry.Trainers.Auto...)
	for _, name := range names {
		if !registry.Trainers.Has(name) {
			continue
		}
		opener, err := registry.Trainers.Build(name)
		if err != nil {
			return nil, err
		}
		if reader, ok := opener.(engine.StateReader); ok {
			return reader, nil
		}
		break // its files are its own
	}
	return nil, fmt.Errorf("the engine %s alone reads it: resume the run with trainer.save_hf_checkpoint=always, "+
		"so that its next checkpoint has a model", cmp.Or(names[0], "auto"))
}

// trainsAdapter reports whether the run trained an adapter.
func (m Provenance) trainsAdapter() bool {
	for key := range m.Settings {
		if strings.HasPrefix(key, loraKeys) {
			return true
		}
	}
	return false
}

// began returns the path of the model that the run of a checkpoint began with. A relative path of a run
// that was started elsewhere is also looked for beside the directories in which the run is.
func began(dir string, made Provenance, key string, find Finder) (path string, err error) {
	name := made.Settings[key]
	if name == "" {
		return "", fmt.Errorf("%s has only what training resumes from, and does not say with which model its run began", dir)
	}
	path = placeOf(dir, name)
	isWhole := withoutModel(path) == "" // else another model of the same shape stands for it
	if path, err = Lookup(path, find); err == nil {
		path, err = find(path)
	}
	if err == nil && !exists(path) {
		err = errors.New("it is not on this machine")
	}
	if err != nil {
		return "", fmt.Errorf("%s has only what training resumes from, and needs the model that its run began with, %s: %w; put it back, "+
			"or start the command where the run was started", dir, name, err)
	}
	if key != ModelKey || made.Model == "" || !isWhole {
		return path, nil
	}
	switch sum, err := Fingerprint(path, IsModelFile); {
	case err != nil:
		return "", err
	case sum != made.Model:
		return "", fmt.Errorf("%s has only what training resumes from, and %s is not the model any more that its run began with: put that back",
			dir, name)
	}
	return path, nil
}

// placeOf returns where a path of the configuration of a checkpoint's run leads. A relative one may begin in a directory
// above the checkpoint, if the run was started elsewhere.
func placeOf(dir, name string) string {
	if exists(name) || filepath.IsAbs(name) {
		return name
	}
	if above, err := filepath.Abs(dir); err == nil {
		for ; above != filepath.Dir(above); above = filepath.Dir(above) {
			if at := filepath.Join(above, filepath.FromSlash(name)); exists(at) {
				return at
			}
		}
	}
	return name
}

// Start returns the checkpoint of an earlier stage with whose model the stage of a checkpoint began; "" if there is none.
func Start(dir string) string {
	_, made, err := Read(dir)
	if name := cmp.Or(made.Settings[AdapterKey], made.Settings[ModelKey]); err == nil && name != "" {
		return Above(placeOf(dir, name))
	}
	return ""
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }
