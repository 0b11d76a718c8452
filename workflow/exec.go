package workflow

import (
	"context"
	"io"
	"maps"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Workflows.Register("exec",
		"A program in any language makes the rollout: any agent that speaks the OpenAI API, or Anthropic's. It is started for each rollout with "+
			"OPENAI_BASE_URL and OPENAI_API_KEY in its environment, and every model that it asks for there is the policy. Its standard input is "+
			"a JSON object: task, row (all columns), prompt, truth, eval, seed, base_url and api_key. Training learns the tokens that the policy "+
			"wrote, as they were sampled. The reward is the program's: its last line {\"reward\": 0.5, \"parts\": {…}}, or a POST of "+
			"{\"value\": 0.5} to base_url + /reward; else that of the task's reward function. A program that fails is a failed rollout, which is "+
			"not attempted again once it has called the model, unless idempotent is set. Its standard error goes to plugins.log. "+
			"Rollouts of programs are not the same in every run.",
		func() trinity.Workflow { return &Exec{Agent: defaultAgent()} })
}

// Exec runs a program for each rollout.
type Exec struct {
	process.Args `yaml:",inline"`
	Agent        `yaml:",inline"`
}

// maxSaid bounds the standard output of a program, in bytes.
const maxSaid = 16 << 20

// Validate checks the arguments.
func (x *Exec) Validate() error {
	if err := x.Agent.Validate(); err != nil {
		return err
	}
	return x.Args.Validate()
}

// Run implements [trinity.Workflow].
func (x *Exec) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	log, err := r.Host.Open("workflow exec log", func(log io.Writer) (io.Closer, error) { return words{log}, nil })
	if err != nil {
		return nil, err
	}
	return x.run(ctx, r, func(ctx context.Context, e trinity.Endpoint, assignment []byte) ([]byte, error) {
		p := x.Program()
		p.Stderr = log.(words)
		p.Env = map[string]string{
			"OPENAI_BASE_URL": e.URL(), "OPENAI_API_KEY": e.Key(), "ANTHROPIC_BASE_URL": strings.TrimSuffix(e.URL(), "/v1"),
			"ANTHROPIC_API_KEY": e.Key(),
		}
		maps.Copy(p.Env, x.Env)
		return p.Run(ctx, assignment, maxSaid)
	})
}

// words is where programs write their standard error.
type words struct{ io.Writer }

// Close implements io.Closer. The writer is the stage's.
func (words) Close() error { return nil }
