package main

import (
	"context"
	"fmt"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/registry"
)

// training is optimizer steps on all tokens, as algorithm sft does them.
type training struct {
	engine engine.Trainer
	loss   trinity.Loss
	batch  []*trinity.Experience
	tokens int // distinct ones of the batch
}

func newTraining(a *assignment) (task, error) {
	var batch []*trinity.Experience
	for i := range a.Batch {
		batch = append(batch, allTrained(i, a.Train[i*a.Prompt:(i+1)*a.Prompt+1]))
	}
	return openTraining(a, batch)
}

// sftLoss returns the loss of algorithm_type sft.
func sftLoss() (trinity.Loss, error) {
	parts, err := registry.Parts(trinity.Algorithm{Type: "sft"})
	if err != nil {
		return nil, err
	}
	sft, err := algorithm.New(parts)
	if err != nil {
		return nil, err
	}
	return sft.Loss, nil
}

// openTraining trains a batch with as many distinct tokens as the assignment has.
func openTraining(a *assignment, batch []*trinity.Experience) (task, error) {
	loss, err := sftLoss()
	if err != nil {
		return nil, err
	}
	t := &training{loss: loss, batch: batch, tokens: a.Batch * a.Prompt}
	opener, err := registry.Trainers.Build("cpu")
	if err != nil {
		return nil, err
	}
	t.engine, err = opener.OpenTrainer(context.Background(), engine.TrainerSpec{ModelPath: a.Model, Train: true, MicroTokens: t.tokens})
	return t, err
}

// allTrained is a sequence of which every token but the first is predicted.
func allTrained(i int, tokens []int32) *trinity.Experience {
	return &trinity.Experience{ID: trinity.ExperienceID{Run: i}, Tokens: tokens, Mask: trainedFrom(len(tokens), 1), PromptLen: 1}
}

func (t *training) run(number int) (sample, error) {
	ctx, start := context.Background(), time.Now()
	m, err := t.engine.ForwardBackward(ctx, &trinity.Batch{Step: int64(number + 1), Experiences: t.batch, Whole: t.batch}, t.loss)
	if err != nil {
		return sample{}, err
	}
	_, err = t.engine.OptimStep(ctx, trinity.OptimParams{LR: 1e-5, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.01})
	if err != nil {
		return sample{}, fmt.Errorf("optimizer step: %w", err)
	}
	seconds := time.Since(start).Seconds()
	loss, ok := m["final_loss"]
	if !ok {
		return sample{}, fmt.Errorf("the step tells no final_loss to compare with the peer's: %v", m)
	}
	return sample{Value: float64(t.tokens) / seconds, Loss: loss}, nil
}
