package main

import (
	"context"
	_ "embed"
	"errors"
	"os"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/monitor"
	"github.com/trinity-go/trinity/registry"
)

//go:embed grpo.yaml
var grpoYAML []byte

// grpo is a run of mode both: explorer, buffer, trainer, publication. Its monitor holds the explorer after each rollout.
type grpo struct {
	rollouts chan sample // one as each ends
	next     chan bool
	ended    chan error
}

func newGRPO(a *assignment) (task, error) { return newGRPOWith(a, config.Options{Engine: "cpu"}) }

// newGRPOServed is newGRPO whose run starts a vLLM server, which samples, and the PyTorch worker, which trains.
func newGRPOServed(a *assignment) (task, error) {
	if a.Python == "" || a.VLLM == "" {
		return nil, errors.New("our side is a PyTorch worker and a vLLM server: give --peers `packed pytorch` and vllm too")
	}
	return newGRPOWith(a, config.Options{Overrides: []string{
		"trainer.trainer_type=torch", "trainer.trainer_args={python: " + a.Python + "}", "explorer.rollout_model.engine_type=vllm",
		"explorer.rollout_model.engine_args={python: " + a.VLLM + "}", "explorer.rollout_model.dtype=float32", "cluster.start_timeout=1200",
	}})
}

func newGRPOWith(a *assignment, o config.Options) (task, error) {
	for key, value := range map[string]string{"BENCH_MODEL": a.Model, "BENCH_DIR": a.Dir, "BENCH_QUESTIONS": a.Questions} {
		if err := os.Setenv(key, value); err != nil {
			return nil, err
		}
	}
	g := &grpo{rollouts: make(chan sample, 1), next: make(chan bool, 1), ended: make(chan error, 1)}
	monitor.Monitors.Register("bench", "Holds the run after each rollout.", func() trinity.Monitor { return &gate{grpo: g} })
	registry.Rewards.Register("variety", "Distinct characters of the reply, in thousands.", func() trinity.RewardFunc { return variety{} })
	cfg, err := config.Parse("grpo.yaml", grpoYAML, o)
	if err != nil {
		return nil, err
	}
	go func() {
		_, err := run.Run(context.Background(), context.Background(), cfg, run.Options{Say: func(string) {}})
		if err == nil {
			err = errors.New("the run came to its end")
		}
		g.ended <- err
	}()
	return g, nil
}

// run times what lies between the ends of two rollouts: buffer, training, publication, and the rollout with the new weights. Warming up takes
// the first rollout besides.
func (g *grpo) run(number int) (sample, error) {
	if number == 0 {
		if _, err := g.rollout(); err != nil {
			return sample{}, err
		}
	}
	start := time.Now()
	g.next <- true
	s, err := g.rollout()
	s.Value = time.Since(start).Seconds()
	return s, err
}

// rollout waits for the end of one.
func (g *grpo) rollout() (sample, error) {
	select {
	case s := <-g.rollouts:
		return s, nil
	case err := <-g.ended:
		return sample{}, err
	}
}

// gate is the run's monitor. The explorer logs a step before it delivers its groups, and stands until they are asked for.
type gate struct{ grpo *grpo }

// Log implements trinity.Monitor.
func (g *gate) Log(ctx context.Context, r trinity.Record) error {
	if r.Role != "explorer" {
		return nil
	}
	g.grpo.rollouts <- sample{Rollout: r.Metrics["time/explore_step"]}
	select {
	case <-g.grpo.next:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close implements trinity.Monitor.
func (g *gate) Close() error { return nil }

// variety is a reward that differs within a group, so that every token has a gradient.
type variety struct{}

// Score implements trinity.RewardFunc.
func (variety) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	seen := map[rune]bool{}
	for _, r := range in.Response {
		seen[r] = true
	}
	return trinity.NewReward(map[string]float64{"variety": float64(len(seen)) / 1000}), nil
}
