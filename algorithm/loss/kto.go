package loss

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
)

// KTO is Kahneman–Tversky optimization (Ethayarajh et al. 2024, eq. 8) over single answers y to
// prompts x. Each answer is labelled desirable (Experience.Chosen) or undesirable.
//
//	r  = Σ_t (lp − ref) of y
//	z0 = max(0, mean of Σ_t (lp − ref) of y_j given x_i), an estimate of the KL from the reference
//	L  = λ_D·(1 − σ(β·(r − z0))) if desirable, λ_U·(1 − σ(β·(z0 − r))) if not; mean over sequences
//
// The mean in z0 is over the optimizer step. The answers are sorted by prompt and tokens, so their
// order of arrival does not matter. Each prompt x_i is paired with the answer y_j that follows k
// places later, cyclically, where k is the largest number of answers to one prompt. So y_j answers
// another prompt and is used once, unless one prompt has more than half of the answers. A pair
// longer than the longest sequence of the step is truncated. z0 is a constant of the step: no
// gradient flows through it. It is 0 if all prompts are the same.
//
// Metrics: kto_loss; kl, which is z0; rewards/chosen and rewards/rejected, the means of β·r over
// the desirable and the undesirable sequences, absent from a step without such sequences.
//
// Unlike Trinity-RFT: there is such a loss, because answers with a thumb up or down are more common
// than pairs.
type kto struct {
	Beta              float64 `yaml:"beta" range:"(0,)" doc:"weight of a log-ratio, per nat; lower lets the policy leave the reference"`
	DesirableWeight   float64 `yaml:"desirable_weight" range:"[0,)" doc:"λ_D, of desirable answers; weight × number of both kinds within 4/3"`
	UndesirableWeight float64 `yaml:"undesirable_weight" range:"[0,)" doc:"λ_U, weight of the undesirable answers"`

	z0 float64 // the estimate of the KL for the current optimizer step
}

func init() {
	PolicyLosses.Register("kto",
		"Kahneman–Tversky optimization (Ethayarajh et al. 2024): 1 − σ(±β·(r − z0)) over single answers that are labelled "+
			"desirable (+) or not (−), with "+
			"r = Σ(lp − ref) and z0 the KL from the reference, estimated from prompts with answers to other prompts. Needs the "+
			"reference model and schema kto. "+
			"Metrics: kto_loss, kl, rewards/chosen, rewards/rejected.",
		func() PolicyLoss { return &kto{Beta: 0.1, DesirableWeight: 1, UndesirableWeight: 1} })
}

// Validate checks ranges.
func (k *kto) Validate() error {
	if k.DesirableWeight+k.UndesirableWeight == 0 {
		return errors.New("desirable_weight and undesirable_weight are both 0: nothing would be learnt")
	}
	return nil
}

func (k *kto) Needs() trinity.Needs { return trinity.Needs{Reference: true} }

func (k *kto) Schema() string { return "kto" }

func (*kto) ReadsAdvantages() bool { return false }

// Probes implements Prober. It returns each prompt with an answer to another prompt.
func (k *kto) Probes(whole []*trinity.Experience) []*trinity.Experience {
	k.z0 = 0
	longest := 0
	for _, e := range whole {
		longest = max(longest, len(e.Tokens))
	}
	answers, most := byPrompt(whole)
	var probes []*trinity.Experience
	for i, e := range answers {
		if other := stranger(answers, i, most); other != nil {
			probes = append(probes, mismatched(e, other, longest))
		}
	}
	return probes
}

// byPrompt returns the sequences that have trained tokens, sorted by prompt and answer. most is the
// largest number of answers to one prompt.
func byPrompt(whole []*trinity.Experience) (answers []*trinity.Experience, most int) {
	answers = slices.DeleteFunc(slices.Clone(whole), func(e *trinity.Experience) bool { return e.TrainedTokens() == 0 })
	slices.SortStableFunc(answers, func(a, b *trinity.Experience) int {
		return cmp.Or(slices.Compare(promptOf(a), promptOf(b)), slices.Compare(a.Tokens, b.Tokens))
	})
	alike := 0
	for i, e := range answers {
		if i > 0 && !slices.Equal(promptOf(e), promptOf(answers[i-1])) {
			alike = 0
		}
		alike++
		most = max(most, alike)
	}
	return answers, most
}

func promptOf(e *trinity.Experience) []int32 { return e.Tokens[:e.PromptLen] }

// stranger returns the sequence that follows most places after the i-th, cyclically, or the next
// one after it that answers another prompt. It returns nil if there is none.
func stranger(answers []*trinity.Experience, i, far int) *trinity.Experience {
	for d := range answers {
		if e := answers[(i+far+d)%len(answers)]; !slices.Equal(promptOf(answers[i]), promptOf(e)) {
			return e
		}
	}
	return nil
}

// mismatched returns the prompt of one sequence with the answer of another, truncated to longest
// tokens.
func mismatched(prompt, answer *trinity.Experience, longest int) *trinity.Experience {
	tokens := slices.Concat(promptOf(prompt), answer.Tokens[answer.PromptLen:])
	mask := slices.Concat(make([]bool, prompt.PromptLen), answer.Mask[answer.PromptLen:])
	n := min(len(tokens), longest)
	return &trinity.Experience{ID: prompt.ID, Tokens: tokens[:n], Mask: mask[:n], PromptLen: prompt.PromptLen, Temperature: prompt.Temperature}
}

// Prepare implements Prober. It computes z0 of the step.
func (k *kto) Prepare(_ context.Context, b *trinity.Batch, now []trinity.TokenStats) error {
	probes := b.Experiences
	sum := 0.0
	for i, e := range probes {
		if len(e.RefLogprobs) != len(e.Mask) || len(now[i].Logprob) != len(e.Mask) {
			return fmt.Errorf("the prompt of experience %s with another answer has %d log-probabilities and %d of the reference "+
				"model, want %d", e.ID, len(now[i].Logprob),
				len(e.RefLogprobs), len(e.Mask))
		}
		for t, trained := range e.Mask {
			if trained {
				sum += float64(now[i].Logprob[t]) - float64(e.RefLogprobs[t])
			}
		}
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return fmt.Errorf("the KL from the reference model, over %d prompts with answers to others, is %v", len(probes), sum)
	}
	k.z0 = max(0, sum/float64(len(probes)))
	return nil
}

func (k *kto) Loss(in *Input) (tape.Stream, trinity.Metrics, error) {
	ref, err := in.Ref()
	if err != nil {
		return tape.Stream{}, nil, err
	}
	ratio := in.Logprob.Sub(ref).SeqSum(nil)
	gain := ratio.Plus(-k.z0).Scale(k.Beta)
	weights, labels := k.weights(in)
	total := gain.Neg().Where(labels, gain).Sigmoid().Dot(weights)
	metrics := trinity.Metrics{"kto_loss": total.Scalar(), "kl": k.z0 * in.Share()}
	in.labelled("rewards/chosen", true, ratio, k.Beta, metrics)
	in.labelled("rewards/rejected", false, ratio, k.Beta, metrics)
	return total, metrics, nil
}

// weights returns the weights of the micro-batch's sequences in the mean over the whole step.
// labels say which answers are desirable.
func (k *kto) weights(in *Input) (weights []float64, labels []bool) {
	sequences := float64(max(1, in.count(nil).sequences))
	for _, e := range in.Batch.Experiences {
		w := k.UndesirableWeight
		if e.Chosen {
			w = k.DesirableWeight
		}
		if e.TrainedTokens() == 0 {
			w = 0
		}
		weights, labels = append(weights, w/sequences), append(labels, e.Chosen)
	}
	return weights, labels
}

// labelled writes the micro-batch's share of the mean of scale·v over the sequences of the whole
// step with that label.
func (in *Input) labelled(name string, label bool, v tape.Stream, scale float64, metrics trinity.Metrics) {
	whole := in.count(func(e *trinity.Experience) bool { return e.Chosen == label }).sequences
	if whole == 0 {
		return
	}
	sum := 0.0
	for i, e := range in.Batch.Experiences {
		if e.Chosen == label && e.TrainedTokens() > 0 {
			sum += v.Value()[i]
		}
	}
	metrics[name] = scale * sum / float64(whole)
}
