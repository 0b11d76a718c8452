package place

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/cluster"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/launcher"
	"github.com/trinity-go/trinity/model"
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

// startsHere reports whether the programs start on this machine. Of other machines nothing is known before a
// program starts there.
func (p *programs) startsHere() bool { return p.launcher != nil && p.launcher.Reach() == "" }

// CheckServedModel returns an error if servers that start on this machine would find no weights in the
// model at a path. One that is told by load_format how to load it may need none.
func (e *Engines) CheckServedModel(cfg *config.Settled, path string) error {
	_, told := cfg.Explorer.RolloutModel.ExtraEngineArgs["load_format"]
	if told || path == "" || !e.Programs.startsHere() || len(serversOf(cfg, e)) == 0 {
		return nil
	}
	const (
		why  = "the servers that the run starts load a model directory with weights (safetensors)"
		hint = "trinity convert makes one of a GGUF file"
	)
	switch info, err := os.Stat(path); {
	case err != nil:
		return err
	case !info.IsDir():
		return cfg.At(checkpoint.ModelKey, fmt.Sprintf("%s is a file, and %s", path, why), hint)
	case !model.HasWeights(path):
		return cfg.At(checkpoint.ModelKey, fmt.Sprintf("%s has no weights, and %s", path, why), hint)
	}
	return nil
}

// interpreterTime is how long an interpreter may take to say which modules it has.
const interpreterTime = time.Minute

// missingModules prints those of the modules in its arguments that are not there. It imports none, which
// would take seconds. The working directory is no place of a program's modules.
const missingModules = `
import importlib.util, json, sys
sys.path = [p for p in sys.path if p]
print(json.dumps([m for m in sys.argv[1:] if importlib.util.find_spec(m) is None]))`

// CheckInterpreters returns an error if one of the programs that starts on this machine lacks its interpreter or a
// module of it.
func (p *programs) CheckInterpreters(ctx context.Context, all []engine.Program) error {
	if !p.startsHere() {
		return nil
	}
	asked := map[string]bool{} // servers of one kind are equal
	for _, p := range all {
		needs := p.Python + " " + strings.Join(p.Modules, " ")
		if asked[needs] {
			continue
		}
		asked[needs] = true
		if err := checkInterpreter(ctx, &p); err != nil {
			return fmt.Errorf("%s: %w: %s", p.Name, err, p.Hint)
		}
	}
	return nil
}

// checkInterpreter asks the interpreter of a program for the program's modules.
func checkInterpreter(ctx context.Context, p *engine.Program) error {
	env := map[string]string{}
	maps.Copy(env, p.Env)
	maps.Copy(env, p.Secret)
	ctx, cancel := context.WithTimeoutCause(ctx, interpreterTime, fmt.Errorf("it has not answered for %v", interpreterTime))
	defer cancel()
	ask := process.Program{Command: append([]string{p.Python, "-c", missingModules}, p.Modules...), Env: env, Dir: os.TempDir()}
	out, err := ask.Run(ctx, nil, 1<<20)
	var missing []string
	if err == nil {
		err = json.Unmarshal(out, &missing)
	}
	if err != nil {
		return fmt.Errorf("the interpreter %s does not work: %w", p.Python, err)
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s has no %s", p.Python, strings.Join(missing, ", "))
	}
	return nil
}
