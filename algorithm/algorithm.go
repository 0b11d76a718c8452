// Package algorithm builds an algorithm from its parts. Each algorithm type is one file, which
// registers the names of its parts and their arguments. [New] builds the parts that
// [registry.Parts] returns for a configuration.
package algorithm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/loss"
	"github.com/trinity-go/trinity/registry"
)

// Algorithm is an algorithm with its parts built.
type Algorithm struct {
	Def            *trinity.Algorithm // the names and arguments in use; every name is set
	Advantage      trinity.Advantage
	Loss           *loss.Composite
	NeedsReference bool // training reads Experience.RefLogprobs

	penalty   *loss.Penalty
	behaviour bool // a part reads Experience.Logprobs
}

// New builds the parts. The error names the part and the argument.
func New(parts *trinity.Algorithm) (*Algorithm, error) {
	a := &Algorithm{Def: complete(parts)}
	for _, build := range []func() error{a.buildAdvantage, a.buildLoss, a.buildPenalty, a.checkLoss, a.findReaders} {
		if err := build(); err != nil {
			return nil, fmt.Errorf("algorithm %s: %w", parts.Type, err)
		}
	}
	a.NeedsReference = a.Loss.Needs().Reference || a.penalty != nil || a.Needs().Reference
	return a, nil
}

// complete returns a copy of the parts in which every part has a name.
func complete(parts *trinity.Algorithm) *trinity.Algorithm {
	d := *parts
	for _, name := range []*string{&d.Advantage, &d.KLPenalty, &d.KLLoss, &d.Entropy} {
		*name = cmp.Or(*name, "none")
	}
	d.SampleStrategy = cmp.Or(d.SampleStrategy, "default")
	return &d
}

func (a *Algorithm) buildAdvantage() (err error) {
	a.Advantage, err = registry.Advantages.Build(a.Def.Advantage, a.Def.AdvantageArgs)
	return err
}

func (a *Algorithm) buildLoss() error {
	policy, err := loss.PolicyLosses.Build(a.Def.PolicyLoss, a.Def.PolicyLossArgs)
	if err != nil {
		return err
	}
	kl, err := loss.KLs.Build(a.Def.KLLoss, a.Def.KLLossArgs)
	if err != nil {
		return fmt.Errorf("kl_loss_fn: %w", err)
	}
	entropy, err := loss.Entropies.Build(a.Def.Entropy, a.Def.EntropyArgs)
	if err != nil {
		return err
	}
	if mode := a.Def.LossAggMode; mode != "" {
		if err := override(policy, a.Def.PolicyLoss, loss.AggMode(mode)); err != nil {
			return err
		}
		args := map[string]any{}
		maps.Copy(args, a.Def.PolicyLossArgs)
		args["loss_agg_mode"] = mode
		a.Def.PolicyLossArgs = args
	}
	a.Loss = loss.NewComposite(policy, kl, entropy)
	if err := a.checkSchema(); err != nil {
		return err
	}
	return a.checkScore()
}

// checkScore refuses terms over log-probabilities beside a loss that trains a reward model.
func (a *Algorithm) checkScore() error {
	for _, term := range []struct {
		key, name string
		used      bool
	}{{"kl_loss_fn", a.Def.KLLoss, a.Loss.KL != nil}, {"entropy_loss_fn", a.Def.Entropy, a.Loss.Bonus != nil}} {
		if term.used && a.Loss.Streams().Score {
			return registry.ArgError{Key: term.key, Message: fmt.Sprintf("%s reads log-probabilities, and %s trains a reward model, which has none",
				term.name, a.Def.PolicyLoss), Hint: "set it to none"}
		}
	}
	return nil
}

// checkLoss refuses a loss that does not fit the other parts. It tries a second one with the same
// arguments, because a loss may have state.
func (a *Algorithm) checkLoss() error {
	policy, err := loss.PolicyLosses.Build(a.Def.PolicyLoss, a.Def.PolicyLossArgs)
	if err != nil {
		return err
	}
	return a.rehearse(loss.NewComposite(policy, nil, nil))
}

// override sets the aggregation mode of a policy loss.
func override(policy loss.PolicyLoss, name string, mode loss.AggMode) error {
	if err := mode.Check(); err != nil {
		return err
	}
	own := loss.Aggregation(policy)
	if own == nil {
		return registry.ArgError{Key: "loss_agg_mode", Message: fmt.Sprintf("policy_loss_fn %s has a fixed aggregation", name),
			Hint: "remove the key"}
	}
	*own = mode
	return nil
}

func (a *Algorithm) buildPenalty() error {
	kl, err := loss.KLs.Build(a.Def.KLPenalty, a.Def.KLPenaltyArgs)
	if err != nil {
		return fmt.Errorf("kl_penalty_fn: %w", err)
	}
	if a.Def.KLPenalty == "none" {
		return nil
	}
	penalize := a.Advantage.Needs().PenalizeKL
	if penalize == nil {
		return fmt.Errorf("kl_penalty_fn %s: advantage_fn %s scores whole responses and has no token rewards to take a KL "+
			"penalty from: use kl_loss_fn", a.Def.KLPenalty, a.Def.Advantage)
	}
	if kl.Controller().KLCoef != 0 {
		a.penalty = loss.NewPenalty(kl)
		penalize(a.penalty.Of)
	}
	return nil
}

// Open opens the parts that a run opens; see trinity.Advantage.
func (a *Algorithm) Open(host trinity.Host) error {
	parts := []any{a.Advantage, a.Loss}
	if a.penalty != nil {
		parts = append(parts, a.penalty.KL)
	}
	for _, part := range parts {
		if o, ok := part.(interface{ Open(trinity.Host) error }); ok {
			if err := o.Open(host); err != nil {
				return err
			}
		}
	}
	return nil
}

// AfterStep adapts kl_coef. Call it after each optimizer step with the summed metrics of its
// micro-batches and its number of sequences.
func (a *Algorithm) AfterStep(metrics trinity.Metrics, sequences int) {
	a.Loss.AfterStep(metrics, sequences)
}

// state holds what a resumed run needs.
type state struct {
	KLLossCoef    float64 `json:"kl_loss_coef"`
	KLPenaltyCoef float64 `json:"kl_penalty_coef"`

	Parts map[string]json.RawMessage `json:"parts,omitempty"` // those that keep something, by their keys
}

// keeper is a part that keeps something over steps; see trinity.Advantage.
type keeper interface {
	State() (json.RawMessage, error)
	Restore(state json.RawMessage) error
}

// stateful returns the parts that keep something over the trainer's steps, by their keys.
func (a *Algorithm) stateful() map[string]keeper {
	parts := map[string]any{
		"policy_loss_fn": a.Loss.Policy, "kl_loss_fn": a.Loss.KL, "entropy_loss_fn": a.Loss.Bonus, "advantage_fn": a.InTrainer(),
	}
	if a.penalty != nil {
		parts["kl_penalty_fn"] = a.penalty.KL
	}
	all := map[string]keeper{}
	for key, part := range parts {
		if keeps, ok := part.(keeper); ok {
			all[key] = keeps
		}
	}
	return all
}

// State returns the coefficients that change during training, and the states of the parts, for a checkpoint.
func (a *Algorithm) State() ([]byte, error) {
	s := state{KLLossCoef: a.Loss.KLCoef()}
	if a.penalty != nil {
		s.KLPenaltyCoef = a.penalty.Coef
	}
	for key, part := range a.stateful() {
		kept, err := part.State()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if kept != nil {
			if s.Parts == nil {
				s.Parts = map[string]json.RawMessage{}
			}
			s.Parts[key] = kept
		}
	}
	return json.Marshal(s)
}

// Restore restores what State returned. It ignores what belongs to a part that no longer exists. A
// coefficient that is not adaptive, or whose term is new, keeps the value of the configuration.
func (a *Algorithm) Restore(data []byte) error {
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("algorithm %s: saved state: %w", a.Def.Type, err)
	}
	if a.Loss.KL != nil && a.Loss.KL.Controller().Adaptive && s.KLLossCoef > 0 {
		a.Loss.SetKLCoef(s.KLLossCoef)
	}
	if a.penalty != nil && a.penalty.KL.Controller().Adaptive && s.KLPenaltyCoef > 0 {
		a.penalty.Coef = s.KLPenaltyCoef
	}
	for key, part := range a.stateful() {
		if kept := s.Parts[key]; kept != nil {
			if err := part.Restore(kept); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	return nil
}
