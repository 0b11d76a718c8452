package sweep

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/rundir"
)

// settingsPrefix begins the line of the log with the settings that a run was started with.
const settingsPrefix = "sweep: settings "

// settingsOf returns the settings that a run must resume with, by dotted key. Before the key of a stage
// stands the stage's name.
func settingsOf(cfg *config.Config) map[string]string {
	out := map[string]string{}
	for i, c := range cfg.Settled() {
		stage := ""
		if len(cfg.Stages) > 0 {
			stage = cfg.Stages[i].StageName + ": "
		}
		for key, value := range c.Settings() {
			if !mayChange(key) {
				out[stage+key] = fmt.Sprint(value)
			}
		}
	}
	return out
}

// mayChange reports whether a run can resume with another value of a key. Such a key extends the run,
// or changes nothing that the run learns.
func mayChange(key string) bool {
	switch key {
	case "buffer.total_steps", "buffer.total_epochs", "trainer.total_steps", "trainer.save_interval", "checkpoint_root_dir":
		return true
	}
	return strings.HasPrefix(key, "monitor.") || strings.HasPrefix(key, "log.")
}

// settingsLine returns the line of the log with the settings of a run.
func settingsLine(cfg *config.Config) (string, error) {
	text, err := json.Marshal(settingsOf(cfg))
	return settingsPrefix + string(text) + "\n", err
}

// checkSettings returns an error if the run in dir has a checkpoint of other settings. The run would
// resume from it, and its metrics would belong to neither.
func checkSettings(dir string, cfg *config.Config) error {
	log, err := os.ReadFile(filepath.Join(dir, LogFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var was map[string]string
	for line := range strings.Lines(string(log)) {
		if text, ok := strings.CutPrefix(line, settingsPrefix); ok && json.Unmarshal([]byte(text), &was) != nil {
			was = nil // a killed sweep wrote half a line
		}
	}
	is := settingsOf(cfg)
	if was == nil || maps.Equal(was, is) || !hasCheckpoint(cfg) {
		return nil
	}
	keys := slices.Concat(slices.Collect(maps.Keys(was)), slices.Collect(maps.Keys(is)))
	for _, key := range slices.Sorted(slices.Values(keys)) {
		if a, b := valueOf(was, key), valueOf(is, key); a != b {
			return fmt.Errorf("%s began with %s %s, and the sweep now has %s: give the sweep another name, name=…, or remove the directory",
				dir, key, a, b)
		}
	}
	return nil
}

func valueOf(settings map[string]string, key string) string {
	if v, ok := settings[key]; ok {
		return v
	}
	return "(default)"
}

// hasCheckpoint reports whether a run, or a stage of it, has a checkpoint.
func hasCheckpoint(cfg *config.Config) bool {
	for _, c := range cfg.Settled() {
		entries, _ := os.ReadDir(c.CheckpointJobDir) // it may not be there yet
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), rundir.StepPrefix) {
				return true
			}
		}
	}
	return false
}
