package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/model/renderer"
	"github.com/trinity-go/trinity/registry"
	_ "github.com/trinity-go/trinity/standard" // registers the engines and workflows
)

// policy is a model that the trainer changes and the sampler samples, and what a rollout needs.
type policy struct {
	trainer  engine.Publisher // an engine that hands its weights to a sampler
	sampler  trinity.Sampler
	workflow trinity.Workflow
	renderer trinity.Renderer
	rows     []map[string]any // of a JSON Lines file
}

// open reads the questions and opens a model with random weights, for training and for sampling.
func open(ctx context.Context, dir string) (*policy, error) {
	rows, err := read(dir + "/data/train.jsonl")
	if err != nil {
		return nil, err
	}
	text, err := renderer.Open(dir+"/model", renderer.Options{})
	if err != nil {
		return nil, err
	}
	p := &policy{renderer: text, rows: rows}
	if p.workflow, err = registry.Workflows.Build("simple_workflow"); err != nil {
		return nil, err
	}
	trainers, err := registry.Trainers.Build("cpu")
	if err != nil {
		return nil, err
	}
	samplers, err := registry.Samplers.Build("cpu")
	if err != nil {
		return nil, err
	}
	init := engine.InitSpec{Seed: seed, Style: "fan_in"}
	opened, err := trainers.OpenTrainer(ctx, engine.TrainerSpec{
		ModelPath: dir + "/model", Init: init, Train: true, MicroTokens: 8192, MaxModelLen: 64,
	})
	if err != nil {
		return nil, err
	}
	p.trainer = opened.(engine.Publisher) // the embedded engine is one
	p.sampler, err = samplers.OpenSampler(ctx, engine.SamplerSpec{
		ModelPath: dir + "/model", Init: init, MaxSequences: tasksPerStep * groupSize, MaxModelLen: 64, Shared: true, Beside: opened,
	})
	return p, err
}

// read returns the rows of a JSON Lines file.
func read(path string) (rows []map[string]any, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for lines := json.NewDecoder(file); lines.More(); {
		var row map[string]any
		if err := lines.Decode(&row); err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// close releases the memory of trainer and sampler.
func (p *policy) close() error {
	return errors.Join(p.sampler.(io.Closer).Close(), p.trainer.Close())
}

// digits is the reward: the share of the answer's characters that are digits.
type digits struct{}

// Score implements trinity.RewardFunc.
func (digits) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	count, all := 0, 0
	for _, char := range in.Response {
		all++
		if strings.ContainsRune("0123456789", char) {
			count++
		}
	}
	return trinity.NewReward(map[string]float64{"digits": float64(count) / float64(max(1, all))}), nil
}
