package advantage

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Advantages.Register("python",
		"An advantage function of yours in Python: a class of Trinity-RFT (GroupAdvantage, AdvantageFn), or a function of exps. advantage_fn: "+
			"my.module.Advantage names it as well; advantage_fn_args are then its arguments. It gets the experiences that have a valid reward "+
			"and returns those to train on, with advantages and returns, and metrics; it may drop, order and repeat them. A class whose "+
			"compute_in_trainer is true gets a batch of the trainer, whose keys (token_level_rewards, response_mask, values, …) say what the "+
			"run computes. The section python of the configuration says which Python runs it. Metrics: invalid_count, and those that it returns.",
		func() trinity.Advantage { return &pythonAdvantage{Timeout: 600, Python: bridge.DefaultPlugins()} })
	registry.Advantages.Elsewhere("python", "class")
}

// pythonAdvantage asks a class or a function in a process of Python.
type pythonAdvantage struct {
	Class   string         `yaml:"class" required:"name a class, such as my.module.Advantage" doc:"package.module.Name, or file.py:Name"`
	Args    map[string]any `yaml:"args" doc:"arguments of the class, or of the function beside exps"`
	Timeout float64        `yaml:"timeout" range:"(0,inf]" doc:"seconds for one batch, besides those for imports (python.start_timeout)"`
	Python  bridge.Plugins `yaml:"python" doc:"the section python, if it is another for this class"`

	tokenRewards
	is     bridge.Described
	run    bridge.Run
	memory bridge.Memory
}

// Validate checks that the class exists and takes the arguments.
func (p *pythonAdvantage) Validate() (err error) {
	p.is, err = p.Python.Check("advantage", p.Class, &p.Args)
	return err
}

// Open gives the function what a run offers; nil in a rehearsal, which starts no program.
func (p *pythonAdvantage) Open(host trinity.Host) error {
	p.run.Open(host)
	return nil
}

// State returns the state of the class for a checkpoint; nil if it has none.
func (p *pythonAdvantage) State() (json.RawMessage, error) { return p.memory.Save(p.Class) }

// Restore takes a state that State has returned.
func (p *pythonAdvantage) Restore(state json.RawMessage) error { return p.memory.Load(p.Class, state) }

// Needs implements [trinity.Advantage].
func (p *pythonAdvantage) Needs() trinity.Needs {
	if !p.is.ComputeInTrainer {
		return trinity.Needs{Group: slices.Contains(p.is.Needs, "group")}
	}
	reads := func(key string) bool { return slices.Contains(p.is.Needs, key) }
	needs := trinity.Needs{
		Batch: true, Values: reads("values"), Reference: reads("ref_log_prob"), Teacher: reads("teacher_logprobs"), Entropies: reads("entropys"),
		Discriminators: reads("necs"), GreedyReward: reads("reward_baselines"),
	}
	if reads("token_level_rewards") {
		needs.PenalizeKL = p.penalize
	}
	return needs
}

// Advantages implements [trinity.Advantage].
func (p *pythonAdvantage) Advantages(ctx context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	metrics := trinity.Metrics{}
	all, batch, err := sampled(groups, metrics)
	if err != nil || len(batch) == 0 {
		return all, metrics, err
	}
	asked, experts := apart(all)
	body, err := p.body(ctx, asked, metrics)
	if err != nil || p.run.Rehearses() {
		return all, metrics, err
	}
	var edits bridge.Edits
	q := bridge.Question{Do: "advantage", Name: p.Class, Body: body, Memory: &p.memory, Timeout: p.Timeout}
	if err := p.run.Ask(ctx, &p.Python, q, &edits); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", p.Class, err)
	}
	metrics.Merge("", edits.Metrics)
	kept, err := p.run.Edit("advantage "+p.Class, &edits, asked)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", p.Class, err)
	}
	for _, e := range slices.Concat(kept...) {
		if e.Advantages == nil {
			return nil, nil, fmt.Errorf("%s gave experience %s no advantages", p.Class, e.ID)
		}
	}
	return append(kept, experts...), metrics, nil
}

// apart takes demonstrations out of groups. They follow the others, in groups of their own.
func apart(groups []trinity.Group) (sampled, experts []trinity.Group) {
	for _, g := range groups {
		var own, other trinity.Group
		for _, e := range g {
			if e.IsExpert {
				other = append(other, e)
			} else {
				own = append(own, e)
			}
		}
		if len(own) > 0 {
			sampled = append(sampled, own)
		}
		if len(other) > 0 {
			experts = append(experts, other)
		}
	}
	return sampled, experts
}

// body returns the question about a batch.
func (p *pythonAdvantage) body(ctx context.Context, groups []trinity.Group, metrics trinity.Metrics) (map[string]any, error) {
	sent := bridge.Experiences(groups)
	body := map[string]any{"args": p.Args, "experiences": sent}
	if !p.is.ComputeInTrainer {
		return body, nil
	}
	batch := slices.Concat(groups...)
	rewards, err := p.of(ctx, batch, metrics)
	if err != nil {
		return nil, err
	}
	for i, e := range batch {
		streams := map[string]string{"token_level_rewards": bridge.Pack(narrow(rewards[i])[e.PromptLen:])}
		for _, s := range []struct {
			name, origin string
			v            []float32
		}{
			{"values", "from the critic", e.Values}, {"old_log_probs", "of the policy before the update", e.LogprobsBefore()},
			{"ref_log_prob", "of the reference model", e.RefLogprobs}, {"teacher_logprobs", "of a teacher", e.TeacherLogprobs},
			{"entropys", "of the policy", e.Entropies}, {"rollout_log_probs", "of the policy that sampled it", e.Logprobs},
			{"necs", "of the policy before the update", e.Discriminators},
		} {
			if slices.Contains(p.is.Needs, s.name) {
				if err := needed(e, s.name, s.origin, s.v); err != nil {
					return nil, err
				}
			}
			if len(s.v) == len(e.Mask) {
				streams[s.name] = bridge.Pack(s.v[e.PromptLen:])
			}
		}
		if b, ok, err := number(e, baselineKey); err != nil {
			return nil, err
		} else if ok {
			sent[i]["reward_baseline"] = b
		}
		sent[i]["streams"] = streams
	}
	return body, nil
}
