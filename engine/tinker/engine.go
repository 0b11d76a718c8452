package tinker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// trainer is a model of a service. It implements engine.Publisher, engine.VersionWriter and trainer.Cutter. Concurrent calls run one
// after another.
type trainer struct {
	link *link
	spec engine.TrainerSpec

	mu      sync.Mutex
	model   *tinker.Training // nil until it is needed
	base    *scorer          // of the model without the adapter; nil until it is needed
	sampler *sampler         // beside it; nil if there is none
	closed  bool
	pending bool // there is a gradient that no step has used
	steps   int64
	left    []string        // checkpoints of versions before the present one, the oldest first
	named   map[string]bool // checkpoints that files name
	version
}

var (
	_ engine.Publisher     = (*trainer)(nil)
	_ engine.VersionWriter = (*trainer)(nil)
)

var (
	errClosed     = errors.New("tinker: the engine is closed")
	errNotTrained = errors.New("tinker: the engine was opened for forward passes only")
)

// attach sets the sampler that gets the versions.
func (e *trainer) attach(s *sampler) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sampler, s.beside = s, e
}

// open makes the model, unless it is there. A run that resumes makes it of a checkpoint instead.
func (e *trainer) open(ctx context.Context) error {
	switch {
	case e.closed:
		return errClosed
	case !e.spec.Train:
		return errNotTrained
	case e.model != nil:
		return nil
	}
	s := &e.spec.Service
	made, err := e.link.Train(ctx, s.BaseModel, tinker.LoRAConfig{
		Rank: e.spec.LoRA.LoraRank, Seed: &s.Seed, TrainMLP: &s.MLP, TrainAttn: &s.Attention, TrainUnembed: &s.Unembed,
	})
	if err != nil {
		return broken(err)
	}
	e.model = made
	return nil
}

// Forward implements engine.Trainer.
func (e *trainer) Forward(ctx context.Context, b *trinity.Batch, want trinity.Streams) ([]trinity.TokenStats, error) {
	if !e.spec.Train {
		return e.baseScores(ctx, b, want)
	}
	ctx, done, err := e.begin(ctx, b, want)
	if err != nil {
		return nil, err
	}
	defer done()
	return e.forward(ctx, b)
}

// begin locks the engine for a pass over a batch, which it checks. Call done at the end.
func (e *trainer) begin(ctx context.Context, b *trinity.Batch, want trinity.Streams) (_ context.Context, done func(), err error) {
	if want != (trinity.Streams{}) {
		return nil, nil, errors.New("tinker: a service gives log-probabilities, and neither entropies nor values, scores or divergences: " +
			"choose a loss and an advantage function that read log-probabilities alone")
	}
	if err := check(b.Experiences, e.link.cfg.VocabSize); err != nil {
		return nil, nil, err
	}
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil, nil, errClosed
	}
	ctx, cancel := e.link.limited(ctx)
	return ctx, func() { cancel(); e.mu.Unlock() }, nil
}

// forward returns the log-probabilities of a batch. The lock is held.
func (e *trainer) forward(ctx context.Context, b *trinity.Batch) ([]trinity.TokenStats, error) {
	if err := e.open(ctx); err != nil {
		return nil, err
	}
	rows := rowsOf(b.Experiences)
	logprobs, _, err := e.pass(ctx, tinker.Pass{Loss: crossEntropy, ForwardOnly: true}, rows, func(r row) []tinker.Named {
		return []tinker.Named{r.weights(make([]float32, r.columns()*len(r.of.Tokens)))}
	})
	if err != nil {
		return nil, err
	}
	return statsOf(b.Experiences, rows, logprobs)
}

// pass sends rows with what the loss reads of each. The lock is held.
func (e *trainer) pass(ctx context.Context, p tinker.Pass, rows []row, inputs func(row) []tinker.Named) (
	logprobs [][]float32, sums map[string]float64, err error,
) {
	if len(rows) == 0 {
		return nil, nil, nil
	}
	p.Bytes = e.spec.Service.ChunkBytes
	data := make([]tinker.Datum, len(rows))
	for i, r := range rows {
		data[i] = r.datum(inputs(r))
	}
	logprobs, sums, err = e.model.Pass(ctx, p, data)
	return logprobs, sums, broken(err)
}

// ForwardBackward implements engine.Trainer: the service gives log-probabilities, and gets the derivatives of the loss by them.
func (e *trainer) ForwardBackward(ctx context.Context, b *trinity.Batch, loss trinity.Loss) (trinity.Metrics, error) {
	if !e.spec.Train {
		return nil, errNotTrained
	}
	ctx, done, err := e.begin(ctx, b, loss.Streams())
	if err != nil {
		return nil, err
	}
	defer done()
	if e.spec.Service.ServerLoss != "" {
		return e.serverLoss(ctx, b, loss)
	}
	stats, err := e.forward(ctx, b)
	if err != nil {
		return nil, err
	}
	grads, metrics, err := loss.Loss(b, stats)
	if err != nil {
		return nil, err
	}
	rows, err := learnt(rowsOf(b.Experiences), grads)
	if err != nil {
		return nil, err
	}
	_, _, err = e.pass(ctx, tinker.Pass{Loss: crossEntropy}, rows, func(r row) []tinker.Named {
		return []tinker.Named{r.weights(grads[r.at].Logprob)}
	})
	e.pending = e.pending || len(rows) > 0
	return metrics, err
}

// learnt returns the rows with a derivative other than 0. One that is not finite is an error.
func learnt(rows []row, grads []trinity.TokenGrads) (kept []row, err error) {
	for _, r := range rows {
		some, k := false, r.columns()
		for t, slope := range grads[r.at].Logprob {
			if x := float64(slope); math.IsNaN(x) || math.IsInf(x, 0) {
				return nil, fmt.Errorf("tinker: the derivative of the loss at token %d of experience %s is %v: lower the learning rate or check "+
					"the loss", t/k, r.of.ID, slope)
			}
			some = some || slope != 0 && r.of.Mask[t/k]
		}
		if some {
			kept = append(kept, r)
		}
	}
	return kept, nil
}

// serverLoss lets the service compute the loss, in one pass. The metrics are those of the run's own loss.
func (e *trainer) serverLoss(ctx context.Context, b *trinity.Batch, loss trinity.Loss) (trinity.Metrics, error) {
	if err := e.open(ctx); err != nil {
		return nil, err
	}
	s := &e.spec.Service
	p := tinker.Pass{Loss: s.ServerLoss, Config: []tinker.Setting{{Name: "num_total_datums", Number: float64(len(rowsOf(b.Whole)))}}}
	for _, name := range slices.Sorted(maps.Keys(s.LossConfig)) {
		p.Config = append(p.Config, tinker.Setting{Name: name, Number: s.LossConfig[name]})
	}
	rows := rowsOf(b.Experiences)
	for _, r := range rows {
		switch {
		case r.of.LogprobsBefore() == nil || r.of.Advantages == nil:
			return nil, fmt.Errorf("tinker: experience %s has no advantages, or no log-probabilities from before the step, which "+
				"model.tinker.server_loss_fn reads", r.of.ID)
		case s.LossConfig["kl_coef"] > 0 && r.of.RefLogprobs == nil:
			return nil, fmt.Errorf("tinker: experience %s has no log-probabilities of the reference, which model.tinker.server_loss_fn reads",
				r.of.ID)
		}
	}
	logprobs, sums, err := e.pass(ctx, p, rows, func(r row) []tinker.Named {
		inputs := []tinker.Named{
			floats("logprobs", r.masked(r.of.LogprobsBefore(), 1)), floats("advantages", r.masked(r.of.Advantages, 1)), floats("mask", r.mask()),
		}
		if s.LossConfig["kl_coef"] > 0 {
			inputs = append(inputs, floats("ref_logprobs", r.masked(r.of.RefLogprobs, 1)))
		}
		return inputs
	})
	if err != nil {
		return nil, err
	}
	e.pending = e.pending || len(rows) > 0
	stats, err := statsOf(b.Experiences, rows, logprobs)
	if err != nil {
		return nil, err
	}
	_, metrics, err := loss.Loss(b, stats)
	if metrics != nil {
		metrics["server_loss"] = sums["loss"]
	}
	return metrics, err
}

// OptimStep implements engine.Trainer.
func (e *trainer) OptimStep(ctx context.Context, p trinity.OptimParams) (trinity.Metrics, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ctx, cancel := e.link.limited(ctx)
	defer cancel()
	if err := e.open(ctx); err != nil {
		return nil, err
	}
	if e.sampler != nil && !e.HasPublished { // it has not asked for version 0, which are the weights of now
		if err := e.publish(ctx, 0); err != nil {
			return nil, err
		}
	}
	clip := p.ClipNorm
	if clip < 0 || math.IsInf(clip, 1) {
		clip = 0
	}
	result, err := e.model.Step(ctx, map[string]*float64{
		"learning_rate": &p.LR, "beta1": &p.Beta1, "beta2": &p.Beta2, "eps": &p.Eps, "weight_decay": &p.WeightDecay, "grad_clip_norm": &clip,
	})
	if err != nil {
		return nil, broken(err)
	}
	e.steps++
	e.pending, e.behind, e.snapshot = false, true, ""
	metrics := trinity.Metrics{"lr": p.LR}
	for name, value := range result {
		name, _, _ = strings.Cut(name, ":")
		metrics[name] = value
	}
	return metrics, nil
}

// Cut implements trainer.Cutter: requests are cut by their bytes, and are computed where the memory is.
func (*trainer) Cut(exps []*trinity.Experience, _ int) [][]*trinity.Experience {
	if len(exps) == 0 {
		return nil
	}
	return [][]*trinity.Experience{exps}
}

// Reference implements engine.Trainer: the base model.
func (e *trainer) Reference(ctx context.Context, b *trinity.Batch) ([]trinity.TokenStats, error) {
	return e.baseScores(ctx, b, trinity.Streams{})
}

// baseScores returns the log-probabilities of a batch under the base model.
func (e *trainer) baseScores(ctx context.Context, b *trinity.Batch, want trinity.Streams) ([]trinity.TokenStats, error) {
	ctx, done, err := e.begin(ctx, b, want)
	if err != nil {
		return nil, err
	}
	defer done()
	if e.base == nil {
		from, err := e.link.SampleFrom(ctx, e.spec.Service.BaseModel, "")
		if err != nil {
			return nil, broken(err)
		}
		e.base = &scorer{from}
	}
	rows := rowsOf(b.Experiences)
	logprobs, err := e.base.score(ctx, rows)
	if err != nil {
		return nil, err
	}
	return statsOf(b.Experiences, rows, logprobs)
}

// scorer scores given tokens.
type scorer struct{ from *tinker.Sampling }

// scoredAtOnce is the most sequences that are scored at once.
const scoredAtOnce = 64

// score returns the log-probability of each token of each row after the first.
func (s *scorer) score(ctx context.Context, rows []row) ([][]float32, error) {
	all := make([][]float32, len(rows))
	eg, each := errgroup.WithContext(ctx)
	eg.SetLimit(scoredAtOnce)
	for i, r := range rows {
		eg.Go(func() (err error) {
			if r.of.Targets != nil {
				return fmt.Errorf("tinker: experience %s has targets in place of its tokens, which a base model does not score", r.of.ID)
			}
			all[i], err = promptLogprobs(each, s.from, r.of.Tokens[:r.n+1])
			return broken(err)
		})
	}
	return all, eg.Wait()
}

// Close ends the session, unless the sampler uses it.
func (e *trainer) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, path := range e.left {
		e.remove(ctx, path)
	}
	return e.link.release()
}
