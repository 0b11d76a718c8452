package reward

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("weighted_reward",
		"The sum of several reward functions, each times its weight. `rewards` is a list of {reward: the function's name, weight: 1 "+
			"by default, args: its arguments, name: of its part, by default the function's name}. With weight 0 a function is only "+
			"logged. A reply that one of them cannot score has no valid reward. Parts: the value of each function under its name, "+
			"before the weight; if the function has several parts, also name/part for each.",
		func() trinity.RewardFunc { return &weighted{Python: bridge.DefaultPlugins()} })
}

// weighted adds up several reward functions.
type weighted struct {
	Rewards []weightedPart `yaml:"rewards" required:"list them, such as [{reward: accuracy_reward}]" doc:"of {reward, weight, args, name}"`

	Python bridge.Plugins `yaml:"python" doc:"the section python, if it is another for these functions"`
}

// weightedPart is one of the functions.
type weightedPart struct {
	Reward string         `yaml:"reward"`
	Weight *float64       `yaml:"weight" range:"(,)"` // nil is 1
	Args   map[string]any `yaml:"args"`
	Name   string         `yaml:"name"` // "" is Reward

	fn trinity.RewardFunc
}

// Validate builds the functions.
func (w *weighted) Validate() error {
	seen := map[string]bool{}
	for i := range w.Rewards {
		p, err := &w.Rewards[i], error(nil)
		if p.fn, err = buildPart(&w.Python, i, p.Reward, p.Args); err != nil {
			return err
		}
		if _, ok := p.fn.(trinity.GroupReward); ok {
			return fmt.Errorf("rewards.%d: %s scores a whole group at once: use hybrid_reward", i, p.Reward)
		}
		if p.Weight == nil {
			one := 1.0
			p.Weight = &one
		}
		if p.Name == "" {
			p.Name = partName(p.Reward)
		}
		if seen[p.Name] {
			return fmt.Errorf("rewards.%d.name: %q is the name of an earlier part: choose another", i, p.Name)
		}
		seen[p.Name] = true
	}
	return nil
}

// buildPart builds the function of this number in a list of rewards. python is the section in which functions of users are.
func buildPart(python *bridge.Plugins, i int, reward string, args map[string]any) (trinity.RewardFunc, error) {
	name, all := python.Resolve(registry.Rewards.Catalog, "", reward, args)
	if name != reward {
		if errs := registry.Rewards.Check(name, all); len(errs) > 0 {
			key := "reward"
			if strings.HasPrefix(errs[0].Key, "args") {
				key = errs[0].Key
			}
			return nil, fmt.Errorf("rewards.%d.%s: %s", i, key, errs[0].Message)
		}
	}
	fn, err := registry.Rewards.Build(name, all)
	if err != nil {
		return nil, fmt.Errorf("rewards.%d: %w", i, err)
	}
	return fn, nil
}

// partName returns the name of a function's part: that of the function without its module.
func partName(reward string) string { return reward[strings.LastIndexAny(reward, ".:")+1:] }

// Requires implements [trinity.Requirer].
func (w *weighted) Requires() trinity.Requirements {
	var parts []trinity.RewardFunc
	for _, p := range w.Rewards {
		parts = append(parts, p.fn)
	}
	return requirementsOf(parts)
}

// requirementsOf returns what the functions in the argument rewards need together.
func requirementsOf(parts []trinity.RewardFunc) (all trinity.Requirements) {
	var checks []func(*trinity.Task) error
	for i, fn := range parts {
		needs := trinity.RequirementsOf(fn)
		for _, spec := range needs.RewardModels {
			spec.Arg = fmt.Sprintf("rewards.%d.args.%s", i, spec.Arg)
			all.RewardModels = append(all.RewardModels, spec)
		}
		for _, spec := range needs.Askers {
			spec.Arg = fmt.Sprintf("rewards.%d.args.%s", i, spec.Arg)
			all.Askers = append(all.Askers, spec)
		}
		if needs.CheckTask != nil {
			checks = append(checks, needs.CheckTask)
		}
	}
	all.CheckTask = func(t *trinity.Task) error {
		for _, check := range checks {
			if err := check(t); err != nil {
				return err
			}
		}
		return nil
	}
	return all
}

// Score implements [trinity.RewardFunc].
func (w *weighted) Score(ctx context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	sum, parts := 0.0, map[string]float64{}
	for i := range w.Rewards {
		p := &w.Rewards[i]
		r, err := p.fn.Score(ctx, in)
		if err != nil {
			return trinity.Reward{}, fmt.Errorf("%s: %w", p.Name, err)
		}
		if !r.Valid {
			return trinity.InvalidReward(p.Name + ": " + r.Reason), nil
		}
		sum += *p.Weight * r.Value
		parts[p.Name] = r.Value
		for name, v := range r.Parts {
			if len(r.Parts) > 1 {
				parts[p.Name+"/"+name] = v
			}
		}
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return trinity.InvalidReward("the weighted sum is not a finite number"), nil
	}
	return trinity.Reward{Value: sum, Valid: true, Parts: parts}, nil
}
