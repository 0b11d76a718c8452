package tinker

import (
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

func (s *Server) forwardBackward(_ context.Context, body []byte) (any, error) {
	in, err := tinker.DecodeForwardBackward(body)
	if err != nil {
		return nil, bad("the body is no ForwardBackwardRequest: %v", err)
	}
	return s.order(in.ModelID, in.SeqID, body, func(ctx context.Context, m *model) (any, error) {
		pass, err := newPass(m.base, in)
		if err != nil {
			return nil, err // before anything was added to the gradient
		}
		output, err := pass.run(ctx, m.trainer, in.ForwardOnly)
		if err != nil {
			if !in.ForwardOnly {
				m.spoilt = fmt.Sprintf("seq_id %d has failed: %v", in.SeqID, err)
			}
			return nil, err
		}
		return encoded(output.Encode()), nil
	})
}

// pass is a request for a forward pass, or for both passes, that was checked whole.
type pass struct {
	loss   *lossFn
	exps   []*trinity.Experience
	tokens int // most that are computed at once
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
	p := &pass{loss: l, tokens: b.MicroTokens}
	for i := range in.Data {
		e, inputs, err := experienceOf(b, &in.Data[i])
		if err == nil {
			err = l.add(e, inputs)
		}
		if err != nil {
			return nil, fmt.Errorf("datum %d: %w", i, err)
		}
		e.ID.Run = i
		p.exps = append(p.exps, e)
	}
	return p, nil
}

const targetTokens = "target_tokens"

// experienceOf returns a sequence whose Targets are those of the datum, which are one place ahead, and the loss's inputs.
func experienceOf(b *Base, d *tinker.Datum) (*trinity.Experience, map[string][]float32, error) {
	ids, err := d.Tokens()
	if err != nil {
		return nil, nil, err
	}
	n := len(ids)
	if n == 0 || n > b.MaxLen {
		return nil, nil, fmt.Errorf("it has %d tokens: want 1 to %d", n, b.MaxLen)
	}
	if err := b.check("model_input", ids); err != nil {
		return nil, nil, err
	}
	var targets []int32
	inputs := map[string][]float32{}
	for i := range d.Inputs {
		name, tensor := d.Inputs[i].Name, &d.Inputs[i].Tensor
		if k, err := tensor.Columns(); err != nil {
			return nil, nil, fmt.Errorf("loss_fn_inputs: %.40q: %w", name, err)
		} else if k > 1 {
			return nil, nil, fmt.Errorf("loss_fn_inputs: %.40q has %d numbers a token: this version takes one", name, k)
		}
		if name == targetTokens {
			targets, err = tensor.Tokens()
		} else {
			inputs[name], err = tensor.Floats()
		}
		if err != nil {
			return nil, nil, fmt.Errorf("loss_fn_inputs: %.40q: %w", name, err)
		}
	}
	if len(targets) != n {
		return nil, nil, fmt.Errorf("loss_fn_inputs: %s has %d numbers, and there are %d tokens", targetTokens, len(targets), n)
	}
	if err := b.check(targetTokens, targets); err != nil {
		return nil, nil, err
	}
	e := &trinity.Experience{
		Tokens: append(ids, targets[n-1]), Targets: append([]int32{0}, targets...), Mask: slices.Repeat([]bool{true}, n+1), PromptLen: 1,
		Temperature: 1,
	}
	e.Mask[0] = false
	return e, inputs, nil
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

// run computes the passes, so many tokens at a time.
func (p *pass) run(ctx context.Context, trainer engine.Trainer, forwardOnly bool) (*tinker.Output, error) {
	var logprobs [][]float32
	sums := trinity.Metrics{}
	kept := &keeping{loss: p.loss, metrics: sums}
	for from := 0; from < len(p.exps); {
		to, tokens := from, 0
		for to < len(p.exps) && (to == from || tokens+len(p.exps[to].Tokens)-1 <= p.tokens) {
			tokens += len(p.exps[to].Tokens) - 1
			to++
		}
		b := &trinity.Batch{Step: 1, Experiences: p.exps[from:to], Whole: p.exps}
		if forwardOnly {
			now, err := trainer.Forward(ctx, b, trinity.Streams{})
			if err == nil {
				_, _, err = kept.Loss(b, now)
			}
			if err != nil {
				return nil, err
			}
		} else if _, err := trainer.ForwardBackward(ctx, b, kept); err != nil {
			return nil, err
		}
		from = to
	}
	logprobs = kept.logprobs
	var metrics []tinker.Metric
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		metrics = append(metrics, tinker.Metric{Name: name + ":sum", Value: sums[name]})
	}
	return tinker.NewOutput("logprobs", logprobs, metrics), nil
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
	for _, stats := range now {
		k.logprobs = append(k.logprobs, slices.Clone(stats.Logprob[1:]))
	}
	for name, v := range metrics {
		k.metrics[name] += v
	}
	return grads, metrics, err
}

func (s *Server) optimStep(_ context.Context, body []byte) (any, error) {
	var in tinker.OptimStep
	if err := read(body, &in); err != nil {
		return nil, err
	}
	return s.order(in.ModelID, in.SeqID, body, func(ctx context.Context, m *model) (any, error) {
		p, err := optimParams(&in)
		if err == nil && m.spoilt != "" {
			err = fmt.Errorf("the gradient is not whole, so it was discarded: %s", m.spoilt)
		}
		var metrics trinity.Metrics
		if err == nil {
			metrics, err = m.trainer.OptimStep(ctx, p)
		}
		if err != nil {
			return nil, errors.Join(err, m.discard(ctx))
		}
		return map[string]any{"metrics": map[string]float64{"grad_norm:mean": metrics["grad_norm"]}}, nil
	})
}

// discard drops the gradient, so that the next step has its own alone.
func (m *model) discard(ctx context.Context) error {
	m.spoilt = ""
	d, ok := m.trainer.(engine.Discarder)
	if !ok {
		m.spoilt = "this engine cannot discard a gradient: load a checkpoint"
		return nil
	}
	return d.Discard(ctx)
}

func optimParams(in *tinker.OptimStep) (p trinity.OptimParams, err error) {
	if in.Other != nil {
		return p, fmt.Errorf("optimizer_params.type is %.40q: this service has adamw", in.Other.Type)
	}
	adam := in.Adam
	if adam == nil {
		adam = &tinker.AdamParams{}
	}
	for _, v := range []struct {
		name  string
		given *float64
		into  *float64
		usual float64
		below float64
	}{
		{"learning_rate", adam.LearningRate, &p.LR, 1e-4, math.Inf(1)},
		{"beta1", adam.Beta1, &p.Beta1, 0.9, 1}, {"beta2", adam.Beta2, &p.Beta2, 0.95, 1},
		{"eps", adam.Eps, &p.Eps, 1e-12, math.Inf(1)}, {"weight_decay", adam.WeightDecay, &p.WeightDecay, 0, math.Inf(1)},
		{"grad_clip_norm", adam.GradClipNorm, &p.ClipNorm, 0, math.Inf(1)},
	} {
		*v.into = v.usual
		if v.given != nil {
			*v.into = *v.given
		}
		if !(*v.into >= 0 && *v.into < v.below) {
			return p, fmt.Errorf("adam_params.%s is %v: want 0 or more, below %v", v.name, *v.into, v.below)
		}
	}
	return p, nil
}
