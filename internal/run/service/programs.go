package service

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/cluster"
	"github.com/trinity-go/trinity/launcher"
)

// startTimeout is how long the program of an engine may take until it answers.
const startTimeout = 10 * time.Minute

// placeOf returns where the engine that trains a model starts its program, if it has one: one rank on this machine, with a
// GPU if there is one. Its output is in a file in a directory for each model.
func placeOf(o *Options, m Model) (engine.Place, error) {
	here, err := launcher.Launchers.Build(launcher.Launchers.Auto[0])
	if err != nil {
		return engine.Place{}, err
	}
	gpus, err := here.GPUs()
	programs := &cluster.Cluster{Launcher: here, Patience: startTimeout, LogDir: filepath.Join(o.Dir, "log", fileName(m)), Say: o.Say}
	return engine.Place{Programs: programs, Nodes: 1, Ranks: 1, GPUs: min(gpus, 1)}, err
}

// fileName returns the name of a model without slashes.
func fileName(m Model) string {
	return strings.NewReplacer("/", "_", "\\", "_", ":", "_").Replace(m.Name)
}

// Arguments reads arguments of a plug-in from KEY=VALUE, with values in YAML.
func Arguments(given []string) (map[string]any, error) {
	all := map[string]any{}
	for _, text := range given {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("%q: want KEY=VALUE", text)
		}
		var v any
		if err := yaml.Unmarshal([]byte(value), &v); err != nil {
			return nil, fmt.Errorf("%q: the value is no YAML: %w", text, err)
		}
		all[key] = v
	}
	return all, nil
}
