package reward

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/internal/wait"
)

// pythonReward asks a Python library. It is part of the rewards that do so.
type pythonReward struct {
	bridge.Python `yaml:",inline"`
	Workers       int     `yaml:"workers" range:"[1,1024]" doc:"processes, which score at once"`
	Timeout       float64 `yaml:"timeout" range:"(0,inf]" doc:"seconds for one reply; the first also waits for Python to import the library"`
}

func defaultPython() pythonReward {
	return pythonReward{Python: bridge.Python{Python: "python3"}, Workers: 1, Timeout: 120}
}

// validate checks the arguments, and that the interpreter has the library.
func (p *pythonReward) validate(library bridge.Library) error {
	return p.Has(library.Module)
}

// ask lets a process of the library answer. Rewards with the same arguments share the processes.
func (p *pythonReward) ask(
	ctx context.Context, host trinity.Host, library bridge.Library, ask func(context.Context, *bridge.Bridge) error,
) error {
	if host == nil {
		return fmt.Errorf("%s: only a run can start it", library.Module)
	}
	key, err := json.Marshal(p)
	if err != nil {
		return err
	}
	opened, err := host.Open("reward "+library.Module+" "+string(key), func(io.Writer) (io.Closer, error) {
		return p.Open(library.Script, p.Workers), nil
	})
	if err != nil {
		return err
	}
	limit := wait.Seconds(p.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer of %s within timeout = %v", library.Module, limit))
	defer cancel()
	if err := ask(ctx, opened.(*bridge.Bridge)); err != nil {
		return fmt.Errorf("%s: %w", library.Module, err)
	}
	return nil
}

// readColumns reads columns of a task's row into values.
func readColumns(t *trinity.Task, into map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(into)) {
		there, err := t.Decode(name, into[name])
		if !there {
			return fmt.Errorf("no column %q: `trinity tasks` writes rows that have it", name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
