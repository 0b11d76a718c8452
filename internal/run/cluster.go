package run

import (
	"cmp"
	"context"
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

// RenderPrograms returns what the launcher would run for the programs of a configuration, stage by
// stage. It is "" if the run has none.
func RenderPrograms(cfg *config.Config) (string, error) {
	var text strings.Builder
	for _, settled := range cfg.Settled() {
		s, err := Resolve(settled)
		if err != nil {
			return "", err
		}
		for _, p := range programsIn(s) {
			launcher := s.engines.programs.launcher
			g, err := cluster.Request(p, "http://DRIVER", "")
			if err != nil {
				return "", err
			}
			rendered, err := launcher.Render(g)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&text, "# %s: %s; machines: %d, GPUs of each: %d; it runs %s\n%s\n", s.Name, p.Name, g.Nodes, g.GPUs,
				strings.Join(p.Command, " "), strings.TrimRight(rendered, "\n"))
		}
	}
	return text.String(), nil
}

// programFacts describes the programs that the launcher starts, equal ones in one line.
func programFacts(s *Settled) (lines []string) {
	all := programsIn(s)
	for len(all) > 0 {
		p, n := all[0], 1
		for n < len(all) && slices.Equal(all[n].Command, p.Command) {
			n++
		}
		name := p.Name
		if n > 1 {
			name = fmt.Sprintf("%s to %s, %d equal programs", p.Name, all[n-1].Name, n)
		}
		lines = append(lines, fmt.Sprintf("%s: %s, machines: %d, GPUs of each: %d; %s", name, s.engines.programs.launcher.Describe(),
			max(1, p.Nodes), p.GPUs, strings.Join(p.Command, " ")))
		all = all[n:]
	}
	problems := []error{s.engines.programs.unknown, (startable{s}).checkInterpreters(context.Background())}
	if !s.IsStage() { // which may start from another model
		problems = append(problems, (startable{s}).checkServedModel(nil))
	}
	for _, err := range problems {
		if err != nil {
			lines = append(lines, err.Error()+": the run cannot start")
		}
	}
	return lines
}

// programsIn returns the programs that the engines of a stage start.
func programsIn(s *Settled) (all []engine.Program) {
	if s.engines.programs.launcher == nil {
		return nil
	}
	spec := s.specs(s.Trains, s.Samples)
	spec.train.ModelPath = cmp.Or(spec.train.ModelPath, s.Model.ModelPath) // of a model that is not here yet
	spec.sample.ModelPath = cmp.Or(spec.sample.ModelPath, s.Model.ModelPath)
	if starter, ok := s.engines.trainer.(trainerPrograms); ok {
		all = starter.Programs(spec.train)
	}
	if starter, ok := s.engines.sampler.(samplerPrograms); ok {
		all = append(all, starter.Programs(spec.sample)...)
	}
	return all
}
