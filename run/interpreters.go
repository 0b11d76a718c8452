package run

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/process"
)

// interpreterTime is how long an interpreter may take to say which modules it has.
const interpreterTime = time.Minute

// missingModules prints those of the modules in its arguments that are not there. It imports none, which
// would take seconds. The working directory is no place of a program's modules.
const missingModules = `
import importlib.util, json, sys
sys.path = [p for p in sys.path if p]
print(json.dumps([m for m in sys.argv[1:] if importlib.util.find_spec(m) is None]))`

// checkInterpreters returns an error if a program of the stage would start on this machine and lacks its
// interpreter or a module of it. Of other machines nothing is known before a program starts there.
func (s *Settled) checkInterpreters(ctx context.Context) error {
	launcher := s.engines.programs.launcher
	if launcher == nil || launcher.Reach() != "" {
		return nil
	}
	asked := map[string]bool{} // servers of one kind are equal
	for _, p := range programsIn(s) {
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
func checkInterpreter(ctx context.Context, p *trinity.Program) error {
	env := map[string]string{}
	maps.Copy(env, p.Env)
	maps.Copy(env, p.Secret)
	ctx, cancel := context.WithTimeoutCause(ctx, interpreterTime, fmt.Errorf("it has not answered for %v", interpreterTime))
	defer cancel()
	ask := process.Program{Command: append([]string{p.Python, "-c", missingModules}, p.Modules...), Env: env, Dir: os.TempDir()}
	out, err := ask.Run(ctx, nil, 1<<20)
	if err != nil {
		return fmt.Errorf("the interpreter %s does not work: %w", p.Python, err)
	}
	var missing []string
	if err := json.Unmarshal(out, &missing); err != nil {
		return fmt.Errorf("the interpreter %s does not work: %w", p.Python, err)
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s has no %s", p.Python, strings.Join(missing, ", "))
	}
	return nil
}
