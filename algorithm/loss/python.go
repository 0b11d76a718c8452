package loss

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

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
func (p *pythonLoss) Validate() error { return p.describe("loss") }

// takes reports whether the loss takes a stream. Before somebody has described it, nobody knows.
func (p *pythonLoss) takes(name string) bool { return slices.Contains(p.is.Takes, name) }

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
		return fmt.Errorf("policy loss %s: %w", p.Class, err)
	}
	p.run.LeftOut("policy loss "+p.Class, answer.LeftOut)
	if answer.Loss == nil {
		return fmt.Errorf("policy loss %s: the loss of step %d is no finite number", p.Class, b.Step)
	}
	p.step.loss, p.step.metrics = *answer.Loss, answer.Metrics
	for name, into := range map[string]map[*trinity.Experience][]float64{"logprob": p.step.logprob, "entropy": p.step.entropy} {
		if err := spread(answer.Derivatives[name], b.Experiences, into); err != nil {
			return fmt.Errorf("policy loss %s: derivatives by %s: %w", p.Class, name, err)
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

// question packs the trained tokens of a step. The error says which experience lacks what.
func (p *pythonLoss) question(b *trinity.Batch, now []trinity.TokenStats) (map[string]any, error) {
	longest, experts := 0, []bool{}
	for _, e := range b.Experiences {
		longest, experts = max(longest, len(e.Tokens)-e.PromptLen), append(experts, e.IsExpert)
	}
	packed := map[string]string{}
	for _, s := range p.streams(b, now) {
		text, err := p.pack(s, b.Experiences)
		if err != nil {
			return nil, err
		}
		if text != nil {
			packed[s.name] = bridge.Pack(text)
		}
	}
	fields, err := p.fields(b.Experiences)
	return map[string]any{
		"args": p.Args, "step": b.Step, "lengths": lengths(b.Experiences), "width": longest, "streams": packed, "experts": experts,
		"fields": fields,
	}, err
}

// pythonStream is what a loss in Python reads of each token.
type pythonStream struct {
	name, origin string
	of           func(i int, e *trinity.Experience) []float32
}

// streams lists the streams of a step.
func (p *pythonLoss) streams(b *trinity.Batch, now []trinity.TokenStats) []pythonStream {
	recorded := func(name, origin string, of func(*trinity.Experience) []float32) pythonStream {
		return pythonStream{name, origin, func(_ int, e *trinity.Experience) []float32 { return of(e) }}
	}
	return []pythonStream{
		{"logprob", "of the engine", func(i int, _ *trinity.Experience) []float32 { return now[i].Logprob }},
		{"entropy", "of the engine", func(i int, _ *trinity.Experience) []float32 { return now[i].Entropy }},
		recorded("old_logprob", "of the policy that sampled it", (*trinity.Experience).LogprobsBefore),
		recorded("ref_logprob", "of the reference model", func(e *trinity.Experience) []float32 { return e.RefLogprobs }),
		recorded("teacher_logprobs", "of a teacher", func(e *trinity.Experience) []float32 { return e.TeacherLogprobs }),
		recorded("advantages", "from an advantage_fn", func(e *trinity.Experience) []float32 { return e.Advantages }),
	}
}

// pack returns the trained tokens of a stream; nil if the loss does not take it, or does without it.
func (p *pythonLoss) pack(s pythonStream, exps []*trinity.Experience) (packed []float32, err error) {
	if s.name != "logprob" && p.is.Takes != nil && !p.takes(s.name) {
		return nil, nil
	}
	var all []float64
	for i, e := range exps {
		v := s.of(i, e)
		switch {
		case v == nil && e.IsExpert && p.takes("expert_mask"): // the loss tells demonstrations apart
			v = make([]float32, len(e.Mask))
		case v == nil && !slices.Contains(p.is.Needs, s.name):
			return nil, nil
		case v == nil:
			return nil, fmt.Errorf("experience %s has no %s (%s), which policy loss %s takes", e.ID, s.name, s.origin, p.Class)
		}
		if all, err = pack(all, e, s.name, v); err != nil {
			return nil, err
		}
	}
	packed = make([]float32, len(all))
	for i, v := range all {
		packed[i] = float32(v)
	}
	return packed, nil
}

// ofStep are the parameters of a loss that are no numbers of info.
var ofStep = []string{
	"logprob", "entropy", "old_logprob", "ref_logprob", "teacher_logprobs", "advantages", "action_mask", "expert_mask", "step",
}

// fields returns the numbers of info that the loss takes, one for each sequence.
func (p *pythonLoss) fields(exps []*trinity.Experience) (map[string][]float64, error) {
	fields := map[string][]float64{}
	for _, name := range p.is.Takes {
		if slices.Contains(ofStep, name) {
			continue
		}
		var all []float64
		for _, e := range exps {
			v, ok := e.Info[name].(float64)
			if i, is := e.Info[name].(int); is {
				v, ok = float64(i), true
			}
			if ok {
				all = append(all, v)
			} else if slices.Contains(p.is.Needs, name) {
				return nil, fmt.Errorf("policy loss %s takes %s, which is no stream (%s) and no number in the info of experience %s",
					p.Class, name, strings.Join(ofStep, ", "), e.ID)
			}
		}
		if len(all) == len(exps) {
			fields[name] = all
		}
	}
	return fields, nil
}

// Loss implements [PolicyLoss].
func (p *pythonLoss) Loss(in *Input) (tape.Stream, trinity.Metrics, error) {
	total := in.Tape.Value(p.step.loss * in.Share())
	for _, part := range []struct {
		is   bool
		v    tape.Stream
		from map[*trinity.Experience][]float64
	}{{true, in.Logprob, p.step.logprob}, {p.readsEntropy(), in.Entropy, p.step.entropy}} {
		if !part.is {
			continue
		}
		var derivatives []float64
		for _, e := range in.Batch.Experiences {
			own := part.from[e]
			if _, seen := p.step.logprob[e]; !seen && e.TrainedTokens() > 0 {
				return tape.Stream{}, nil, fmt.Errorf("experience %s was not in the optimizer step that policy loss %s saw: the trainer must "+
					"pass the whole step to Prepare first", e.ID, p.Class)
			} else if own == nil {
				own = make([]float64, e.TrainedTokens())
			}
			derivatives = append(derivatives, own...)
		}
		moved, err := in.Weigh(part.v.Sub(part.v.Detach()))
		if err != nil {
			return tape.Stream{}, nil, err
		}
		total = total.Add(moved.Dot(derivatives))
	}
	metrics := trinity.Metrics{"pg_loss": p.step.loss * in.Share()}
	for name, v := range p.step.metrics {
		metrics[name] = v * in.Share()
	}
	return total, metrics, nil
}
