package place

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/cluster"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/launcher"
)

// LauncherOf returns the launcher of a configuration.
func LauncherOf(cfg *config.Config) (launcher.Launcher, error) { return launcherOf(cfg.Settled()[0]) }

// Render returns what the launcher would run for the programs of a stage.
func (p *programs) Render(stage string, all []engine.Program) (string, error) {
	var text strings.Builder
	for _, one := range all {
		g, err := cluster.Request(one, "http://DRIVER", "")
		if err != nil {
			return "", err
		}
		rendered, err := p.launcher.Render(g)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&text, "# %s: %s; machines: %d, GPUs of each: %d; it runs %s\n%s\n", stage, one.Name, g.Nodes, g.GPUs,
			strings.Join(one.Command, " "), strings.TrimRight(rendered, "\n"))
	}
	return text.String(), nil
}

// Describe describes the programs that the launcher starts, equal ones in one line.
func (p *programs) Describe(all []engine.Program) (lines []string) {
	for len(all) > 0 {
		one, n := all[0], 1
		for n < len(all) && slices.Equal(all[n].Command, one.Command) {
			n++
		}
		name := one.Name
		if n > 1 {
			name = fmt.Sprintf("%s to %s, %d equal programs", one.Name, all[n-1].Name, n)
		}
		lines = append(lines, fmt.Sprintf("%s: %s, machines: %d, GPUs of each: %d; %s", name, p.launcher.Describe(),
			max(1, one.Nodes), one.GPUs, strings.Join(one.Command, " ")))
		all = all[n:]
	}
	return lines
}

// ProgramsOf returns the programs that the engines start for specs.
func (e *Engines) ProgramsOf(spec Specs) (all []engine.Program) {
	if e.Programs.launcher == nil {
		return nil
	}
	if starter, ok := e.Trainer.(trainerPrograms); ok {
		all = starter.Programs(spec.Train)
	}
	if starter, ok := e.Sampler.(samplerPrograms); ok {
		all = append(all, starter.Programs(spec.Sample)...)
	}
	return all
}
