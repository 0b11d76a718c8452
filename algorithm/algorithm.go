// Package algorithm makes an algorithm out of its parts. One file per algorithm type registers which parts it has and their defaults; [New]
// builds them with a config's changes merged over.
package algorithm

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/loss"
	"github.com/trinity-go/trinity/registry"
)

// Spec is what a config says about the algorithm. "" and nil leave the type's own choice.
type Spec struct {
	Type           string // algorithm_type
	AdvantageFn    string
	PolicyLossFn   string
	KLPenaltyFn    string
	KLLossFn       string
	EntropyLossFn  string
	SampleStrategy string

	AdvantageArgs      map[string]any
	PolicyLossArgs     map[string]any
	KLPenaltyArgs      map[string]any
	KLLossArgs         map[string]any
	EntropyLossArgs    map[string]any
	SampleStrategyArgs map[string]any

	LossAggMode *string // loss_agg_mode: overrides that of the policy loss; nil leaves it
}

// Algorithm is a Spec with everything resolved and built.
type Algorithm struct {
	Type           string
	Def            *trinity.Algorithm // the type's definition with the names and args that are in use; every name is set
	Advantage      trinity.Advantage
	Loss           *loss.Composite
	NeedsReference bool // training reads Experience.RefLogprobs

	penalty *loss.Penalty
}

// New builds an algorithm. Errors name the part and the argument.
func New(s Spec) (*Algorithm, error) {
	def, err := registry.Algorithms.Build(s.Type)
	if err != nil {
		return nil, err
	}
	a := &Algorithm{Type: s.Type, Def: resolve(def, s)}
	for _, build := range []func(Spec) error{a.buildAdvantage, a.buildLoss, a.buildPenalty, a.checkLoss} {
		if err := build(s); err != nil {
			return nil, fmt.Errorf("algorithm %s: %w", s.Type, err)
		}
	}
	a.NeedsReference = a.Loss.Needs().Reference || a.penalty != nil || a.Needs().Reference
	return a, nil
}

// resolve puts the spec's choices over a copy of the type's definition.
func resolve(def *trinity.Algorithm, s Spec) *trinity.Algorithm {
	d := *def
	d.Advantage, d.AdvantageArgs = part(def.Advantage, def.AdvantageArgs, s.AdvantageFn, s.AdvantageArgs, "none")
	d.PolicyLoss, d.PolicyLossArgs = part(def.PolicyLoss, def.PolicyLossArgs, s.PolicyLossFn, s.PolicyLossArgs, "")
	d.KLPenalty, _ = part(def.KLPenalty, nil, s.KLPenaltyFn, nil, "none")
	d.KLLoss, d.KLLossArgs = part(def.KLLoss, def.KLLossArgs, s.KLLossFn, s.KLLossArgs, "none")
	d.Entropy, d.EntropyArgs = part(def.Entropy, def.EntropyArgs, s.EntropyLossFn, s.EntropyLossArgs, "none")
	d.SampleStrategy, d.SampleStrategyArgs = part(def.SampleStrategy, def.SampleStrategyArgs, s.SampleStrategy, s.SampleStrategyArgs, "default")
	return &d
}

// part chooses a part and merges its args. The type's args belong to the type's choice and do not outlive it.
func part(name string, args map[string]any, chosen string, chosenArgs map[string]any, fallback string) (string, map[string]any) {
	if name == "" {
		name = fallback
	}
	merged := map[string]any{}
	if chosen == "" || chosen == name {
		maps.Copy(merged, args)
	} else {
		name = chosen
	}
	maps.Copy(merged, chosenArgs)
	return name, merged
}

func (a *Algorithm) buildAdvantage(Spec) (err error) {
	a.Advantage, err = registry.Advantages.Build(a.Def.Advantage, a.Def.AdvantageArgs)
	return err
}

func (a *Algorithm) buildLoss(s Spec) error {
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
	if s.LossAggMode != nil {
		if err := override(policy, a.Def.PolicyLoss, loss.AggMode(*s.LossAggMode)); err != nil {
			return err
		}
		a.Def.PolicyLossArgs["loss_agg_mode"] = *s.LossAggMode
	}
	a.Loss = loss.NewComposite(policy, kl, entropy)
	return a.checkSchema()
}

// checkLoss refuses a loss that the other parts do not fit. It tries another one of the same arguments, because a loss may have state.
func (a *Algorithm) checkLoss(Spec) error {
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
		return registry.ArgError{Key: "loss_agg_mode", Message: fmt.Sprintf("policy_loss_fn %s aggregates in a way of its own", name), Hint: "remove the key"}
	}
	*own = mode
	return nil
}

func (a *Algorithm) buildPenalty(s Spec) error {
	kl, err := loss.KLs.Build(a.Def.KLPenalty, s.KLPenaltyArgs)
	if err != nil {
		return fmt.Errorf("kl_penalty_fn: %w", err)
	}
	if a.Def.KLPenalty == "none" {
		return nil
	}
	advantage, ok := a.Advantage.(trinity.KLPenalized)
	if !ok {
		return fmt.Errorf("kl_penalty_fn %s: advantage_fn %s scores whole responses and has no token rewards to take a KL penalty from: use kl_loss_fn", a.Def.KLPenalty, a.Def.Advantage)
	}
	if kl.Controller().KLCoef != 0 {
		a.penalty = loss.NewPenalty(kl)
		advantage.PenalizeKL(a.penalty.Of)
	}
	return nil
}

// AfterStep is to be called after each optimizer step with the summed metrics of its micro-batches and its number of sequences: it moves an
// adaptive kl_coef.
func (a *Algorithm) AfterStep(metrics trinity.Metrics, sequences int) {
	a.Loss.AfterStep(metrics, sequences)
}

// state is what a resumed run needs.
type state struct {
	KLLossCoef    float64 `json:"kl_loss_coef"`
	KLPenaltyCoef float64 `json:"kl_penalty_coef"`
}

// State returns the coefficients that move during training, for a checkpoint.
func (a *Algorithm) State() ([]byte, error) {
	s := state{KLLossCoef: a.Loss.KLCoef()}
	if a.penalty != nil {
		s.KLPenaltyCoef = a.penalty.Coef
	}
	return json.Marshal(s)
}

// Restore takes up what State returned. A coefficient whose term is gone is ignored; one that does not move, or whose term is new, keeps the
// config's value.
func (a *Algorithm) Restore(data []byte) error {
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("algorithm %s: saved state: %w", a.Type, err)
	}
	if a.Loss.KL != nil && a.Loss.KL.Controller().Adaptive && s.KLLossCoef > 0 {
		a.Loss.SetKLCoef(s.KLLossCoef)
	}
	if a.penalty != nil && a.penalty.KL.Controller().Adaptive && s.KLPenaltyCoef > 0 {
		a.penalty.Coef = s.KLPenaltyCoef
	}
	return nil
}
