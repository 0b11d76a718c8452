package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/loss"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run"
)

// pythonModule is what a user writes: a reward that says how many KiB its process had at most, a loss, and the reward of a class.
const pythonModule = `import resource
from trinity.common.rewards import RewardFn
class Right(RewardFn):
    def __call__(self, response, truth, **kwargs):
        return {"accuracy": float(response == truth)}
def rss(completion):
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
def reinforce(logprob, advantages, action_mask):
    count = sum(map(sum, action_mask))
    loss = sum(-p * a for ps, ads in zip(logprob, advantages) for p, a in zip(ps, ads)) / count
    return loss, {"logprob": [[-a / count for a in row] for row in advantages]}
`

// writeModule writes the module into a folder, and returns the section python that finds it.
func writeModule(dir string) (bridge.Plugins, error) {
	section := bridge.DefaultPlugins()
	section.Path = []string{dir}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return section, err
	}
	bridge.Allow(func(string) {})
	return section, os.WriteFile(filepath.Join(dir, "of_bench.py"), []byte(pythonModule), 0o644)
}

// pythonStart is the first answer of a worker, from the start of its process.
type pythonStart struct {
	section bridge.Plugins
	bare    bool
}

func newPythonStart(a *assignment) (task, error) {
	section, err := writeModule(a.Dir)
	return &pythonStart{section, a.Unkept}, err
}

// run returns the milliseconds, and the memory of the worker.
func (p *pythonStart) run(int) (sample, error) {
	start := time.Now()
	if p.bare {
		err := exec.Command("python3", "-c", "pass").Run()
		return sample{Value: time.Since(start).Seconds() * 1e3}, err
	}
	host := &agentHost{}
	var answer struct{ Answers []struct{ Reward float64 } }
	err := p.section.Ask(context.Background(), host, bridge.Question{
		Do: "reward", Name: "of_bench.rss", Timeout: 60,
		Body: map[string]any{"args": map[string]any{}, "replies": []any{map[string]any{"response": "", "messages": []any{}}}},
	}, &answer)
	took := time.Since(start)
	if err != nil {
		return sample{}, err
	}
	return sample{Value: took.Seconds() * 1e3, PeakRSS: int64(answer.Answers[0].Reward) << 10}, host.opened.Close()
}

// pythonLoss is a loss in plain Python over an optimizer step of 32 sequences with 512 trained tokens each.
type pythonLoss struct {
	loss *loss.Composite
	step *trinity.Batch
	now  []trinity.TokenStats
}

func newPythonLoss(a *assignment) (task, error) {
	section, err := writeModule(a.Dir)
	if err != nil {
		return nil, err
	}
	own := map[string]any{"path": []any{section.Path[0]}}
	policy, err := loss.PolicyLosses.Build("python", map[string]any{"class": "of_bench.reinforce", "python": own})
	if err != nil {
		return nil, err
	}
	p := &pythonLoss{loss: loss.NewComposite(policy, nil, nil)}
	const sequences, tokens = 32, 512
	random := rand.New(rand.NewPCG(1, 0))
	var exps []*trinity.Experience
	for i := range sequences {
		e := &trinity.Experience{ID: trinity.ExperienceID{Step: 1, Task: "t/" + strconv.Itoa(i)}, PromptLen: 1, Temperature: 1}
		var now trinity.TokenStats
		for t := range tokens + 1 {
			e.Tokens, e.Mask = append(e.Tokens, random.Int32N(49152)), append(e.Mask, t > 0)
			e.Logprobs, e.Advantages = append(e.Logprobs, -random.Float32()), append(e.Advantages, float32(i%2)-.5)
			now.Logprob = append(now.Logprob, -random.Float32())
		}
		exps, p.now = append(exps, e), append(p.now, now)
	}
	p.step = &trinity.Batch{Step: 1, Experiences: exps, Whole: exps}
	return p, p.loss.Open(&agentHost{})
}

// run returns the milliseconds of a step.
func (p *pythonLoss) run(int) (sample, error) {
	start := time.Now()
	if n := len(p.loss.Probes(p.step.Whole)); n != len(p.step.Whole) {
		return sample{}, fmt.Errorf("%d sequences are asked about", n)
	}
	if err := p.loss.Prepare(context.Background(), p.step, p.now); err != nil {
		return sample{}, err
	}
	_, _, err := p.loss.Loss(p.step, p.now)
	return sample{Value: time.Since(start).Seconds() * 1e3}, err
}

// pythonRollouts are steps of 256 rollouts of two tokens of a tiny model.
type pythonRollouts struct{ dir, workflow, reward string }

func newPythonRollouts(a *assignment) (task, error) {
	if a.Unkept {
		return &pythonRollouts{a.Dir, "simple_workflow", "accuracy_reward"}, nil
	}
	_, err := writeModule(a.Dir)
	return &pythonRollouts{a.Dir, "trinity.common.workflows.SimpleWorkflow", "of_bench.Right"}, err
}

// run returns the milliseconds of a rollout.
func (p *pythonRollouts) run(number int) (sample, error) {
	const steps, rollouts = 8, 256
	text := fmt.Sprintf(`project: bench
name: python
python: {path: [%s]}
mode: both
checkpoint_root_dir: %s
model: {model_path: examples/quickstart/model, init: {style: fan_in}, max_prompt_tokens: 32, max_response_tokens: 2}
algorithm: {algorithm_type: grpo, repeat_times: 8, kl_loss_fn: none}
buffer:
  batch_size: %d
  total_steps: %d
  explorer_input:
    taskset: {path: examples/quickstart/data/train.jsonl, format: {prompt_key: question, response_key: answer}}
    default_workflow_type: %s
    default_reward_fn_type: %s
`, p.dir, filepath.Join(p.dir, strconv.Itoa(number)), rollouts/8, steps, p.workflow, p.reward)
	cfg, err := config.Parse("python.yaml", []byte(text), config.Options{})
	if err != nil {
		return sample{}, err
	}
	start := time.Now()
	_, err = run.Run(context.Background(), context.Background(), cfg, run.Options{Say: func(string) {}})
	return sample{Value: time.Since(start).Seconds() * 1e3 / (steps * rollouts)}, err
}
