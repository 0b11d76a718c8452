package algorithm

import (
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/loss"
	"github.com/trinity-go/trinity/registry"
)

// rehearse has the loss learn from made-up experiences that hold what the other parts would give it, so that one which lacks advantages or
// log-probabilities is refused before anything is loaded and not in the first step. A loss that fails with both has reasons of its own, which
// are not judged here.
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
		e.Message = fmt.Sprintf("%s reads advantages or log-probabilities of the policy that sampled, which the dataset of %s does not have", a.Def.PolicyLoss, a.Type)
		e.Hint = "use a loss such as sft, or an algorithm_type that rolls out"
		return e
	case err != nil:
		e.Message = fmt.Sprintf("%s reads advantages, and advantage_fn none makes none", a.Def.PolicyLoss)
		e.Hint = "set advantage_fn, or use a loss that reads none, such as sft"
		return e
	}
	_, wants := l.Policy.(loss.Demonstrated)
	switch mixes := a.mixes(); {
	case wants && !mixes:
		e.Message = fmt.Sprintf("%s learns from demonstrations too, and sample_strategy %s mixes none in", a.Def.PolicyLoss, a.Def.SampleStrategy)
		e.Hint = "set sample_strategy: mix, or a policy_loss_fn of rollouts alone, such as ppo"
		return e
	case !mixes:
		return nil
	}
	expert := a.actor(2, a.InTrainer() != nil, false)
	expert.IsExpert = true
	if learn(l, append(real, expert)) != nil {
		e.Message = fmt.Sprintf("%s cannot learn from demonstrations, which sample_strategy %s mixes in", a.Def.PolicyLoss, a.Def.SampleStrategy)
		e.Hint = "use mix or mix_chord, or sample_strategy default"
		return e
	}
	return nil
}

// ReadsLogprobs reports whether a part reads the log-probabilities that were recorded when sampling. It tries other parts of the same arguments, because
// parts may have state.
func (a *Algorithm) ReadsLogprobs() (bool, error) {
	advantage, err := registry.Advantages.Build(a.Def.Advantage, a.Def.AdvantageArgs)
	if err != nil {
		return false, err
	}
	policy, err := loss.PolicyLosses.Build(a.Def.PolicyLoss, a.Def.PolicyLossArgs)
	if err != nil {
		return false, err
	}
	l := loss.NewComposite(policy, nil, nil)
	fails := func(sampled bool) bool {
		exps := []*trinity.Experience{a.actor(0, true, sampled), a.actor(1, true, sampled)}
		for i, e := range exps {
			e.Reward = trinity.Reward{Value: float64(i), Valid: true}
			e.Values, e.Entropies, e.Discriminators = make([]float32, 2), make([]float32, 2), make([]float32, 2)
		}
		if _, _, err := advantage.Advantages([]trinity.Group{exps}); err != nil {
			return true
		}
		return learn(l, exps) != nil
	}
	return a.penalty != nil || fails(false) && !fails(true), nil
}

// mixes reports whether the trainer is given demonstrations beside rollouts.
func (a *Algorithm) mixes() bool {
	s, err := registry.SampleStrategies.Build(a.Def.SampleStrategy, a.Def.SampleStrategyArgs)
	_, mixes := s.(trinity.MixingStrategy)
	return err == nil && mixes
}

// actor is an experience of one prompt token and one that is trained on.
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

// learn is an optimizer step without an engine.
func learn(l *loss.Composite, whole []*trinity.Experience) error {
	probes := l.Probes(whole)
	for _, p := range probes {
		p.RefLogprobs = make([]float32, len(p.Tokens))
	}
	if len(probes) > 0 {
		if err := l.Prepare(probes, said(probes)); err != nil {
			return err
		}
	}
	_, _, err := l.Loss(&trinity.Batch{Experiences: whole, Whole: whole, Step: 1}, said(whole))
	return err
}

// said is what an engine would say of experiences.
func said(exps []*trinity.Experience) []trinity.TokenStats {
	stats := make([]trinity.TokenStats, len(exps))
	for i, e := range exps {
		zeros := make([]float32, len(e.Tokens))
		stats[i] = trinity.TokenStats{Logprob: zeros, Entropy: zeros, Divergence: zeros}
	}
	return stats
}
