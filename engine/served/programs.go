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

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/model"
)

// startable is a plug-in whose servers the run starts, unless base_urls names some that run already. They
// follow a trainer.
type startable struct {
	arguments `yaml:",inline"`
	Python    string            `yaml:"python" doc:"interpreter that has the server's package, of the servers that the run starts"`
	Env       map[string]string `yaml:"env" secret:"true" doc:"environment variables of these servers"`
	product
}

// product is what a kind of server has of its own.
type product struct {
	pkg        string // Python package; trinity_worker starts its server
	key        string // variable with the key of a server
	modelFlag  string
	seedFlag   string
	limitFlag  string   // of the longest sequence
	extraWords []string // of every command
	negation   string   // begins the flag of an extra argument that is false; "" leaves the argument out
	// flags adds the other words and variables of a program.
	flags   func(p *command, spec *engine.SamplerSpec)
	kind    func(s *startable, cfg *model.Config, spec *engine.SamplerSpec, own *owned) kind
	reads   []string // keys besides those of all products
	refuses func(c *config.Settled) []config.Refusal
}

// command is a program with its environment.
type command struct {
	words []string
	env   map[string]string
}

func (c *command) add(wanted bool, words ...string) {
	if wanted {
		c.words = append(c.words, words...)
	}
}

func newStartable(p product) *startable {
	return &startable{arguments: defaults(), Python: "python3", product: p}
}

// OpenSampler implements engine.SamplerOpener.
func (s *startable) OpenSampler(ctx context.Context, spec engine.SamplerSpec) (trinity.Sampler, error) {
	cfg, err := model.ReadConfig(spec.ModelPath)
	if err != nil {
		return nil, err
	}
	var own *owned
	if programs := s.Programs(spec); len(programs) > 0 {
		if own, err = start(ctx, spec, programs); err != nil {
			return nil, err
		}
		spec.Servers, spec.Key = own.urls(), programs[0].Secret[s.key]
	}
	return s.open(ctx, spec, own, s.kind(s, cfg, &spec, own))
}

// PythonPackage returns the package whose version trinity doctor reports.
func (s *startable) PythonPackage() string { return s.pkg }

// Describe implements engine.SamplerOpener.
func (*startable) Describe() string { return startedOverHTTP }

// ReceivesWeights says that the way direct fits.
func (*startable) ReceivesWeights() {}

// Reads implements config.SharedKeys.
func (s *startable) Reads(c *config.Settled) map[string]string {
	keys := startedKeys(c)
	for _, key := range append([]string{"synchronizer.verify", "synchronizer.verify_interval", bucketKey}, s.reads...) {
		keys[key] = ""
	}
	return keys
}

// Refuses implements config.SharedKeys.
func (s *startable) Refuses(c *config.Settled) []config.Refusal {
	all := refusals(c, true)
	if len(c.Explorer.RolloutModel.BaseUrls) == 0 {
		all = append(all, s.refuses(c)...)
	}
	return all
}

// Programs returns the servers that OpenSampler starts, which are equal.
func (s *startable) Programs(spec engine.SamplerSpec) (all []engine.Program) {
	if len(spec.Servers) > 0 {
		return nil
	}
	secret := map[string]string{s.key: rand.Text()}
	maps.Copy(secret, s.Env)
	for i := range spec.Start.Engines {
		c := s.command(&spec)
		for name := range secret { // of a name in both, a launcher may take either value
			delete(c.env, name)
		}
		all = append(all, engine.Program{
			Command: c.words, Modules: []string{s.pkg}, Env: c.env, Name: "rollout-" + strconv.Itoa(i), Nodes: 1, GPUs: spec.Start.Place.GPUs,
			Beside: spec.Start.Place.Beside, Python: s.Python, Answers: "/health", Secret: secret,
			Hint: "install " + s.pkg + " there, or name another interpreter in explorer.rollout_model.engine_args.python " +
				"(--sampler-arg python=PATH of trinity service)",
		})
	}
	return all
}

// command returns the command of a server.
func (s *startable) command(spec *engine.SamplerSpec) *command {
	o := &spec.Start
	c := &command{env: map[string]string{"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}}
	c.add(true, s.Python, "-m", "trinity_worker."+s.pkg+"_server", s.modelFlag, absolute(spec.ModelPath),
		"--host", "{host}", "--port", "{port}")
	c.add(true, s.extraWords...)
	c.add(true, s.seedFlag, strconv.Itoa(o.Seed), "--dtype", o.DType, "--tensor-parallel-size", strconv.Itoa(max(1, o.TensorParallel)),
		"--pipeline-parallel-size", strconv.Itoa(max(1, o.PipelineParallel)), "--data-parallel-size", strconv.Itoa(max(1, o.DataParallel)))
	c.add(spec.MaxModelLen > 0, s.limitFlag, strconv.Itoa(spec.MaxModelLen))
	s.flags(c, spec)
	c.add(true, extra(o.Extra, s.negation)...)
	return c
}

// needsToStart returns what the adapters need for which a server is started. What is wrong with their files
// is said when the server is opened.
func needsToStart(spec *engine.SamplerSpec) needs {
	if cfg, err := model.ReadConfig(spec.ModelPath); err == nil {
		if n, err := needsOf(spec, cfg); err == nil {
			return n
		}
	}
	return needs{rank: spec.LoRA.LoraRank}
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

// extra returns explorer.rollout_model.extra_engine_args as a command has them. negation begins the flag
// of a key that is false; "" leaves the key out.
func extra(args map[string]any, negation string) (words []string) {
	for _, key := range slices.Sorted(maps.Keys(args)) {
		name := strings.ReplaceAll(key, "_", "-")
		switch value := args[key].(type) {
		case bool:
			if value {
				words = append(words, "--"+name)
			} else if negation != "" {
				words = append(words, negation+name)
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
