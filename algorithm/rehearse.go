package algorithm

import (
	"context"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/loss"
	"github.com/trinity-go/trinity/registry"
)

// rehearse runs the loss on made-up experiences that hold what the other parts provide. So a loss
// that lacks advantages or log-probabilities fails before anything is loaded, not in the first
// step. rehearse ignores a loss that also fails with everything present: that has other reasons.
func (a *Algorithm) rehearse(l *loss.Composite) error {
	scored := a.Def.Advantage != "none" && !a.Def.Offline
	real := []*trinity.Experience{a.actor(0, scored, !a.Def.Offline), a.actor(1, scored, !a.Def.Offline)}
	full := []*trinity.Experience{a.actor(0, true, true), a.actor(1, true, true)}
	if learn(l, full) != nil {
		return nil
	}
	e := registry.ArgError{Key: "policy_loss_fn"}
	switch err := learn(l, real); {
	case err != nil && a.Def.Offline:
		e.Message = fmt.Sprintf("%s reads advantages or log-probabilities of the sampling policy, which the dataset of %s does "+
			"not have", a.Def.PolicyLoss, a.Def.Type)
		e.Hint = "use a loss such as sft, or an algorithm_type that rolls out"
		return e
	case err != nil:
		e.Message = fmt.Sprintf("%s reads advantages, but advantage_fn none computes none", a.Def.PolicyLoss)
		e.Hint = "set advantage_fn, or use a loss that reads none, such as sft"
		return e
	}
	_, wants := l.Policy.(loss.Demonstrated)
	switch mixes := a.mixes(); {
	case wants && !mixes:
		e.Message = fmt.Sprintf("%s also learns from demonstrations, but sample_strategy %s adds none", a.Def.PolicyLoss, a.Def.SampleStrategy)
		e.Hint = "set sample_strategy: mix, or a policy_loss_fn for rollouts alone, such as ppo"
		return e
	case !mixes:
		return nil
	}
	expert := a.actor(2, a.InTrainer() != nil, false)
	expert.IsExpert = true
	if learn(l, append(real, expert)) != nil {
		e.Message = fmt.Sprintf("%s cannot learn from demonstrations, which sample_strategy %s adds", a.Def.PolicyLoss, a.Def.SampleStrategy)
		e.Hint = "use mix or mix_chord, or sample_strategy default"
		return e
	}
	return nil
}

// findReaders notes whether a part reads the log-probabilities that were recorded when sampling. It tries
// other parts with the same arguments, because parts may have state.
func (a *Algorithm) findReaders() error {
	advantage, err := registry.Advantages.Build(a.Def.Advantage, a.Def.AdvantageArgs)
	if err != nil {
		return err
	}
	policy, err := loss.PolicyLosses.Build(a.Def.PolicyLoss, a.Def.PolicyLossArgs)
	if err != nil {
		return err
	}
	if o, ok := advantage.(interface{ Open(trinity.Host) error }); ok {
		if err := o.Open(nil); err != nil {
			return err
		}
	}
	l := loss.NewComposite(policy, nil, nil)
	fails := func(sampled bool) bool {
		exps := []*trinity.Experience{a.actor(0, true, sampled), a.actor(1, true, sampled)}
		for i, e := range exps {
			e.Reward = trinity.Reward{Value: float64(i), Valid: true}
			e.Values, e.Entropies, e.Discriminators = make([]float32, 2), make([]float32, 2), make([]float32, 2)
		}
		if _, _, err := advantage.Advantages(context.Background(), []trinity.Group{exps}); err != nil {
			return true
		}
		return learn(l, exps) != nil
	}
	a.behaviour = a.penalty != nil || advantage.Needs().Behaviour || fails(false) && !fails(true)
	return nil
}

// mixes reports whether the trainer reads demonstrations besides rollouts.
func (a *Algorithm) mixes() bool {
	s, err := registry.SampleStrategies.Build(a.Def.SampleStrategy, a.Def.SampleStrategyArgs)
	return err == nil && len(s.Needs().Auxiliary) > 0
}

// actor returns an experience with one prompt token and one trained token.
func (a *Algorithm) actor(i int, scored, sampled bool) *trinity.Experience {
	zeros := func() []float32 { return make([]float32, 2) }
	e := &trinity.Experience{
		ID: trinity.ExperienceID{Task: "rehearsal", Run: i}, Tokens: []int32{int32(i), 0}, Mask: []bool{false, true}, PromptLen: 1,
		RefLogprobs: zeros(), TeacherLogprobs: zeros(), Chosen: i == 0,
	}
	if scored {
		e.Advantages = zeros()
	}
	if sampled {
		e.Logprobs = zeros()
	}
	return e
}

// learn runs an optimizer step of the loss without an engine.
func learn(l *loss.Composite, whole []*trinity.Experience) error {
	if err := l.Open(nil); err != nil {
		return err
	}
	probes := l.Probes(whole)
	for _, p := range probes {
		p.RefLogprobs = make([]float32, len(p.Tokens))
	}
	if len(probes) > 0 {
		b := &trinity.Batch{Experiences: probes, Whole: probes, Step: 1}
		if err := l.Prepare(context.Background(), b, said(probes)); err != nil {
			return err
		}
	}
	_, _, err := l.Loss(&trinity.Batch{Experiences: whole, Whole: whole, Step: 1}, said(whole))
	return err
}

// said returns token statistics of zeros instead of an engine's.
func said(exps []*trinity.Experience) []trinity.TokenStats {
	stats := make([]trinity.TokenStats, len(exps))
	for i, e := range exps {
		zeros := make([]float32, len(e.Tokens))
		stats[i] = trinity.TokenStats{Logprob: zeros, Entropy: zeros, Divergence: zeros}
	}
	return stats
}
