package gateway

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/trinitytest"
)

// scripted replies in the order of its script, and notes what it read and wrote.
type scripted struct {
	mu     sync.Mutex
	script []string
	reads  [][]int32
	writes [][]int32
}

func (p *scripted) Sample(_ context.Context, prompt trinity.Prompt, params trinity.SamplingParams) ([]trinity.Completion, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.reads) == len(p.script) {
		return nil, fmt.Errorf("a call more than the %d expected ones: %q", len(p.script), chatty{}.Decode(prompt.Tokens))
	}
	c := trinity.Completion{Tokens: append(chatty{}.Encode(p.script[len(p.reads)]), end), FinishReason: "stop"}
	c.Logprobs = make([]float32, len(c.Tokens))
	if params.OnToken != nil {
		for _, token := range c.Tokens {
			params.OnToken(0, trinity.Sampled{Token: token})
		}
	}
	p.reads, p.writes = append(p.reads, prompt.Tokens), append(p.writes, c.Tokens)
	return []trinity.Completion{c}, nil
}

const (
	adds    = `I add.!add{"a": 20, "b": 22}`
	answers = "It is 42."
)

// Agents that other people wrote run as they are, with a tool, streamed and not. What the policy read
// and wrote for them is one sequence, id by id.
func TestAgentsOfOthers(t *testing.T) {
	if os.Getenv("TRINITY_AGENTS") != "1" {
		t.Skip("TRINITY_AGENTS=1 needs the packages of bench/peers/requirements-agents.txt and bench/peers/package.json")
	}
	agents, err := filepath.Abs("testdata/agents")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		program  string
		whole    bool // it does not stream
		rewrites bool // it writes its calls as text into the next request, which therefore begins a sequence
		script   []string
	}{
		{program: "openai_chat.py"},
		{program: "openai_responses.py"},
		{program: "anthropic_messages.py"},
		{program: "openai_agents.py"},
		{program: "openai_agents_chat.py"},
		{program: "langgraph_agent.py"},
		{program: "agentscope_agent.py"},
		{program: "smolagents_agent.py", rewrites: true, script: []string{adds, `!final_answer{"answer": "42"}`}},
		{program: "mini_swe_agent.py", whole: true, script: []string{
			`I look.!bash{"command": "echo $((20 + 22))"}`, `!bash{"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo 42"}`,
		}},
		{program: "openai_node.mjs"},
		{program: "anthropic_node.mjs"},
	} {
		for _, way := range []string{"whole", "stream"} {
			if c.whole && way == "stream" {
				continue
			}
			t.Run(c.program+" "+way, func(t *testing.T) {
				e := open(t, trinity.EndpointOptions{})
				policy := &scripted{script: []string{adds, answers}}
				if c.script != nil {
					policy.script = c.script
				}
				e.model.Sampler, e.model.Renderer, e.model.MaxModelLen, e.model.Params.MaxTokens = policy, trinitytest.CallingChat{}, 1<<20, 1000
				play(t, e, filepath.Join(agents, c.program), way)
				checkAgent(t, e, policy, c.rewrites)
			})
		}
	}
}

// play runs a program at the endpoint.
func play(t *testing.T, e *endpoint, program, way string) {
	t.Helper()
	p := process.Program{Command: []string{"python3", program, way}, Dir: t.TempDir(), Env: map[string]string{
		"OPENAI_BASE_URL": e.URL(), "OPENAI_API_KEY": e.Key(), "ANTHROPIC_BASE_URL": strings.TrimSuffix(e.URL(), "/v1"),
		"ANTHROPIC_API_KEY": e.Key(), "HOME": t.TempDir(), "LITELLM_LOCAL_MODEL_COST_MAP": "True",
	}}
	if python := os.Getenv("TRINITY_AGENTS_PYTHON"); python != "" {
		p.Command[0] = python
	}
	if strings.HasSuffix(program, ".mjs") {
		modules := os.Getenv("TRINITY_AGENTS_NODE")
		if modules == "" {
			t.Skip("TRINITY_AGENTS_NODE names a folder in which npm has installed bench/peers/package.json")
		}
		data, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		p.Command[0], p.Command[1] = "node", filepath.Join(p.Dir, filepath.Base(program))
		if err := os.WriteFile(p.Command[1], data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(modules, "node_modules"), filepath.Join(p.Dir, "node_modules")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := exec.LookPath(p.Command[0]); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if _, err := p.Run(ctx, nil, 1<<20); err != nil {
		t.Fatal(err)
	}
}

// checkAgent holds a rollout to what the policy read and wrote.
func checkAgent(t *testing.T, e *endpoint, policy *scripted, rewrites bool) {
	t.Helper()
	r, spelled := e.recorded()
	if len(policy.reads) != 2 || r.Calls != 2 || r.Failure != nil || r.Reward == nil || r.Reward.Value != 1 {
		t.Fatalf("%d calls, reward %v, failure %v:\n%s", r.Calls, r.Reward, r.Failure, spelled)
	}
	first, second := slices.Concat(policy.reads[0], policy.writes[0]), slices.Concat(policy.reads[1], policy.writes[1])
	want, before, extended := [][]int32{second}, len(first), 1.0
	if rewrites {
		want, before, extended = [][]int32{first, second}, 0, 0
	} else if !slices.Equal(first, second[:len(first)]) {
		t.Error("the policy did not read what it wrote")
	}
	trained := 0
	for i, x := range r.Experiences {
		if trained += x.TrainedTokens(); i >= len(want) || !slices.Equal(x.Tokens, want[i]) {
			t.Fatalf("recorded\n%s\nwant %q", spelled, chatty{}.Decode(slices.Concat(want...)))
		}
	}
	if m := r.Experiences[0].Metrics; m["turns"] != 2 || m["extension_rate"] != extended || len(r.Experiences) != len(want) {
		t.Errorf("%d experiences, %v", len(r.Experiences), m)
	}
	if last := r.Last; trained != len(policy.writes[0])+len(policy.writes[1]) || slices.Contains(last.Mask[len(policy.reads[1]):], false) {
		t.Errorf("%d tokens are trained, not all that the policy wrote:\n%s", trained, spelled)
	}
	if between := (chatty{}).Decode(policy.reads[1][before:]); !strings.Contains(between, "42") {
		t.Errorf("the policy read %q of the tool", between)
	}
}
