package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/cluster"
	"github.com/trinity-go/trinity/internal/trainer"
	"github.com/trinity-go/trinity/launcher"
	"github.com/trinity-go/trinity/registry"
)

// torchMicro are the tokens of a micro-batch of PyTorch, as both sides cut them.
const torchMicro = 2048

// packed is optimizer steps of the PyTorch worker on sequences of unequal lengths.
type packed struct {
	training
	twice bool // a forward pass before the one that the gradient needs, as without a held graph
}

func newPacked(a *assignment) (task, error) {
	t := &packed{twice: a.Twice}
	at := 0
	for i, n := range a.Lengths {
		x := allTrained(i, a.Train[at:at+n])
		if a.Prompt > 0 { // only the reply is trained
			x.PromptLen, x.Mask = a.Prompt, trainedFrom(n, a.Prompt)
		}
		t.batch = append(t.batch, x)
		at += n
	}
	t.tokens = at
	var err error
	if t.loss, err = sftLoss(); err != nil {
		return nil, err
	}
	local, err := launcher.Launchers.Build("local")
	if err != nil {
		return nil, err
	}
	gpus, err := local.GPUs()
	if err != nil {
		return nil, err
	}
	opener, err := registry.Trainers.Build("torch", map[string]any{"python": a.Python})
	if err != nil {
		return nil, err
	}
	place := engine.Place{
		Programs: &cluster.Cluster{Launcher: local, Patience: 5 * time.Minute}, Nodes: 1, Ranks: 1, GPUs: min(1, gpus),
	}
	spec := engine.TrainerSpec{ModelPath: a.Model, Train: true, MicroTokens: torchMicro, Place: place}
	if a.Uncompiled {
		uncompile(&spec)
	}
	t.engine, err = opener.OpenTrainer(context.Background(), spec)
	return t, err
}

// uncompile lets the worker run its layers uncompiled. Workers of commits before that know no others.
var uncompile = func(*engine.TrainerSpec) {}

func (t *packed) run(number int) (sample, error) {
	ctx, start, loss := context.Background(), time.Now(), 0.0
	for _, piece := range t.engine.(trainer.Cutter).Cut(t.batch, 1) {
		b := &trinity.Batch{Step: int64(number + 1), Experiences: piece, Whole: t.batch}
		if t.twice {
			if _, err := t.engine.Forward(ctx, b, trinity.Streams{}); err != nil {
				return sample{}, err
			}
		}
		m, err := t.engine.ForwardBackward(ctx, b, t.loss)
		if err != nil {
			return sample{}, err
		}
		part, ok := m["final_loss"]
		if !ok {
			return sample{}, errors.New("the step tells no final_loss to compare with the peer's")
		}
		loss += part
	}
	if _, err := t.engine.OptimStep(ctx, trinity.OptimParams{LR: 1e-5, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.01}); err != nil {
		return sample{}, fmt.Errorf("optimizer step: %w", err)
	}
	return sample{Value: float64(t.tokens) / time.Since(start).Seconds(), Loss: loss}, nil
}
