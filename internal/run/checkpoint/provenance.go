package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
)

// Provenance tells what a checkpoint was made with.
type Provenance struct {
	Settings map[string]string `json:"settings"`       // by dotted key; see Settings
	Model    string            `json:"model"`          // fingerprint; "" if not known
	Data     map[string]string `json:"data,omitempty"` // fingerprints of datasets, by the key that names the path
}

// Keys of a configuration. Between two stages of a run, the keys in begins change by themselves.
const (
	ModelKey   = "model.model_path"
	CriticKey  = "model.critic_model_path"
	loraKeys   = "model.lora_configs.0."
	AdapterKey = loraKeys + "path"
	replayKey  = "algorithm.enable_router_replay"
	recordKey  = "explorer.rollout_model.enable_return_routed_experts"
	storageKey = "buffer.trainer_input.experience_buffer.storage_type"
)

var begins = []string{ModelKey, CriticKey, AdapterKey}

// shaping are the sections of a configuration that decide what a run learns.
var shaping = []string{
	"mode", "seed", "algorithm", "buffer", "cod", "data_processor", "explorer", "model", "synchronizer", "trainer",
}

// aside are the ends of keys in these sections that do not decide it.
var aside = []string{
	"_dir", "_timeout", "_port", "_address", "api_key", "base_urls", "save_path", "max_checkpoints_to_keep", "explorer.name",
	"trainer.keep_best", "trainer.patience",
}

// optimizers are the keys of the policy's optimizer, and of the critic's. The critic has the
// policy's unless the file says otherwise.
var optimizers = []string{"algorithm.optimizer.optimizer_type", "trainer.trainer_config.critic.optim.optimizer_type"}

// shape are the settings of an adapter that decide its shape.
var shape = []string{"lora_rank", "lora_alpha", "target_modules", "exclude_modules", "target_parameters", "use_rslora"}

// Settings returns the settings that decide what a run learns, by dotted key. Stars replace
// secrets: a run notices that there is one, and does not notice that it has changed, because keys
// are replaced while a run goes on, and a hash would let readers of run.json test guesses.
func Settings(cfg *config.Settled) (map[string]string, error) {
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	maps.DeleteFunc(tree, func(section string, _ any) bool { return !slices.Contains(shaping, section) })
	flat := map[string]string{}
	for key, v := range config.Flatten(tree) {
		flat[key] = fmt.Sprint(v)
	}
	if cfg.Critic == nil {
		delete(flat, CriticKey)
	} else if flat[optimizers[1]] == "" {
		flat[optimizers[1]] = flat[optimizers[0]]
	}
	for _, key := range optimizers {
		if flat[key] == "adam" { // another name of AdamW
			flat[key] = engine.AdamW
		}
	}
	maps.DeleteFunc(flat, func(key, _ string) bool {
		return slices.ContainsFunc(aside, func(end string) bool { return strings.HasSuffix(key, end) })
	})
	return flat, nil
}

// Compare holds a run against its newest checkpoint. The error has a line for each difference that
// keeps the run from resuming; told has a line for each of the others. begun reports whether the
// run began with the model that its configuration names: later stages begin with another.
func (d *Dir) Compare(cfg *config.Settled, now Provenance, begun bool) (told []string, err error) {
	quiet := Dir{Path: d.Path, Say: func(string) {}}
	step, ok, err := quiet.newest()
	if err != nil || !ok {
		return nil, err
	}
	state, err := readState(d.Of(step))
	if err != nil || state.Made.Settings == nil {
		return nil, nil // the run reports what is wrong with it
	}
	var wrong []error
	for key, value := range state.Made.Settings { // versions without [config.Mask] kept secrets in clear
		state.Made.Settings[key] = fmt.Sprint(config.Mask(key, value))
	}
	for _, c := range state.Made.changes(now, begun) {
		if c.fixed {
			what := fmt.Sprintf("%s, so the run cannot go on from %s", c.what, filepath.Base(d.Of(step)))
			wrong = append(wrong, cfg.At(c.key, what, "put it back, or "+Anew))
		} else {
			told = append(told, fmt.Sprintf("%s is %s after step %d, and was %s", c.key, c.is, step, c.was))
		}
	}
	return told, errors.Join(wrong...)
}

// RefuseChanges returns an error with a line for each difference between a finished stage and its
// configuration now: nothing is left to do with other settings.
func (m Provenance) RefuseChanges(cfg *config.Settled, now Provenance, begun bool) error {
	if m.Settings == nil {
		return nil
	}
	var wrong []error
	for _, c := range m.changes(now, begun) {
		wrong = append(wrong, cfg.At(c.key, c.what+", and the stage is finished",
			"put it back, or start all stages anew: with --anew, or under another name with name=NEW"))
	}
	return errors.Join(wrong...)
}

// LessThan reports whether the settings now ask for more steps than these.
func (m Provenance) LessThan(now map[string]string) bool {
	return slices.ContainsFunc([]string{"buffer.total_steps", "buffer.total_epochs", "trainer.total_steps"}, func(key string) bool {
		was, err := strconv.ParseInt(m.Settings[key], 10, 64)
		is, err2 := strconv.ParseInt(now[key], 10, 64)
		return err == nil && err2 == nil && was < is
	})
}

// change is a difference between two Made.
type change struct {
	key, what string
	is, was   string
	fixed     bool // a checkpoint cannot be resumed with it
}

// changes lists the differences of a run that resumes from one with the settings of now.
func (m Provenance) changes(now Provenance, begun bool) (all []change) {
	if begun && m.Model != "" && now.Model != "" && m.Model != now.Model {
		all = append(all, change{key: ModelKey, fixed: true,
			what: "is another model than the checkpoint's: its shape, tokenizer or weights differ"})
	}
	for _, key := range slices.Sorted(maps.Keys(now.Data)) {
		if was := m.Data[key]; was != "" && was != now.Data[key] {
			all = append(all, change{key: key, fixed: true, what: "holds other data than when the checkpoint was written"})
		}
	}
	for _, key := range differing(m.Settings, now.Settings) {
		c := change{key: key, is: shown(now.Settings, key), was: shown(m.Settings, key), fixed: fixed(key, m.Settings, now.Settings)}
		c.what = fmt.Sprintf("is %s and was %s", c.is, c.was)
		if c.fixed || begun || !slices.Contains(begins, key) {
			all = append(all, c)
		}
	}
	return all
}

// fixed reports whether a checkpoint has the shape of a setting, so that a run with another value
// cannot resume from it. If there was no critic before, or a file gives the shape of an adapter,
// the engine reports what does not fit.
func fixed(key string, was, is map[string]string) bool {
	rest, lora := strings.CutPrefix(key, loraKeys)
	name, _, _ := strings.Cut(rest, ".")
	switch {
	case lora:
		return slices.Contains(shape, name) && !has(was, loraKeys+"path") && !has(is, loraKeys+"path")
	case key == storageKey: // a place in a queue is none in a dataset, which sql and file may be
		return was[key] == "queue" || is[key] == "queue"
	case key == replayKey: // the buffer may hold experiences without experts
		return is[key] == "true" && was[recordKey] != "true"
	case key == optimizers[1]:
		return has(was, key) && has(is, key)
	}
	return key == optimizers[0] || key == "algorithm.algorithm_type" || key == "explorer.share" && is["mode"] != "train"
}

// differing lists the keys whose values differ in two maps.
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
