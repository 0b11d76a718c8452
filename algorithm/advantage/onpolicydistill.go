package advantage

import (
	"context"
	"errors"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// On_policy_distill minimises the reverse KL from student S to teacher T at every token that the
// student sampled (Gu et al. 2024; Agarwal et al. 2024; Lu et al. 2025):
//
//	A_t = kl_coef · (ln T − ln S) of the sampled token, at every trained token
//
// The policy gradient with A is −kl_coef·∇KL(S‖T) of the next-token distributions, since E_S[∇ln S]
// = 0. It ignores the effect of a token on later ones. ln S is under the policy before the update.
// Rewards are not read, so rollouts without a valid reward are trained on like all others.
// Demonstrations have A = 0.
//
// Metrics, over trained tokens: kl/mean and kl/std (ln S − ln T, nats, std over n − 1). The trainer
// adds advantages/mean.
type onPolicyDistill struct {
	KLCoef float64 `yaml:"kl_coef" range:"(0,)" doc:"factor of the advantage, from which alone the policy learns"`
}

func init() {
	registry.Advantages.Register("on_policy_distill",
		"On-policy distillation (Agarwal et al. 2024): kl_coef·(ln teacher − ln student) at every trained token, the reverse "+
			"KL on what the student sampled. Needs a teacher model; "+
			"reads no reward.",
		func() trinity.Advantage { return &onPolicyDistill{KLCoef: 1} })
}

// Needs implements trinity.Advantage.
func (*onPolicyDistill) Needs() trinity.Needs { return trinity.Needs{Batch: true, Teacher: true} }

// Advantages implements trinity.Advantage.
func (a *onPolicyDistill) Advantages(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return distill(groups, "kl", func(student, teacher float64) (advantage, divergence float64) {
		return a.KLCoef * (teacher - student), student - teacher
	})
}

// distill writes the advantage of every trained token, computed from its log-probabilities under
// student and teacher, nats. Metrics: name/mean and name/std of the divergence.
func distill(groups []trinity.Group, name string, advantageOf func(student, teacher float64) (advantage,
	divergence float64)) ([]trinity.Group, trinity.Metrics, error) {
	var divergences []float64
	for _, g := range groups {
		for _, e := range g {
			if e.IsExpert {
				write(e, 0)
				continue
			}
			student := e.LogprobsBefore()
			if err := errors.Join(needed(e, "logprobs", "of the policy that sampled it", student),
				needed(e, "teacher_logprobs", "of a teacher model", e.TeacherLogprobs)); err != nil {
				return nil, nil, err
			}
			e.Advantages = make([]float32, len(e.Mask))
			for t, trained := range e.Mask {
				if !trained {
					continue
				}
				a, d := advantageOf(float64(student[t]), float64(e.TeacherLogprobs[t]))
				e.Advantages[t] = float32(a)
				divergences = append(divergences, d)
			}
		}
	}
	metrics := trinity.Metrics{}
	spread(metrics, name, divergences)
	return groups, metrics, nil
}
