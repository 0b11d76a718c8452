package workflow

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/wire/score"
)

func init() {
	registry.Workflows.Register("exec",
		"A program in any language makes the rollout: any agent that speaks the OpenAI API, or Anthropic's. It is started for each rollout with "+
			"OPENAI_BASE_URL and OPENAI_API_KEY in its environment, and what it asks there is the policy, or who models names. Its standard input "+
			"is a JSON object: task, row (all columns), prompt, truth, eval, seed, base_url and api_key. Training learns the tokens that the "+
			"policy wrote, as they were sampled. The reward is the program's: its last line {\"reward\": 0.5, \"parts\": {…}}, or a POST of "+
			"{\"value\": 0.5} to base_url + /reward; else that of the task's reward function. A program that fails is a failed rollout, which is "+
			"not attempted again once it has called the model, unless idempotent is set. Its standard error goes to plugins.log. "+
			"With workers, the programs are kept: each reads one object a line, asks at its base_url with its api_key, and ends its rollout "+
			"with a line that is a JSON object, such as the reward or {}. "+
			"Rollouts of programs are not the same in every run.",
		func() trinity.Workflow { return &Exec{Agent: defaultAgent()} })
}

// Exec runs a program for each rollout.
type Exec struct {
	process.Args `yaml:",inline"`
	Agent        `yaml:",inline"`
	Workers      int `yaml:"workers" doc:"copies of the program that are kept and make one rollout after another; 0 starts it for each"`
}

// maxSaid bounds the standard output of a program, in bytes.
const maxSaid = 16 << 20

// Validate checks the arguments.
func (x *Exec) Validate() error {
	if err := x.Agent.Validate(); err != nil {
		return err
	}
	if x.Workers < 0 || x.Workers > 1024 {
		return fmt.Errorf("workers: want 0 to 1024, got %d", x.Workers)
	}
	return x.Args.Validate()
}

// Run implements [trinity.Workflow].
func (x *Exec) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	if x.Workers > 0 {
		return x.run(ctx, r, func(ctx context.Context, e trinity.Endpoint, assignment []byte) ([]byte, error) {
			return x.work(ctx, r.Host, e, assignment)
		})
	}
	log, err := r.Host.Open("workflow exec log", func(log io.Writer) (io.Closer, error) { return words{log}, nil })
	if err != nil {
		return nil, err
	}
	return x.run(ctx, r, func(ctx context.Context, e trinity.Endpoint, assignment []byte) ([]byte, error) {
		p := x.Program()
		p.Stderr = log.(words)
		p.Env = x.environment(e.URL(), e.Key())
		return p.Run(ctx, assignment, maxSaid)
	})
}

// environment returns the variables of a program that asks at an address.
func (x *Exec) environment(url, key string) map[string]string {
	env := map[string]string{
		"OPENAI_BASE_URL": url, "OPENAI_API_KEY": key, "ANTHROPIC_BASE_URL": strings.TrimSuffix(url, "/v1"), "ANTHROPIC_API_KEY": key,
	}
	maps.Copy(env, x.Env)
	return env
}

// noKey is the key in the environment of workers, which get one in each assignment. With it they
// never ask somebody else with a key of the run.
const noKey = "use-the-api_key-of-the-assignment"

// work lets a worker make a rollout. Tasksets with the same arguments share the workers.
func (x *Exec) work(ctx context.Context, host trinity.Host, e trinity.Endpoint, assignment []byte) (answer []byte, err error) {
	key, err := json.Marshal(x)
	if err != nil {
		return nil, err
	}
	opened, err := host.Open("workflow exec "+string(key), func(log io.Writer) (io.Closer, error) {
		p := x.Program()
		p.Stderr, p.Env = log, x.environment(strings.Replace(e.URL(), "/r/"+e.Key(), "", 1), noKey)
		return process.NewPool(p, x.Workers, process.Lines{Most: score.MaxAnswer, IsAnswer: isObject}), nil
	})
	if err != nil {
		return nil, err
	}
	var w *process.Worker
	err = host.Wait(ctx, func(ctx context.Context) (err error) {
		w, err = opened.(*process.Pool).Take(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	defer w.GiveBack()
	return w.Ask(ctx, assignment)
}

// isObject reports whether a line is a JSON object. Other lines are the program's own words.
func isObject(line []byte) bool {
	line = bytes.TrimSpace(line)
	return bytes.HasPrefix(line, []byte("{")) && json.Valid(line)
}

// words is where programs write their standard error.
type words struct{ io.Writer }

// Close implements io.Closer. The writer is the stage's.
func (words) Close() error { return nil }
