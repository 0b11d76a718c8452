package reward

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"
	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("hybrid_reward",
		"An expression over several reward functions, such as `format > 0 ? 0.8*answer + 0.2*clip(judge ?? 0, 0, 1) : 0`. "+
			"`rewards` is a list of {reward: the function's name, name: its variable, args: its arguments, when: a condition on "+
			"the variables before it}. A function whose condition is false is not asked, and its variable is nil. Further "+
			"variables: response, response_tokens, truncated, truth. The function clip(x, lowest, highest) bounds a number. The "+
			"language is that of expr-lang.org without a clock. A reply that one of the functions cannot score has no valid "+
			"reward. Parts: the variables that are not nil.",
		func() trinity.RewardFunc { return &hybrid{Python: bridge.DefaultPlugins()} })
}

// hybrid combines reward functions by an expression.
type hybrid struct {
	Rewards []hybridPart `yaml:"rewards" required:"list them, such as [{reward: accuracy_reward}]" doc:"of {reward, name, args, when}"`
	Value   string       `yaml:"value" doc:"the reward, an expression over their names"`

	Python bridge.Plugins `yaml:"python" doc:"the section python, if it is another for these functions"`

	value *vm.Program
}

// hybridPart is one of the functions.
type hybridPart struct {
	Reward string         `yaml:"reward"`
	Name   string         `yaml:"name"` // "" is Reward
	Args   map[string]any `yaml:"args"`
	When   string         `yaml:"when"` // "" is always

	fn   trinity.RewardFunc
	when *vm.Program // nil is always
}

var isVariable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Validate builds the functions and compiles the expressions.
func (h *hybrid) Validate() (err error) {
	known := types.Map{"response": types.String, "truth": types.String, "response_tokens": types.Int, "truncated": types.Bool}
	for i := range h.Rewards {
		p := &h.Rewards[i]
		if p.fn, err = buildPart(&h.Python, i, p.Reward, p.Args); err != nil {
			return err
		}
		if p.Name == "" {
			p.Name = partName(p.Reward)
		}
		if _, taken := known[p.Name]; taken || !isVariable.MatchString(p.Name) {
			return fmt.Errorf("rewards.%d.name: %q must be a name of letters, digits and _ that no other variable has", i, p.Name)
		}
		if p.When != "" {
			if p.when, err = expr.Compile(p.When, append(compiler(known), expr.AsBool())...); err != nil {
				return fmt.Errorf("rewards.%d.when: %w", i, err)
			}
		}
		if known[p.Name] = types.Float; p.when != nil {
			known[p.Name] = types.Any // it may be nil
		}
	}
	if h.Value == "" {
		return errors.New("value: write an expression over the names of the rewards")
	}
	if h.value, err = expr.Compile(h.Value, append(compiler(known), expr.AsFloat64())...); err != nil {
		return fmt.Errorf("value: %w", err)
	}
	return nil
}

// compiler returns the options of the compiler. A clock would make rewards differ from run to run.
func compiler(known types.Map) []expr.Option {
	return []expr.Option{
		expr.Env(known), expr.DisableBuiltin("now"),
		expr.Function("clip", func(args ...any) (any, error) {
			var x [3]float64
			for i, a := range args {
				switch v := a.(type) {
				case float64:
					x[i] = v
				case int:
					x[i] = float64(v)
				default:
					return nil, fmt.Errorf("clip takes numbers, got %v", a)
				}
			}
			return max(x[1], min(x[0], x[2])), nil
		}, new(func(any, any, any) float64)),
	}
}

// variablesOf returns what an expression may use of a reply, beside its rewards.
func variablesOf(in trinity.RewardInput) map[string]any {
	all := map[string]any{"response": in.Response, "truth": in.Truth, "response_tokens": 0, "truncated": false}
	if e := in.Experience; e != nil {
		all["response_tokens"], all["truncated"] = e.ResponseLen(), e.Truncated != trinity.NotTruncated
	}
	return all
}

// Requires implements [trinity.Requirer].
func (h *hybrid) Requires() trinity.Requirements {
	var parts []trinity.RewardFunc
	for _, p := range h.Rewards {
		parts = append(parts, p.fn)
	}
	return requirementsOf(parts)
}

// Score implements [trinity.RewardFunc].
func (h *hybrid) Score(ctx context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	return scoreOne(ctx, h, in)
}

// ScoreGroup implements [trinity.GroupReward].
func (h *hybrid) ScoreGroup(ctx context.Context, in []trinity.RewardInput) ([]trinity.Reward, error) {
	rewards, variables := make([]trinity.Reward, len(in)), make([]map[string]any, len(in))
	for i := range in {
		variables[i] = variablesOf(in[i])
	}
	for i := range h.Rewards {
		if err := h.Rewards[i].score(ctx, in, variables, rewards); err != nil {
			return nil, err
		}
	}
	for i := range in {
		if rewards[i].Reason == "" {
			rewards[i] = h.combine(variables[i])
		}
	}
	return rewards, nil
}

// score writes the variable of a part for each reply that its condition takes. It writes into rewards
// why a reply cannot be scored.
func (p *hybridPart) score(ctx context.Context, in []trinity.RewardInput, variables []map[string]any, rewards []trinity.Reward) error {
	var taken []int
	var given []trinity.RewardInput
	for i := range in {
		variables[i][p.Name] = nil
		if rewards[i].Reason != "" {
			continue
		}
		if p.when != nil {
			takes, err := expr.Run(p.when, variables[i])
			if err != nil {
				rewards[i] = unscoredBy(trinity.FailedReward, fmt.Sprintf("%s: when: %v", p.Name, err))
				continue
			}
			if !takes.(bool) {
				continue
			}
		}
		taken, given = append(taken, i), append(given, in[i])
	}
	if len(taken) == 0 {
		return nil
	}
	scored, err := scoreAll(ctx, p.fn, given)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	for k, r := range scored {
		if i := taken[k]; r.Valid {
			variables[i][p.Name] = r.Value
		} else {
			rewards[i] = unscoredBy(r.Kind, p.Name+": "+r.Reason)
		}
	}
	return nil
}

// partsAtOnce bounds the replies of a group that a part scores at once.
const partsAtOnce = 16

// scoreAll scores replies together if the function compares them, else one by one.
func scoreAll(ctx context.Context, fn trinity.RewardFunc, in []trinity.RewardInput) ([]trinity.Reward, error) {
	if group, ok := fn.(trinity.GroupReward); ok {
		return group.ScoreGroup(ctx, in)
	}
	rewards := make([]trinity.Reward, len(in))
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(partsAtOnce)
	for i := range in {
		eg.Go(func() (err error) {
			if rewards[i], err = fn.Score(ctx, in[i]); err != nil {
				rewards[i], err = unscored(err)
			}
			return err
		})
	}
	return rewards, eg.Wait()
}

// combine returns the reward of a reply whose parts are known.
func (h *hybrid) combine(variables map[string]any) trinity.Reward {
	out, err := expr.Run(h.value, variables)
	if err != nil {
		return unscoredBy(trinity.FailedReward, fmt.Sprintf("value: %v", err))
	}
	value := out.(float64)
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return unscoredBy(trinity.FailedReward, "value is not a finite number")
	}
	parts := map[string]float64{}
	for _, p := range slices.Sorted(maps.Keys(variables)) {
		if v, ok := variables[p].(float64); ok {
			parts[p] = v
		}
	}
	return trinity.Reward{Value: value, Valid: true, Parts: parts}
}
