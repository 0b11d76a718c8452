package trinitytest

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

// WorkflowOptions say how to try a workflow.
type WorkflowOptions struct {
	Task   *trinity.Task
	Says   []string // the policy's replies, of which each call draws one by its seed
	Reward trinity.RewardFunc
	Host   trinity.Host
	// Untrained says that the workflow leaves out some replies. Else training learns each.
	Untrained bool
}

// Workflow tests what each workflow must do: its experiences are those of the rollout, and hold each
// token that the policy sampled once, behind exactly what the sampler read; equal seeds give equal
// experiences, also beside other rollouts; the end of its context and a failed engine end it at each
// call; and no goroutine outlives it.
func Workflow(t *testing.T, o WorkflowOptions, w trinity.Workflow) {
	calls := 0
	t.Run("each sampled token once", func(t *testing.T) {
		p := &drawing{says: o.Says}
		exps := o.run(t, p, w)
		calls = len(p.calls)
		if calls == 0 {
			t.Fatal("the policy was not asked")
		}
		for _, e := range exps {
			p.claim(t, e)
		}
		if !o.Untrained && len(p.calls) > 0 {
			t.Errorf("no experience has the replies %+v", p.calls)
		}
	})
	t.Run("equal seeds, also at once", func(t *testing.T) {
		want := o.run(t, &drawing{says: o.Says}, w)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if got := o.run(t, &drawing{says: o.Says}, w); !reflect.DeepEqual(got, want) {
					t.Errorf("got %+v\nwant %+v", values(got), values(want))
				}
			})
		}
		wg.Wait()
	})
	t.Run("an end at each call", func(t *testing.T) {
		before := runtime.NumGoroutine()
		stopped, broken := errors.New("stopped"), errors.New("broken")
		for call := range calls {
			ctx, cancel := context.WithCancelCause(t.Context())
			p := &drawing{says: o.Says, at: call, instead: func() error { cancel(stopped); return stopped }}
			if exps, err := w.Run(ctx, o.rollout(p)); !errors.Is(err, stopped) {
				t.Errorf("the context ends in call %d: %d experiences, %v", call, len(exps), err)
			}
			p = &drawing{says: o.Says, at: call, instead: func() error { return broken }}
			if exps, err := w.Run(t.Context(), o.rollout(p)); !errors.As(err, new(*trinity.EngineError)) {
				t.Errorf("the engine fails in call %d: %d experiences, %v", call, len(exps), err)
			}
			cancel(nil)
		}
		for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				stacks := make([]byte, 1<<16)
				t.Fatalf("%d goroutines, before %d\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
			}
		}
	})
}

func values(exps []*trinity.Experience) (out []trinity.Experience) {
	for _, e := range exps {
		out = append(out, *e)
	}
	return out
}

func (o *WorkflowOptions) rollout(p *drawing) *trinity.Rollout {
	id := trinity.ExperienceID{Step: 2, Task: o.Task.ID, Run: 1}
	params := trinity.SamplingParams{Temperature: 0.5, Seed: 7, MaxTokens: 1000, Untrained: o.Task.Eval}
	m := &trinity.Model{Sampler: p, Renderer: CallingChat{}, ID: id, Params: params}
	return &trinity.Rollout{Task: o.Task, Seed: 3, Model: m, Reward: o.Reward, Host: o.Host}
}

// run makes a rollout whose experiences must be well-formed.
func (o *WorkflowOptions) run(t *testing.T, p *drawing, w trinity.Workflow) []*trinity.Experience {
	t.Helper()
	r := o.rollout(p)
	exps, err := w.Run(t.Context(), r)
	if err != nil || len(exps) == 0 {
		t.Errorf("%d experiences, %v", len(exps), err)
	}
	for i, e := range exps {
		own := r.Model.ID
		own.Turn = e.ID.Turn
		if err := e.Check(); err != nil || e.ID != own || slices.Contains(exps[:i], e) {
			t.Errorf("experience %d is %s: %v", i, e.ID, err)
		}
		if e.EnvironmentLen+e.PromptLen+e.TrainedTokens() > len(e.Tokens) {
			t.Errorf("experience %d has %d tokens: %d of the prompt, %d of the environment, %d that training learns",
				i, len(e.Tokens), e.PromptLen, e.EnvironmentLen, e.TrainedTokens())
		}
	}
	return exps
}

// drawing is a policy that draws its replies by the seeds of its calls.
type drawing struct {
	says    []string
	at      int          // number of the call that fails
	instead func() error // of that call; nil if none fails

	mu    sync.Mutex
	begun int
	calls []sampledCall
}

// sampledCall is a call.
type sampledCall struct {
	prompt []int32
	reply  trinity.Completion
}

// Sample implements [trinity.Sampler].
func (p *drawing) Sample(ctx context.Context, prompt trinity.Prompt, params trinity.SamplingParams) ([]trinity.Completion, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun++; p.instead != nil && p.begun == p.at+1 {
		return nil, p.instead()
	}
	says := p.says[params.Seed%uint64(len(p.says))]
	c := trinity.Completion{Tokens: append(CallingChat{}.Encode(says), ChatEnd), FinishReason: "stop", Versions: [2]int64{3, 4}}
	if params.MaxTokens > 0 && len(c.Tokens) > params.MaxTokens {
		c.Tokens, c.FinishReason = c.Tokens[:params.MaxTokens], "length"
	}
	for i := range c.Tokens {
		c.Logprobs = append(c.Logprobs, -float32(params.Seed%97)-float32(i+1)/8) // tells calls apart
	}
	p.calls = append(p.calls, sampledCall{slices.Clone(prompt.Tokens), c})
	return []trinity.Completion{c}, nil
}

// claim removes the calls that an experience has. Each of its trained tokens must be of one of them.
func (p *drawing) claim(t *testing.T, e *trinity.Experience) {
	t.Helper()
	for i := e.PromptLen; i < len(e.Tokens); {
		if !e.Mask[i] {
			i++
			continue
		}
		at := slices.IndexFunc(p.calls, func(c sampledCall) bool {
			n := i + len(c.reply.Tokens)
			return n <= len(e.Tokens) && slices.Equal(c.prompt, e.Tokens[:i]) && slices.Equal(c.reply.Tokens, e.Tokens[i:n]) &&
				slices.Equal(c.reply.Logprobs, e.Logprobs[i:n]) && !slices.Contains(e.Mask[i:n], false)
		})
		if at < 0 {
			t.Errorf("token %d of %q is no reply of the policy, or another experience has it", i, CallingChat{}.Decode(e.Tokens))
			return
		}
		i += len(p.calls[at].reply.Tokens)
		p.calls = slices.Delete(p.calls, at, at+1)
	}
}
