package tinker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// passCall reads a request for passes.
func passCall(body []byte) (*call, error) {
	in, unread := tinker.DecodeForwardBackward(body)
	if unread != nil {
		unread = bad("the body is no ForwardBackwardRequest: %v", unread)
	}
	if in.ModelID == "" || in.SeqID == 0 {
		return nil, cmp.Or(unread, bad("the body has no model_id, or no seq_id"))
	}
	c := &call{model: in.ModelID, seq: in.SeqID}
	c.run = func(ctx context.Context, m *model) (any, error) {
		output, err := m.pass(ctx, in, unread, c.slice)
		if err != nil {
			if !in.ForwardOnly { // what the client wants to step is more
				m.spoil(in.SeqID, err.Error())
			}
			return nil, err
		}
		return encoded(output.Encode()), nil
	}
	if !in.ForwardOnly {
		c.redo = func(ctx context.Context, m *model, failed *tinker.Failed) error {
			if failed != nil {
				m.pending = true
				m.spoil(in.SeqID, failed.Error)
				return nil
			}
			_, err := m.pass(ctx, in, unread, c.slice)
			return err
		}
	}
	return c, nil
}

// spoil says that the gradient is not what the client wanted.
func (m *model) spoil(seq int32, because string) {
	m.spoilt = fmt.Sprintf("seq_id %d has failed: %s", seq, because)
}

// pass computes a request, which is checked whole before anything is added to the gradient.
func (m *model) pass(ctx context.Context, in *tinker.ForwardBackward, unread error, slice int) (*tinker.Output, error) {
	if unread != nil {
		return nil, unread
	}
	p, err := newPass(m.base, in)
	if err != nil {
		return nil, err
	}
	p.tokens = slice
	m.pending = m.pending || !in.ForwardOnly
	return p.run(ctx, m, in.ForwardOnly)
}

// pass is a request for a forward pass, or for both passes, that was checked whole.
type pass struct {
	loss    *lossFn
	exps    []*trinity.Experience
	columns []int64 // of the targets of each, as tinker.NewOutput has them
	tokens  int     // most that are computed at once
}

func newPass(b *Base, in *tinker.ForwardBackward) (*pass, error) {
	if len(in.Data) == 0 {
		return nil, errors.New("the request has no data")
	}
	settings := map[string]float64{}
	for _, c := range in.Config {
		if c.Text != nil {
			return nil, fmt.Errorf("loss_fn_config: %.40q of %.40q is a text: want a number", c.Name, in.Loss)
		}
		settings[c.Name] = c.Number
	}
	l, err := newLoss(in.Loss, settings)
	if err != nil {
		return nil, err
	}
	p, elements := &pass{loss: l}, 0
	for i := range in.Data {
		e, columns, inputs, err := experienceOf(b, &in.Data[i])
		for _, v := range inputs {
			elements += len(v)
		}
		if e != nil {
			elements += len(e.Targets) + len(e.Tokens)
		}
		if err == nil && elements > maxPass {
			err = fmt.Errorf("the tensors up to here have more than %d elements: send fewer data at once", maxPass)
		}
		if err == nil {
			err = l.add(e, max(int(columns), 1), inputs)
		}
		if err != nil {
			return nil, fmt.Errorf("datum %d: %w", i, err)
		}
		e.ID.Run = i
		p.exps, p.columns = append(p.exps, e), append(p.columns, columns)
	}
	return p, nil
}

const (
	targetTokens = "target_tokens"
	maxTargets   = 1024    // of a token
	maxPass      = 1 << 26 // elements of all tensors of a request, with those that a sparse one leaves out
)

// experienceOf returns a sequence whose Targets are those of the datum, which are one place ahead, and the loss's inputs.
// columns is how many targets a token has, 0 if their tensor has one dimension.
func experienceOf(b *Base, d *tinker.Datum) (e *trinity.Experience, columns int64, inputs map[string][]float32, err error) {
	ids, err := d.Tokens()
	if err != nil {
		return nil, 0, nil, err
	}
	n := len(ids)
	if n == 0 || n > b.MaxLen {
		return nil, 0, nil, fmt.Errorf("it has %d tokens: want 1 to %d", n, b.MaxLen)
	}
	if err := b.check("model_input", ids); err != nil {
		return nil, 0, nil, err
	}
	var targets []int32
	inputs = map[string][]float32{}
	for i := range d.Inputs {
		name, tensor := d.Inputs[i].Name, &d.Inputs[i].Tensor
		if _, err := tensor.Columns(); err != nil {
			return nil, 0, nil, fmt.Errorf("loss_fn_inputs: %.40q: %w", name, err)
		}
		if tensor.CSR != nil && len(tensor.Shape) == 2 && (tensor.Shape[0] != int64(n) || tensor.Shape[1] > maxTargets) {
			return nil, 0, nil, fmt.Errorf("loss_fn_inputs: %.40q has shape %v: want %d tokens, and %d numbers a token at most", name, tensor.Shape,
				n, maxTargets)
		}
		if name == targetTokens {
			if len(tensor.Shape) == 2 {
				columns = tensor.Shape[1]
			}
			targets, err = tensor.Tokens()
		} else {
			inputs[name], err = tensor.Floats()
		}
		if err != nil {
			return nil, 0, nil, fmt.Errorf("loss_fn_inputs: %.40q: %w", name, err)
		}
	}
	k := max(int(columns), 1)
	for i := range d.Inputs { // [K, T] has as many numbers as [T, K]
		x := &d.Inputs[i]
		if shape := x.Tensor.Shape; len(shape) == 2 && shape[1] != int64(k) {
			return nil, 0, nil, fmt.Errorf("loss_fn_inputs: %.40q has shape %v, and target_tokens has %d numbers a token", x.Name, shape, k)
		}
	}
	switch {
	case len(targets) != n*k:
		return nil, 0, nil, fmt.Errorf("loss_fn_inputs: %s has %d numbers, %d a token, and there are %d tokens", targetTokens, len(targets), k, n)
	case k > maxTargets:
		return nil, 0, nil, fmt.Errorf("loss_fn_inputs: %s has %d numbers a token: want %d at most", targetTokens, k, maxTargets)
	}
	if err := b.check(targetTokens, targets); err != nil {
		return nil, 0, nil, err
	}
	e = &trinity.Experience{
		Tokens: append(ids, targets[(n-1)*k]), Mask: slices.Repeat([]bool{true}, n+1), PromptLen: 1, Temperature: 1,
	}
	e.Mask[0] = false
	if !slices.Equal(targets, e.Tokens[1:]) { // as they are where a loop shifts them
		e.Targets = append(make([]int32, k), targets...)
	}
	return e, columns, inputs, nil
}

// check returns an error for a token outside the vocabulary.
func (b *Base) check(what string, ids []int32) error {
	for t, id := range ids {
		if id < 0 || int(id) >= b.Vocab {
			return fmt.Errorf("%s: token %d is %d: want 0 to %d", what, t, id, b.Vocab-1)
		}
	}
	return nil
}

// run computes the passes, so many tokens at a time. Others have their turns between two slices.
func (p *pass) run(ctx context.Context, m *model, forwardOnly bool) (*tinker.Output, error) {
	sums := trinity.Metrics{}
	kept, what := &keeping{loss: p.loss, metrics: sums}, trainedTokens
	if forwardOnly {
		what = scoredTokens
	}
	for from := 0; from < len(p.exps); {
		to, tokens := from, 0
		for to < len(p.exps) && (to == from || tokens+len(p.exps[to].Tokens)-1 <= p.tokens) {
			tokens += len(p.exps[to].Tokens) - 1
			to++
		}
		if from > 0 {
			if err := m.turn.yield(ctx); err != nil {
				return nil, err
			}
		}
		m.turn.compute(what, tokens)
		if err := failCompute.Hit(""); err != nil {
			return nil, err
		}
		b := &trinity.Batch{Step: 1, Experiences: p.exps[from:to], Whole: p.exps}
		if forwardOnly {
			now, err := m.trainer.Forward(ctx, b, trinity.Streams{})
			if err == nil {
				_, _, err = kept.Loss(b, now)
			}
			if err != nil {
				return nil, err
			}
		} else if _, err := m.trainer.ForwardBackward(ctx, b, kept); err != nil {
			return nil, err
		}
		from = to
	}
	var metrics []tinker.Metric
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		metrics = append(metrics, tinker.Metric{Name: name + ":sum", Value: sums[name]})
	}
	return tinker.NewOutput("logprobs", kept.logprobs, p.columns, metrics), nil
}

// keeping keeps what a loss gets and returns.
type keeping struct {
	loss     *lossFn
	logprobs [][]float32
	metrics  trinity.Metrics
}

// Streams implements [trinity.Loss].
func (*keeping) Streams() trinity.Streams { return trinity.Streams{} }

// Loss implements [trinity.Loss].
func (k *keeping) Loss(b *trinity.Batch, now []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	grads, metrics, err := k.loss.compute(b, now)
	for i, stats := range now {
		places := len(b.Experiences[i].Tokens)
		k.logprobs = append(k.logprobs, slices.Clone(stats.Logprob[len(stats.Logprob)/places:]))
	}
	for name, v := range metrics {
		k.metrics[name] += v
	}
	return grads, metrics, err
}

// stepCall reads a request for a step.
func stepCall(body []byte) (*call, error) {
	var in tinker.OptimStep
	c, err := ordered(body, &in, func(ctx context.Context, m *model) (any, error) {
		p, err := optimParams(&in)
		if err != nil {
			return nil, err // the gradient waits for a step with other numbers
		}
		if m.spoilt != "" {
			return nil, m.discard(ctx, fmt.Errorf("the gradient is not whole: %s", m.spoilt))
		}
		metrics, err := m.trainer.OptimStep(ctx, p)
		if err != nil {
			return nil, m.discard(ctx, err)
		}
		m.pending = false
		return map[string]any{"metrics": map[string]float64{"grad_norm:mean": metrics["grad_norm"]}}, nil
	})
	if err != nil {
		return nil, err
	}
	c.redo = func(ctx context.Context, m *model, failed *tinker.Failed) error {
		if failed == nil {
			_, err := c.run(ctx, m)
			return err
		}
		if _, err := optimParams(&in); err != nil {
			return nil // the gradient has stayed
		}
		return m.drop(ctx)
	}
	return c, nil
}

// drop drops the gradient, so that the next step has its own alone. An engine that cannot do that needs a checkpoint.
func (m *model) drop(ctx context.Context) error {
	d, ok := m.trainer.(engine.Discarder)
	if !ok {
		m.spoilt = "this engine cannot drop a gradient: load a checkpoint"
		return nil
	}
	if err := d.Discard(ctx); err != nil {
		return err
	}
	m.spoilt, m.pending = "", false
	return nil
}

// discard drops the gradient, and returns the reason with that.
func (m *model) discard(ctx context.Context, because error) error {
	if err := m.drop(ctx); err != nil {
		return errors.Join(because, err)
	}
	if m.spoilt != "" {
		return because
	}
	return fmt.Errorf("%w; it was discarded, so send the passes again", because)
}

// adamDefaults are the settings of a step, each with what it must be below.
var adamDefaults = []struct {
	name         string
	usual, below float64
	of           func(*trinity.OptimParams) *float64
}{
	{"learning_rate", 1e-4, math.Inf(1), func(p *trinity.OptimParams) *float64 { return &p.LR }},
	{"beta1", 0.9, 1, func(p *trinity.OptimParams) *float64 { return &p.Beta1 }},
	{"beta2", 0.95, 1, func(p *trinity.OptimParams) *float64 { return &p.Beta2 }},
	{"eps", 1e-12, math.Inf(1), func(p *trinity.OptimParams) *float64 { return &p.Eps }},
	{"weight_decay", 0, math.Inf(1), func(p *trinity.OptimParams) *float64 { return &p.WeightDecay }},
	{"grad_clip_norm", 0, math.Inf(1), func(p *trinity.OptimParams) *float64 { return &p.ClipNorm }},
}

func optimParams(in *tinker.OptimStep) (p trinity.OptimParams, err error) {
	if in.Other != nil {
		return p, fmt.Errorf("optimizer_params.type is %.40q: this service has adamw", in.Other.Type)
	}
	for _, v := range adamDefaults {
		given, isGiven := in.Adam[v.name]
		switch {
		case isGiven && given == nil: // the SDK writes NaN so
			return p, fmt.Errorf("adam_params.%s is no number", v.name)
		case isGiven && !(*given >= 0 && *given < v.below):
			return p, fmt.Errorf("adam_params.%s is %v: want 0 or more, below %v", v.name, *given, v.below)
		case isGiven:
			*v.of(&p) = *given
		default:
			*v.of(&p) = v.usual
		}
	}
	return p, nil
}
