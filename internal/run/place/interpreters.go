package place

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/model"
)

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
