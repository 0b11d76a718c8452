package served

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/model"
)

// startable are the arguments of servers that the run starts.
type startable struct {
	Python string            `yaml:"python" doc:"interpreter that has the server's package, of the servers that the run starts"`
	Env    map[string]string `yaml:"env" secret:"true" doc:"environment variables of these servers"`
}

// programs returns the servers that a plug-in starts, which are equal. p has what differs between kinds
// of servers, and key is the variable with their key.
func (s *startable) programs(spec engine.SamplerSpec, key string, p func(engine.SamplerSpec) engine.Program) (all []engine.Program) {
	if len(spec.Servers) > 0 {
		return nil
	}
	secret := map[string]string{key: rand.Text()}
	maps.Copy(secret, s.Env)
	for i := range spec.Start.Engines {
		p := p(spec)
		p.Name, p.Nodes, p.GPUs, p.Beside = "rollout-"+strconv.Itoa(i), 1, spec.Place.GPUs, spec.Place.Beside
		p.Python, p.Answers, p.Secret = s.Python, "/health", secret
		p.Hint = "install " + p.Modules[0] + " there, or name another interpreter in explorer.rollout_model.engine_args.python"
		for name := range secret { // of a name in both, a launcher may take either value
			delete(p.Env, name)
		}
		all = append(all, p)
	}
	return all
}

// rankToStart returns the rank of adapters for which a server is started. What is wrong with their files
// is said when the server is opened.
func rankToStart(spec *engine.SamplerSpec) int {
	if cfg, err := model.ReadConfig(spec.ModelPath); err == nil {
		if rank, err := rankOf(spec, cfg); err == nil {
			return rank
		}
	}
	return spec.LoRA.LoraRank
}

// startAll starts the servers of programs, and tells spec their names and their key. It returns nil
// if there are none.
func startAll(ctx context.Context, spec *engine.SamplerSpec, programs []engine.Program, key string) (*owned, error) {
	if len(programs) == 0 {
		return nil, nil
	}
	own, err := start(ctx, *spec, programs)
	if err == nil {
		spec.Servers, spec.Key = own.urls(), programs[0].Secret[key]
	}
	return own, err
}

// absolute returns a path for a server, which has another working directory. What is not there is the
// name of a model that the run fetches first.
func absolute(path string) string {
	if _, err := os.Stat(path); err != nil {
		return path
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// extra returns explorer.rollout_model.extra_engine_args as a command has them. no writes a key that is
// false.
func extra(args map[string]any, no func(name string) []string) (words []string) {
	for _, key := range slices.Sorted(maps.Keys(args)) {
		name := strings.ReplaceAll(key, "_", "-")
		switch value := args[key].(type) {
		case bool:
			if value {
				words = append(words, "--"+name)
			} else {
				words = append(words, no(name)...)
			}
		case string, int, int64, uint64, float64:
			words = append(words, "--"+name, fmt.Sprint(value))
		default:
			text, err := json.Marshal(value)
			if err != nil {
				text = fmt.Append(nil, value)
			}
			words = append(words, "--"+name, string(text))
		}
	}
	return words
}
