package advantage

import (
	"errors"
	"math"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// OnPolicyDistill descends, on what the student itself sampled, the reverse KL from student S to teacher T at every token (Gu et al. 2024;
// Agarwal et al. 2024; Lu et al. 2025):
//
//	A_t = kl_coef · (ln T − ln S), at every trained token, of the token that was sampled
//
// The policy gradient with A is −kl_coef·∇KL(S‖T) of the next-token distributions, since E_S[∇ln S] = 0; what a token does to later ones is
// left out. ln S is under the policy before the update. Rewards are not read, so a rollout without a valid one is trained on as any other.
// Demonstrations have A = 0.
//
// Metrics, over trained tokens: kl/mean and kl/std (ln S − ln T, nats, std over n − 1); advantages/mean is the trainer's.
type OnPolicyDistill struct {
	KLCoef float64 `yaml:"kl_coef" doc:"factor of the advantage"`
}

func init() {
	registry.Advantages.Register("on_policy_distill", "On-policy distillation (Agarwal et al. 2024): kl_coef·(ln teacher − ln student) at every trained token, the reverse KL on what the student sampled. Needs a teacher model; "+
		"reads no reward.",
		func() trinity.Advantage { return &OnPolicyDistill{KLCoef: 1} })
}

// Validate refuses a factor that is no number.
func (a *OnPolicyDistill) Validate() error { return checkDistillCoef(a.KLCoef) }

func checkDistillCoef(coef float64) error {
	if !(coef > 0) || math.IsInf(coef, 0) {
		return errors.New("kl_coef must be a number more than 0: nothing else is learned from")
	}
	return nil
}

// Needs implements trinity.TrainerAdvantage.
func (*OnPolicyDistill) Needs() trinity.Needs { return trinity.Needs{Teacher: true} }

// Advantages implements trinity.Advantage.
func (a *OnPolicyDistill) Advantages(groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return distill(groups, "kl", func(student, teacher float64) (advantage, divergence float64) {
		return a.KLCoef * (teacher - student), student - teacher
	})
}

// distill writes the advantage of every trained token from its log-probabilities under student and teacher, nats. Metrics: name/mean and
// name/std of the divergence.
func distill(groups []trinity.Group, name string, of func(student, teacher float64) (advantage, divergence float64)) ([]trinity.Group, trinity.Metrics, error) {
	var divergences []float64
	for _, g := range groups {
		for _, e := range g {
			if e.IsExpert {
				write(e, 0)
				continue
			}
			student := e.LogprobsBefore()
			if err := errors.Join(needed(e, "logprobs", "of the policy that sampled it", student), needed(e, "teacher_logprobs", "of a teacher model", e.TeacherLogprobs)); err != nil {
				return nil, nil, err
			}
			e.Advantages = make([]float32, len(e.Mask))
			for t, trained := range e.Mask {
				if !trained {
					continue
				}
				a, d := of(float64(student[t]), float64(e.TeacherLogprobs[t]))
				e.Advantages[t] = float32(a)
				divergences = append(divergences, d)
			}
		}
	}
	metrics := trinity.Metrics{}
	spread(metrics, name, divergences)
	return groups, metrics, nil
}
