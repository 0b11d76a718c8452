// Command loop is reinforcement fine-tuning by hand: rollouts, rewards, advantages, gradient, optimizer, new weights.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
)

const steps, tasksPerStep, groupSize, seed = 30, 16, 8, 0

func main() {
	if _, err := train(context.Background(), os.Stdout, "examples/quickstart", 1e-3); err != nil {
		log.Fatal(err)
	}
}

// train teaches a random model to write digits and returns the mean reward of each step.
func train(ctx context.Context, out io.Writer, dir string, rate float64) (means []float64, err error) {
	p, err := open(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	for step := int64(1); step <= steps; step++ {
		groups, err := p.rollOut(ctx, step) // the policy answers each question several times
		if err != nil {
			return nil, err
		}
		var batch []*trinity.Experience
		mean := 0.0
		for _, g := range groups {
			mean += compare(g) / float64(len(groups)) // answers above the group's mean get a positive advantage
			batch = append(batch, g...)
		}
		if err := p.update(ctx, step, batch, rate); err != nil { // these answers become likelier
			return nil, err
		}
		fmt.Fprintf(out, "step %d: reward %.3f\n", step, mean)
		means = append(means, mean)
	}
	return means, nil
}

// rollOut returns a group of scored answers for each task of the step. All rollouts run at once, and
// the sampler computes them together.
func (p *policy) rollOut(ctx context.Context, step int64) ([]trinity.Group, error) {
	groups := make([]trinity.Group, tasksPerStep)
	work, ctx := errgroup.WithContext(ctx)
	for i := range groups {
		index := (int(step-1)*tasksPerStep + i) % len(p.rows)
		task := &trinity.Task{ID: fmt.Sprint("sums/", index), Row: p.rows[index], Format: trinity.TaskFormat{PromptKey: "question"}}
		groups[i] = make(trinity.Group, groupSize)
		for run := range groupSize {
			work.Go(func() error {
				params := trinity.SamplingParams{Temperature: 1, MaxTokens: 16, Seed: trinity.Seed(seed, step, task.ID, run)}
				id := trinity.ExperienceID{Step: step, Task: task.ID, Run: run}
				model := &trinity.Model{Sampler: p.sampler, Renderer: p.renderer, Params: params, ID: id}
				answers, err := p.workflow.Run(ctx, &trinity.Rollout{Task: task, Model: model, Reward: digits{}})
				if err != nil {
					return err
				}
				groups[i][run] = answers[0] // this workflow asks the model once
				return nil
			})
		}
	}
	return groups, work.Wait()
}

// compare returns the mean reward of a group and writes the advantages, A = (R − mean)/std at every
// token (GRPO, Shao et al. 2024).
func compare(g trinity.Group) (mean float64) {
	variance := 0.0
	for _, e := range g {
		mean += e.Reward.Value / float64(len(g))
	}
	for _, e := range g {
		variance += (e.Reward.Value - mean) * (e.Reward.Value - mean) / float64(len(g)-1)
	}
	for _, e := range g {
		e.Advantages = make([]float32, len(e.Tokens))
		for t := range e.Advantages {
			e.Advantages[t] = float32((e.Reward.Value - mean) / (math.Sqrt(variance) + 1e-6))
		}
	}
	return mean
}

// update takes one optimizer step and publishes the new weights to the sampler as version step.
func (p *policy) update(ctx context.Context, step int64, batch []*trinity.Experience, rate float64) error {
	whole := &trinity.Batch{Step: step, Experiences: batch, Whole: batch}
	if _, err := p.trainer.ForwardBackward(ctx, whole, policyGradient{}); err != nil {
		return err
	}
	if _, err := p.trainer.OptimStep(ctx, trinity.OptimParams{LR: rate, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, ClipNorm: 1}); err != nil {
		return err
	}
	if err := p.trainer.Offer(ctx, step); err != nil {
		return err
	}
	_, err := p.trainer.Adopt(ctx)
	return err
}

// policyGradient is the loss −A·lp, averaged over the n sampled tokens of the step. lp is the
// log-probability of a token, so the derivative by lp is −A/n.
type policyGradient struct{}

// Streams implements trinity.Loss. The loss needs no values besides the log-probabilities.
func (policyGradient) Streams() trinity.Streams { return trinity.Streams{} }

// Loss implements trinity.Loss.
func (policyGradient) Loss(b *trinity.Batch, _ []trinity.TokenStats) ([]trinity.TokenGrads, trinity.Metrics, error) {
	n := 0
	for _, e := range b.Whole {
		n += e.TrainedTokens()
	}
	grads := make([]trinity.TokenGrads, len(b.Experiences))
	for i, e := range b.Experiences {
		grads[i].Logprob = make([]float32, len(e.Tokens))
		for t, sampled := range e.Mask {
			if sampled {
				grads[i].Logprob[t] = -e.Advantages[t] / float32(n)
			}
		}
	}
	return grads, nil, nil
}
