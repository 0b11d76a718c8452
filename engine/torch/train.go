package torch

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/model"
)

// ForwardBackward implements engine.Trainer: the worker holds the graph while the loss is computed
// here.
func (e *workerModel) ForwardBackward(ctx context.Context, b *trinity.Batch, loss trinity.Loss) (trinity.Metrics, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	want := loss.Streams()
	if want.Discriminator {
		return nil, errors.New("torch: the loss asks for entropy discriminators, which have no gradient: only Forward returns them")
	}
	if !e.spec.Train {
		return nil, errNotTrained
	}
	if want.Score || e.spec.Head == engine.ScoreHead {
		var err error
		if b, loss, err = e.scoring().Loss(b, loss); err != nil {
			return nil, err
		}
		want = loss.Streams()
	}
	if err := e.check(b.Experiences); err != nil {
		return nil, err
	}
	for _, x := range b.Experiences {
		if e.spec.Replay {
			if err := experience.RequireExperts(x); err != nil {
				return nil, fmt.Errorf("torch: %w", err)
			}
		}
	}
	packed := newBatch(b.Experiences, e)
	stats, streams, answer, err := e.forward(ctx, e.name, packed, want, map[string]any{"hold": true})
	if err != nil {
		return nil, err
	}
	grads, metrics, err := loss.Loss(b, stats)
	if err != nil {
		return nil, err
	}
	arrays, err := packed.derivatives(streams, grads)
	if err != nil {
		return metrics, err
	}
	meta := map[string]any{}
	if balances(e.cfg) && packed.tokens > 0 { // the load-balancing loss has a gradient where the other loss has none
		if metrics, err = balance(metrics, answer, b.Whole, meta); err != nil {
			return metrics, err
		}
	} else if len(arrays) == 0 {
		return metrics, nil
	}
	if _, err := e.do(ctx, "backward", message{arrays, meta}); err != nil {
		return metrics, err
	}
	e.accumulating = true
	return metrics, nil
}

// balances reports whether the training loss includes the load-balancing loss.
func balances(cfg *model.Config) bool { return cfg.Mixture != nil && cfg.Mixture.AuxLoss > 0 }

// balance adds the load-balancing loss of a micro-batch, before its coefficient, to the metrics, and the tokens of the
// step to the request for its gradient.
func balance(metrics trinity.Metrics, answer reply, whole []*trinity.Experience, meta map[string]any) (trinity.Metrics, error) {
	tokens, sum := 0, 0.0
	for _, x := range whole {
		tokens += max(0, length(x)-1) // the last token predicts nothing
	}
	meta["whole_tokens"] = tokens
	err := answer.value("balance", &sum)
	all := trinity.Metrics{"router/aux_loss": sum / float64(tokens)}
	all.Add(metrics)
	return all, err
}

// checkReplay refuses to replay experts where the worker cannot.
func checkReplay(cfg *model.Config, spec *engine.TrainerSpec) error {
	if !spec.Replay {
		return nil
	}
	if err := cfg.CheckRouter(); err != nil {
		return fmt.Errorf("torch: %s: %w", spec.ModelPath, err)
	}
	if sequenceOf(*spec) > 1 {
		return errors.New("torch: ranks that hold parts of a row do not replay experts: leave out trainer.ulysses_sequence_parallel_size, " +
			"or algorithm.enable_router_replay")
	}
	return nil
}

// addLoads adds the load of the experts since the last step to the metrics, and router/replay_changed.
func (e *workerModel) addLoads(metrics trinity.Metrics, answer reply) error {
	if _, routed := answer.file.Metadata["loads"]; !routed || e.cfg.Mixture == nil {
		return nil
	}
	var counts [][]int64 // by layer and expert
	err := answer.value("loads", &counts)
	metrics.Add(e.cfg.Mixture.LoadMetrics(counts))
	if err == nil && e.spec.Replay {
		var replayed [2]int64 // tokens whose router would have chosen others, and all of them
		if err = answer.value("replayed", &replayed); replayed[1] > 0 {
			metrics["router/replay_changed"] = float64(replayed[0]) / float64(replayed[1])
		}
	}
	return err
}

var errNotTrained = errors.New("torch: the engine was opened for forward passes only")

// OptimStep implements engine.Trainer.
func (e *workerModel) OptimStep(ctx context.Context, p trinity.OptimParams) (trinity.Metrics, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.spec.Train {
		return nil, errNotTrained
	}
	clip := p.ClipNorm
	if math.IsInf(clip, 1) {
		clip = 0
	}
	answer, err := e.do(ctx, "step", message{meta: map[string]any{
		"lr": p.LR, "beta1": p.Beta1, "beta2": p.Beta2, "eps": p.Eps, "weight_decay": p.WeightDecay, "clip_norm": clip,
	}})
	if err != nil {
		return nil, err
	}
	applied, norm := false, 0.0
	if err := answer.value("applied", &applied); err != nil {
		return nil, err
	}
	if !applied {
		return nil, fmt.Errorf("torch: the gradient of optimizer step %d is not finite; the weights are unchanged: "+
			"lower the learning rate or check the loss", e.steps+1)
	}
	if err := answer.value("grad_norm", &norm); err != nil {
		return nil, err
	}
	e.steps++
	e.accumulating, e.behind = false, true
	metrics := trinity.Metrics{"grad_norm": norm, "lr": p.LR}
	return metrics, e.addLoads(metrics, answer)
}

// Discard implements engine.Discarder.
func (e *workerModel) Discard(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.spec.Train {
		return errNotTrained
	}
	if _, err := e.do(ctx, "discard", message{}); err != nil {
		return err
	}
	e.accumulating = false
	return nil
}
