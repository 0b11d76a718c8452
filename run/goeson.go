package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/config"
	"github.com/trinity-go/trinity/dataset"
	"github.com/trinity-go/trinity/serve/fleet"
)

// made is what a checkpoint was made with, as far as a run that goes on from it must have the same, or says that it has not.
type made struct {
	Settings map[string]string `json:"settings"`       // by dotted key
	Model    string            `json:"model"`          // fingerprint; "" if not known
	Data     map[string]string `json:"data,omitempty"` // fingerprints by the key that names the dataset, of what is trained on
}

// madeWith is what the checkpoints of a stage are made with.
func madeWith(cfg *Settled) (made, error) {
	m := made{Data: map[string]string{}}
	var err error
	if m.Settings, err = settings(cfg); err != nil {
		return m, err
	}
	f := config.Facts{Fetch: map[string]string{}, Missing: map[string]string{}}
	if cfg.modelPath != "" {
		if m.Model, err = fingerprint(cfg.modelPath, isModelFile); err != nil {
			return m, err
		}
	}
	read, err := datasets(cfg)
	if err != nil {
		return m, err
	}
	sources := cfg.Sources()
	for _, d := range read {
		key := d.key + ".path"
		path, ok := local(d.path, key, true, &f)
		if !ok || !slices.Contains(sources, key) || strings.Contains(key, ".eval_") {
			continue
		}
		if m.Data[key], err = fingerprint(path, func(name string) bool { return d.of.TaskDir || dataset.IsFile(name) }); err != nil {
			return m, err
		}
	}
	return m, nil
}

const (
	modelKey  = "model.model_path"
	criticKey = "model.critic_model_path"
	loraKeys  = "model.lora_configs.0."
	storeKey  = "buffer.trainer_input.experience_buffer.storage_type"
)

// begins are the keys of what a stage begins with.
var begins = []string{modelKey, criticKey, loraKeys + "path"}

// shaping are the sections of a configuration that what is learnt depends on.
var shaping = []string{"mode", "seed", "algorithm", "buffer", "cod", "data_processor", "explorer", "model", "synchronizer", "trainer"}

// aside are the ends of keys in these sections that it does not depend on.
var aside = []string{"_dir", "_timeout", "_port", "_address", "save_path", "max_checkpoints_to_keep", "explorer.name"}

// secrets are such ends too: they are kept nowhere.
var secrets = []string{"api_key", "token", "secret", "password", "webhook_url"}

// settings are those of the effective configuration that shape what is learnt.
func settings(cfg *Settled) (map[string]string, error) {
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	flat := map[string]string{}
	for _, section := range shaping {
		if v, ok := tree[section]; ok {
			flatten(flat, section, v)
		}
	}
	if cfg.Critic == nil {
		delete(flat, criticKey)
	} else if flat[optimizers[1]] == "" {
		flat[optimizers[1]] = flat[optimizers[0]]
	}
	for _, key := range optimizers {
		if flat[key] == "adam" { // another name of it
			flat[key] = trinity.AdamW
		}
	}
	maps.DeleteFunc(flat, func(key, _ string) bool {
		return slices.ContainsFunc(slices.Concat(aside, secrets), func(end string) bool { return strings.HasSuffix(key, end) })
	})
	return flat, nil
}

func flatten(into map[string]string, key string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, item := range v {
			flatten(into, key+"."+name, item)
		}
	case []any:
		for i, item := range v {
			flatten(into, fmt.Sprintf("%s.%d", key, i), item)
		}
	default:
		into[key] = fmt.Sprint(v)
	}
}

// optimizers are those of the policy and of the critic, which has the policy's unless it says otherwise.
var optimizers = []string{"algorithm.optimizer.optimizer_type", "trainer.trainer_config.critic.optim.optimizer_type"}

// shape are the settings of an adapter that give its shape.
var shape = []string{"lora_rank", "lora_alpha", "target_modules", "exclude_modules", "use_rslora"}

// fixed reports settings without which a checkpoint cannot be gone on from: what it holds has their shape. Of a critic that was not there before, and of an adapter whose shape a
// file gives, the engine says so.
func fixed(key string, was, is map[string]string) bool {
	rest, lora := strings.CutPrefix(key, loraKeys)
	name, _, _ := strings.Cut(rest, ".")
	switch {
	case lora:
		return slices.Contains(shape, name) && !has(was, loraKeys+"path") && !has(is, loraKeys+"path")
	case key == storeKey: // a place in one kind of buffer is none in another; sql and file may be datasets
		return was[key] == "queue" || is[key] == "queue"
	case key == optimizers[1]:
		return has(was, key) && has(is, key)
	}
	return key == optimizers[0] || key == "algorithm.algorithm_type" || key == "explorer.share" && is["mode"] != "train" // where nobody reads it
}

// changes compares with what the newest checkpoint was made with, if the stage goes on from one: what it cannot be gone on with is the error, a line for each
// difference; what it can is told, a line for each. The model is compared if the configuration names the one that the stage begins with.
func (m made) changes(cfg *Settled, model bool) (told []string, err error) {
	if !cfg.ContinueFromCheckpoint || !slices.Contains([]string{"both", "colocate", "train"}, cfg.Mode) {
		return nil, nil
	}
	if err := alone(cfg); err != nil {
		return nil, err
	}
	ckpt := checkpoints{dir: cfg.CheckpointJobDir, say: func(string) {}}
	step, ok, err := ckpt.newest()
	if err != nil || !ok {
		return nil, err
	}
	state, err := readState(ckpt.path(step))
	if err != nil || state.Made.Settings == nil {
		return nil, nil // what is wrong with it is said when it is read
	}
	var wrong []error
	refuse := func(key, what string) {
		wrong = append(wrong, cfg.At(key, fmt.Sprintf("%s, so the run cannot go on from %s", what, filepath.Base(ckpt.path(step))), "put it back, or "+anew))
	}
	if was := state.Made.Model; model && was != "" && m.Model != "" && was != m.Model {
		refuse(modelKey, "is another model than the checkpoint's: its shape, tokenizer or weights differ")
	}
	for _, key := range slices.Sorted(maps.Keys(m.Data)) {
		if was := state.Made.Data[key]; was != "" && was != m.Data[key] {
			refuse(key, "holds other data than when the checkpoint was written")
		}
	}
	for _, key := range differing(state.Made.Settings, m.Settings) {
		was, is := shown(state.Made.Settings, key), shown(m.Settings, key)
		switch {
		case fixed(key, state.Made.Settings, m.Settings):
			refuse(key, fmt.Sprintf("is %s and was %s", is, was))
		case model || !slices.Contains(begins, key):
			told = append(told, fmt.Sprintf("%s is %s after step %d, and was %s", key, is, step, was))
		}
	}
	return told, errors.Join(wrong...)
}

// alone refuses to go on with the rows of several explorers as one, in the process of the trainer: it would not know what the others have explored.
func alone(cfg *Settled) error {
	if !cfg.Together {
		return nil
	}
	names, err := fleet.Explorers(cfg.CheckpointJobDir)
	others := slices.DeleteFunc(names, func(name string) bool { return name == cfg.Explorer.Name })
	if err != nil || len(others) == 0 {
		return err
	}
	return cfg.At("mode", fmt.Sprintf("is %s, which has explorer %s alone, and the run has the explorers %s, whose rows would be explored again", cfg.Mode, cfg.Explorer.Name, strings.Join(others, ", ")),
		"go on in modes train and explore, or "+anew)
}

// differing are the keys of two maps whose values are not the same.
func differing(a, b map[string]string) []string {
	keys := map[string]bool{}
	for _, m := range []map[string]string{a, b} {
		for key := range m {
			if av, in := a[key]; !in || av != b[key] || !has(b, key) {
				keys[key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

func has(m map[string]string, key string) bool { _, ok := m[key]; return ok }

func shown(m map[string]string, key string) string {
	if v, ok := m[key]; ok && v != "" {
		return v
	}
	return "not set"
}
