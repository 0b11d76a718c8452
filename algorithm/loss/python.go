package loss

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm/tape"
	"github.com/trinity-go/trinity/internal/bridge"
)

func init() {
	PolicyLosses.Register("python",
		"A policy loss of yours in Python: a class of Trinity-RFT (PolicyLossFn), or a function of logprob, old_logprob, advantages, "+
			"action_mask and other streams. policy_loss_fn: my.module.Loss names it as well; policy_loss_fn_args are then its arguments. It "+
			"gets the streams of a whole optimizer step, [sequences, tokens], and returns a loss and metrics, with torch, or a loss and its "+
			"derivatives, {\"logprob\": …}, without. What it takes by the names of its parameters, the run computes: old_logprob ref_logprob "+
			"teacher_logprobs advantages action_mask expert_mask entropy step, and numbers of info. The section python of the configuration "+
			"says which Python runs it. Metrics: pg_loss, and those that it returns.",
		func() PolicyLoss { return &pythonLoss{pythonTerm: newPythonTerm()} })
	PolicyLosses.Elsewhere("python", "class")
}

// pythonLoss asks a class or a function in a process of Python, once for each optimizer step. The
// tape gets the tangent of that loss L at the current log-probabilities: L + Σ dL/dlp·(lp − sg(lp)).
// So the gradient does not depend on how the step is cut. Weights of rollout correction are factors
// of the derivatives.
type pythonLoss struct {
	pythonTerm `yaml:",inline"`

	step pythonStep
}

// pythonStep is what Python has said about an optimizer step.
type pythonStep struct {
	loss             float64
	metrics          map[string]float64
	logprob, entropy map[*trinity.Experience][]float64 // derivatives by the trained tokens; nil for none
}

// Validate checks that the class exists and takes the arguments.
func (p *pythonLoss) Validate() error { return p.describe("loss", "policy loss") }

// ReadsAdvantages reports whether the loss takes advantages.
func (p *pythonLoss) ReadsAdvantages() bool { return p.is.Takes == nil || p.takes("advantages") }

func (p *pythonLoss) readsEntropy() bool { return p.takes("entropy") }

// Needs implements [Needer].
func (p *pythonLoss) Needs() trinity.Needs {
	needs := func(name string) bool { return slices.Contains(p.is.Needs, name) }
	return trinity.Needs{Reference: needs("ref_logprob"), Teacher: needs("teacher_logprobs")}
}

// Pairs reports whether the loss compares chosen and rejected answers.
func (p *pythonLoss) Pairs() bool { return p.is.Pairs }

// Schema implements [SchemaLoss].
func (p *pythonLoss) Schema() string {
	if p.is.Pairs {
		return "dpo"
	}
	return ""
}

// Probes implements [Prober]. It returns the sequences with trained tokens, of pairs those of which
// both have some.
func (p *pythonLoss) Probes(whole []*trinity.Experience) []*trinity.Experience {
	p.step = pythonStep{logprob: map[*trinity.Experience][]float64{}, entropy: map[*trinity.Experience][]float64{}}
	for _, e := range whole {
		p.step.logprob[e] = nil
	}
	if p.is.Pairs {
		return withTokens(whole, 2)
	}
	return withTokens(whole, 1)
}

// withTokens returns the units of so many sequences that all have trained tokens.
func withTokens(whole []*trinity.Experience, unit int) (all []*trinity.Experience) {
	for row := range slices.Chunk(whole, unit) {
		if !slices.ContainsFunc(row, func(e *trinity.Experience) bool { return e.TrainedTokens() == 0 }) {
			all = append(all, row...)
		}
	}
	return all
}

// Prepare implements [Prober]. It asks for the loss of the step and its derivatives.
func (p *pythonLoss) Prepare(ctx context.Context, b *trinity.Batch, now []trinity.TokenStats) error {
	question, err := p.question(b, now)
	if err != nil || p.run.Rehearses() {
		return err
	}
	var answer struct {
		Loss        *float64
		Metrics     map[string]float64
		LeftOut     []string `json:"left_out"`
		Derivatives map[string]string
	}
	if err := p.ask(ctx, "loss", question, &answer); err != nil {
		return err
	}
	p.run.LeftOut(p.who, answer.LeftOut)
	if answer.Loss == nil {
		return fmt.Errorf("%s: the loss of step %d is no finite number", p.who, b.Step)
	}
	p.step.loss, p.step.metrics = *answer.Loss, answer.Metrics
	for name, into := range map[string]map[*trinity.Experience][]float64{"logprob": p.step.logprob, "entropy": p.step.entropy} {
		if err := spread(answer.Derivatives[name], b.Experiences, into); err != nil {
			return fmt.Errorf("%s: derivatives by %s: %w", p.who, name, err)
		}
	}
	return nil
}

// spread writes packed derivatives by the trained tokens of the sequences. An empty text is no derivative.
func spread(text string, exps []*trinity.Experience, into map[*trinity.Experience][]float64) error {
	if text == "" {
		return nil
	}
	all, err := bridge.Unpack(text)
	if err != nil {
		return err
	}
	want := 0
	for _, n := range lengths(exps) {
		want += n
	}
	if len(all) != want {
		return fmt.Errorf("there are %d, want %d, one for each trained token of the step", len(all), want)
	}
	for _, e := range exps {
		own := make([]float64, 0, e.TrainedTokens())
		for t, trained := range e.Mask {
			if !trained {
				continue
			}
			d := float64(all[len(own)])
			if math.IsNaN(d) || math.IsInf(d, 0) {
				return fmt.Errorf("that of experience %s, token %d, is %v, want a finite number", e.ID, t, d)
			}
			own = append(own, d)
		}
		into[e], all = own, all[len(own):]
	}
	return nil
}

// Loss implements [PolicyLoss].
func (p *pythonLoss) Loss(in *Input) (tape.Stream, trinity.Metrics, error) {
	for _, e := range in.Batch.Experiences {
		if _, seen := p.step.logprob[e]; !seen && e.TrainedTokens() > 0 {
			return tape.Stream{}, nil, fmt.Errorf("experience %s was not in the optimizer step that %s saw: the trainer must "+
				"pass the whole step to Prepare first", e.ID, p.who)
		}
	}
	total := in.Tape.Value(p.step.loss * in.Share())
	for _, part := range []struct {
		is   bool
		v    tape.Stream
		from map[*trinity.Experience][]float64
	}{{true, in.Logprob, p.step.logprob}, {p.readsEntropy(), in.Entropy, p.step.entropy}} {
		if !part.is {
			continue
		}
		moved, err := in.Weigh(part.v.Sub(part.v.Detach()))
		if err != nil {
			return tape.Stream{}, nil, err
		}
		total = total.Add(moved.Dot(byToken(in, part.from)))
	}
	metrics := trinity.Metrics{"pg_loss": p.step.loss * in.Share()}
	for name, v := range p.step.metrics {
		metrics[name] = v * in.Share()
	}
	return total, metrics, nil
}
