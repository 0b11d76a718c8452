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

// trainerStarter is an engine.TrainerOpener whose engines run in programs of their own.
type trainerStarter interface {
	Programs(spec engine.TrainerSpec) []engine.Program
}

// places say where the programs of a model run, on this machine.
type places struct {
	trainer engine.Place // one rank, with a GPU if there is one
	gpus    int
	apart   func() (*cluster.Cluster, error) // returns one whose programs may have GPUs that others have
}

// placesOf returns the places of a model. The output of its programs is in files in a directory of its own.
func placesOf(o *Options, m Model) (*places, error) {
	var gpus int
	start := func() (*cluster.Cluster, error) {
		here, err := launcher.Launchers.Build(launcher.Launchers.Auto[0])
		if err != nil {
			return nil, err
		}
		gpus, err = here.GPUs()
		return &cluster.Cluster{Launcher: here, Patience: startTimeout, LogDir: filepath.Join(o.Dir, "log", fileName(m)), Say: o.Say}, err
	}
	programs, err := start()
	return &places{engine.Place{Programs: programs, Nodes: 1, Ranks: 1, GPUs: min(gpus, 1)}, gpus, start}, err
}

// ofServers returns the place of servers, each with as many GPUs. The trainer has started before them and keeps its GPU,
// unless it is the only one: then they share it.
func (p *places) ofServers(servers, each int, trains bool) (at engine.Place, shared bool, err error) {
	at, free := engine.Place{Programs: p.trainer.Programs, Nodes: 1, Ranks: each}, p.gpus
	shared = trains && p.gpus == 1
	switch {
	case p.gpus == 0:
		return at, false, nil
	case shared:
		at.Programs, err = p.apart()
	case trains:
		free--
	}
	if at.GPUs = each; servers*each > free {
		return at, shared, fmt.Errorf("%d servers with tensor_parallel_size %d need %d GPUs, and there are %d for them: lower --sampler-arg "+
			"engine_num or tensor_parallel_size", servers, each, servers*each, free)
	}
	return at, shared, err
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
