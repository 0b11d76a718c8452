package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync/atomic"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Workflows.Register("exec",
		"A program in any language makes the rollout: any agent that speaks the OpenAI API, or Anthropic's. It is started for each rollout with "+
			"OPENAI_BASE_URL and OPENAI_API_KEY in its environment, and what it asks there is the policy, or who models names. Its standard input "+
			"is a JSON object: task, row (all columns), prompt, truth, eval, seed, base_url and api_key. Training learns the tokens that the "+
			"policy wrote, as they were sampled. "+rewardRule+"A program that fails is a failed rollout, which is "+
			"not attempted again once it has called the model, unless idempotent is set. Its standard output has no effect, and its standard "+
			"error goes to plugins.log. With workers, the programs are kept: each reads one object a line, asks at its base_url with its "+
			"api_key, and ends its rollout with a POST to base_url + /commit. "+
			"Rollouts of programs are not the same in every run.",
		func() trinity.Workflow { return &execWorkflow{agentArgs: defaultAgent()} })
}

// execWorkflow runs a program for each rollout.
type execWorkflow struct {
	process.Args `yaml:",inline"`
	agentArgs    `yaml:",inline"`
	Workers      int `yaml:"workers" range:"[0,1024]" doc:"copies of the program, kept for one rollout after another; 0 starts it for each"`
}

// rewardRule is the part of descriptions that says whose reward counts, and what is learnt.
const rewardRule = "The reward is that of the task's reward function; where the task names none, or own_reward is set, it is the " +
	"program's, which it posts as {\"value\": 0.5, \"parts\": {…}} to base_url + /reward. It may post to base_url + /experiences " +
	"which sequences are learnt, by the number of the call that ends each: {\"experiences\": [{\"turn\": 3, \"reward\": 1, \"parts\": {}, " +
	"\"metrics\": {}, \"info\": {}, \"learn\": [[0, 40]], \"truncated\": \"\"}]}, of which only turn is needed; learn are ranges of the " +
	"response's tokens, and what is not named is not learnt. "

// maxSaid bounds the answer of a service, in bytes.
const maxSaid = 16 << 20

// Validate checks the arguments.
func (x *execWorkflow) Validate() error {
	if err := x.agentArgs.Validate(); err != nil {
		return err
	}
	return x.Args.Validate()
}

// Run implements [trinity.Workflow].
func (x *execWorkflow) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	if x.Workers > 0 {
		p := &progress{committed: make(chan struct{})}
		return x.run(ctx, r, func() { p.calls.Add(1) }, func() { close(p.committed) },
			func(ctx context.Context, e trinity.Endpoint, assignment []byte) ([]byte, error) {
				return nil, x.work(ctx, r.Host, p, e, assignment)
			})
	}
	log, err := r.Host.Open("workflow exec log", func(log io.Writer) (io.Closer, error) { return words{log}, nil })
	if err != nil {
		return nil, err
	}
	return x.run(ctx, r, nil, nil, func(ctx context.Context, e trinity.Endpoint, assignment []byte) ([]byte, error) {
		p, said := x.Program(), &process.Ends{}
		p.Stdout, p.Stderr = said, newQuota(log.(words))
		p.Env = x.environment(e.URL(), e.Key())
		_, err := p.Run(ctx, assignment, 0)
		return said.Last(), err
	})
}

// environment returns the variables of a program that asks at an address.
func (x *execWorkflow) environment(url, key string) map[string]string {
	env := map[string]string{
		"OPENAI_BASE_URL": url, "OPENAI_API_KEY": key, "ANTHROPIC_BASE_URL": strings.TrimSuffix(url, "/v1"), "ANTHROPIC_API_KEY": key,
	}
	maps.Copy(env, x.Env)
	return env
}

// noKey is the key in the environment of workers, which get one in each assignment. With it they
// never ask somebody else with a key of the run.
const noKey = "use-the-api_key-of-the-assignment"

// crew is the kept copies of a program.
type crew struct {
	*process.Pool
	errors  *quota      // of the copies, which each rollout refills
	commits atomic.Bool // some copy has committed a rollout
	silent  atomic.Bool // some copy has done nothing for the time of silence
}

// progress is what a worker has done for its rollout.
type progress struct {
	calls     atomic.Int64 // of a model
	committed chan struct{}
}

// maxWord bounds what is read of a line of a worker, in bytes.
const maxWord = 64 << 10

// work lets a worker make a rollout, which the worker's commit ends. Tasksets with the same arguments
// share the workers.
func (x *execWorkflow) work(ctx context.Context, host trinity.Host, p *progress, e trinity.Endpoint, assignment []byte) error {
	key, err := json.Marshal(x)
	if err != nil {
		return err
	}
	opened, err := host.Open("workflow exec "+string(key), func(log io.Writer) (io.Closer, error) {
		program, c := x.Program(), &crew{errors: newQuota(log)}
		program.Stderr, program.Env = c.errors, x.environment(strings.Replace(e.URL(), "/r/"+e.Key(), "", 1), noKey)
		isOld := func(line []byte) bool { return !c.commits.Load() && looksLikeAnswer(line) }
		c.Pool = process.NewPool(program, x.Workers, process.Lines{Most: maxWord, Cut: true, IsAnswer: isOld})
		return c, nil
	})
	if err != nil {
		return err
	}
	c := opened.(*crew)
	var w *process.Worker
	err = host.Wait(ctx, func(ctx context.Context) (err error) {
		w, err = c.Take(ctx)
		return err
	})
	if err != nil {
		return err
	}
	defer w.GiveBack()
	c.errors.refill()
	own, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err = w.Tell(own, assignment, p.committed, func(line []byte) error { return c.heard(p, line, cancel) })
	switch {
	case err == nil:
		c.commits.Store(true)
	case ctx.Err() != nil && !c.commits.Load():
		err = fmt.Errorf("%w; no worker has committed a rollout: a worker ends its rollout with a POST to base_url + /commit", err)
	}
	return err
}

// silence is how long a worker may do nothing after a line that looks like an answer, and laterSilence
// how long once a copy of the program has done nothing for that time.
const silence, laterSilence = 10 * time.Second, time.Second

// heard returns an error if a line shows that the worker has answered on its standard output, where
// nobody reads answers: it would wait for a next task, and the run for its commit, until the rollout's
// deadline. A line before the first call of a model is the program's own, and is an error at once. A
// later one may be what the policy wrote; it is an error if no call follows it.
// Once a copy of the program has committed a rollout, such lines are words.
func (c *crew) heard(p *progress, line []byte, stop context.CancelCauseFunc) error {
	err := fmt.Errorf("the worker printed %.80q and has not ended its rollout: %s, and then {} to base_url + /commit", line, wordsHint)
	before := p.calls.Load()
	switch {
	case c.commits.Load():
		return nil
	case before == 0:
		return err
	}
	patience := silence
	if c.silent.Load() {
		patience = laterSilence
	}
	time.AfterFunc(patience, func() {
		if !c.commits.Load() && p.calls.Load() == before {
			c.silent.Store(true)
			stop(err)
		}
	})
	return nil
}

// words is where programs write their standard error.
type words struct{ io.Writer }

// Close implements io.Closer. The writer is the stage's.
func (words) Close() error { return nil }
