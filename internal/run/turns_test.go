package run_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

func init() {
	registry.Trainers.Register("test_turns", "A bandit that shares a device with its sampler.",
		func() engine.TrainerOpener { return &turnTrainer{} })
	registry.Samplers.Register("test_turns_sampler", "A bandit that has the device unless it sleeps.",
		func() engine.SamplerOpener { return &turnSampler{} })
}

// device is what both bandits compute on.
var device struct {
	asleep, opened atomic.Bool
	inside, naps   atomic.Int64
	wrong          atomic.Value // string
}

// uses notes a computation of the trainer while the sampler has the device.
func uses(what string) {
	if device.opened.Load() && !device.asleep.Load() {
		device.wrong.CompareAndSwap(nil, what+" while the sampler is awake")
	}
}

type turnTrainer struct{ banditTrainer }

func (o *turnTrainer) OpenTrainer(_ context.Context, spec engine.TrainerSpec) (engine.Trainer, error) {
	bandit, err := newBandit(spec.ModelPath)
	return turnEngine{bandit}, err
}

// turnEngine has nothing but the methods of engine.Trainer.
type turnEngine struct{ engine.Trainer }

func (e turnEngine) Forward(ctx context.Context, b *trinity.Batch, want trinity.Streams) ([]trinity.TokenStats, error) {
	uses("Forward")
	return e.Trainer.Forward(ctx, b, want)
}

func (e turnEngine) ForwardBackward(ctx context.Context, b *trinity.Batch, loss trinity.Loss) (trinity.Metrics, error) {
	uses("ForwardBackward")
	return e.Trainer.ForwardBackward(ctx, b, loss)
}

func (e turnEngine) OptimStep(ctx context.Context, p trinity.OptimParams) (trinity.Metrics, error) {
	uses("OptimStep")
	return e.Trainer.OptimStep(ctx, p)
}

func (e turnEngine) SaveState(ctx context.Context, dir string) error {
	uses("SaveState")
	return e.Trainer.SaveState(ctx, dir)
}

func (e turnEngine) LoadState(ctx context.Context, dir string) error {
	uses("LoadState")
	return e.Trainer.LoadState(ctx, dir)
}

func (e turnEngine) SaveModel(ctx context.Context, dir string) error {
	uses("SaveModel")
	return e.Trainer.SaveModel(ctx, dir)
}

type turnSampler struct{ banditSampler }

func (*turnSampler) OpenSampler(_ context.Context, spec engine.SamplerSpec) (trinity.Sampler, error) {
	bandit, err := newBandit(spec.ModelPath)
	device.asleep.Store(false)
	device.opened.Store(true)
	return sleepyBandit{bandit}, err
}

// sleepyBandit is a weights.Sleeper, and a weights.Resident, as servers are.
type sleepyBandit struct{ *trinitytest.Bandit }

func (sleepyBandit) Resident() {}

func (s sleepyBandit) Sample(ctx context.Context, prompt trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	device.inside.Add(1)
	defer device.inside.Add(-1)
	for device.asleep.Load() {
		device.inside.Add(-1)
		select {
		case <-ctx.Done():
			device.inside.Add(1)
			return nil, context.Cause(ctx)
		default:
		}
		device.inside.Add(1)
	}
	return s.Bandit.Sample(ctx, prompt, p)
}

func (sleepyBandit) Sleep(ctx context.Context) error {
	device.asleep.Store(true)
	device.naps.Add(1)
	for device.inside.Load() > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

func (sleepyBandit) Wake(context.Context) error { device.asleep.Store(false); return nil }

func (s sleepyBandit) LoadWeights(ctx context.Context, dir string, version int64) error {
	if !device.asleep.Load() {
		return errors.New("a version comes while the sampler is awake")
	}
	err := s.Bandit.LoadWeights(ctx, dir, version)
	device.asleep.Store(false)
	return err
}

// A trainer that shares a device with its sampler computes only while that sleeps: when the run begins,
// resumes, trains, publishes and writes checkpoints, also if an explore step is worth several train steps,
// for whose versions the trainer waits until the explorer has sampled.
func TestTrainerAndSamplerTakeTurns(t *testing.T) {
	for _, batch := range []int{0, 6} {
		p := newProject(t, tiny, rl)
		shared := []string{
			"mode=colocate", "trainer.trainer_type=test_turns", "explorer.rollout_model.engine_type=test_turns_sampler",
			"synchronizer.sync_method=directory", "trainer.save_interval=2",
		}
		if batch > 0 {
			shared = append(shared, fmt.Sprintf("buffer.train_batch_size=%d", batch))
		}
		for _, steps := range []int{3, 5} {
			device.opened.Store(false)
			device.naps.Store(0)
			if _, err := p.run(t, append(shared, fmt.Sprintf("buffer.total_steps=%d", steps))...); err != nil {
				t.Fatal(err)
			}
			if wrong := device.wrong.Load(); wrong != nil || device.naps.Load() == 0 {
				t.Errorf("batches of %d, to step %d: %v, slept %d times", batch, steps, wrong, device.naps.Load())
			}
		}
	}
}

// Trainer and servers that share GPUs and would compute at the same time are refused, by key.
func TestColocatedRunsTakeStrictTurns(t *testing.T) {
	p := newProject(t, tiny, rl)
	for _, key := range []string{
		"synchronizer.sync_style=fully_async", "synchronizer.trainer_sync_interval=2", "synchronizer.explorer_sync_interval=2",
		"synchronizer.sync_offset=1",
	} {
		_, err := p.run(t, "mode=colocate", "trainer.trainer_type=torch", "explorer.rollout_model.engine_type=vllm",
			"cluster.gpu_per_node=1", key)
		name, _, _ := strings.Cut(key, "=")
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "share GPUs in mode colocate") {
			t.Errorf("%s: %v", key, err)
		}
	}
}
