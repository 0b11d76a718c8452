package run

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
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/model"
)

// startable is a stage seen by what its programs need to start.
type startable struct{ *Settled }

// startsHere reports whether the programs of the stage start on this machine. Of other machines nothing
// is known before a program starts there.
func (s startable) startsHere() bool {
	launcher := s.engines.programs.launcher
	return launcher != nil && launcher.Reach() == ""
}

// checkServedModel returns an error if servers that start on this machine would find no weights in the
// model. One that is told by load_format how to load it may need none. A stage before may write another
// model.
func (s startable) checkServedModel(before []*Settled) error {
	if slices.ContainsFunc(before, func(b *Settled) bool { return b.Trains && len(b.Model.LoraConfigs) == 0 }) {
		return nil
	}
	_, told := s.Explorer.RolloutModel.ExtraEngineArgs["load_format"]
	if told || s.modelPath == "" || !s.startsHere() || len(serversOf(s.Settled.Settled, &s.engines)) == 0 {
		return nil
	}
	const (
		why  = "the servers that the run starts load a model directory with weights (safetensors)"
		hint = "trinity convert makes one of a GGUF file"
	)
	switch info, err := os.Stat(s.modelPath); {
	case err != nil:
		return err
	case !info.IsDir():
		return s.At(checkpoint.ModelKey, fmt.Sprintf("%s is a file, and %s", s.modelPath, why), hint)
	case !model.HasWeights(s.modelPath):
		return s.At(checkpoint.ModelKey, fmt.Sprintf("%s has no weights, and %s", s.modelPath, why), hint)
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

// checkInterpreters returns an error if a program that starts on this machine lacks its interpreter or a
// module of it.
func (s startable) checkInterpreters(ctx context.Context) error {
	if !s.startsHere() {
		return nil
	}
	asked := map[string]bool{} // servers of one kind are equal
	for _, p := range programsIn(s.Settled) {
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
