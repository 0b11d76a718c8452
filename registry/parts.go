package registry

import (
	"cmp"
	"maps"

	"github.com/trinity-go/trinity"
)

// Parts returns the algorithm type changes.Type with changes merged over it. A part that changes
// names replaces the type's part and drops its arguments. Arguments in changes merge over those of
// the part, key by key. A policy loss in changes that reads no advantages also drops the type's
// advantage function. The error says that no type has this name.
func Parts(changes trinity.Algorithm) (*trinity.Algorithm, error) {
	own, err := Algorithms.Build(changes.Type)
	if err != nil {
		return nil, err
	}
	return PartsOf(own, changes), nil
}

// PartsOf is [Parts] for the algorithm type own, which may be one that no name is registered for.
func PartsOf(own *trinity.Algorithm, changes trinity.Algorithm) *trinity.Algorithm {
	out := *own
	out.Type = changes.Type
	out.LossAggMode = cmp.Or(changes.LossAggMode, own.LossAggMode)
	merge(&out.PolicyLoss, &out.PolicyLossArgs, changes.PolicyLoss, changes.PolicyLossArgs)
	if out.PolicyLoss != own.PolicyLoss && !readsAdvantages(out.PolicyLoss) {
		out.Advantage, out.AdvantageArgs = "none", nil
	}
	merge(&out.Advantage, &out.AdvantageArgs, changes.Advantage, changes.AdvantageArgs)
	merge(&out.KLPenalty, &out.KLPenaltyArgs, changes.KLPenalty, changes.KLPenaltyArgs)
	merge(&out.KLLoss, &out.KLLossArgs, changes.KLLoss, changes.KLLossArgs)
	merge(&out.Entropy, &out.EntropyArgs, changes.Entropy, changes.EntropyArgs)
	merge(&out.SampleStrategy, &out.SampleStrategyArgs, changes.SampleStrategy, changes.SampleStrategyArgs)
	return &out
}

// merge puts one changed part in place of an algorithm type's own. It leaves the type's maps as
// they are.
func merge(name *string, args *map[string]any, changed string, changedArgs map[string]any) {
	merged := map[string]any{}
	if changed == "" || changed == *name {
		maps.Copy(merged, *args)
	} else {
		*name = changed
	}
	maps.Copy(merged, changedArgs)
	*args = merged
}

// readsAdvantages reports whether a policy loss reads advantages. An unknown loss does.
func readsAdvantages(name string) bool {
	losses, ok := Find("policy_loss_fn")
	if !ok {
		return true
	}
	says, ok := losses.Default(name).(interface{ ReadsAdvantages() bool })
	return !ok || says.ReadsAdvantages()
}
