package run_test

import (
	"context"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience/ledger"
	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.SampleStrategies.Register("test_forgets",
		"default that loses an experience of the first batch and repeats another in the second.",
		func() trinity.SampleStrategy { return &forgets{} })
}

type forgets struct{}

func (forgets) Needs() trinity.SampleNeeds { return trinity.SampleNeeds{} }
func (forgets) Rollouts(n int) int         { return n }

func (forgets) Open(usual trinity.Source, _ map[string]trinity.Source) (trinity.Source, error) {
	return &forgetting{Source: usual}, nil
}

type forgetting struct {
	trinity.Source
	batch int
	again *trinity.Experience
}

func (s *forgetting) Take(ctx context.Context, want trinity.Want) (trinity.Taken, error) {
	taken, err := s.Source.Take(ctx, want)
	if err != nil {
		return taken, err
	}
	switch s.batch++; s.batch {
	case 1:
		s.again = taken.Groups[0][1]
		taken.Groups[0] = slices.Delete(slices.Clone(taken.Groups[0]), 0, 1)
	case 2:
		taken.Groups = append(taken.Groups, trinity.Group{s.again})
	}
	return taken, nil
}

// A test strategy loses one experience and repeats another. The account of the run names the first
// and counts the second.
func TestTheAccountNamesLostAndRepeatedExperiences(t *testing.T) {
	p := newProject(t, tiny, rl)
	overrides := []string{noEvaluation, "buffer.total_steps=3", "algorithm.sample_strategy=test_forgets"}
	if _, err := run.Run(t.Context(), t.Context(), p.load(t, overrides...), run.Options{Say: func(string) {}}); err != nil {
		t.Fatal(err)
	}
	accounts, err := ledger.Read(p.job())
	if err != nil || accounts["."] == nil {
		t.Fatal(accounts, err)
	}
	a := accounts["."]
	if a.Explored != 36 || a.Put != 36 || a.Trained[1] != 34 || a.Trained[2] != 1 || len(a.Lost) != 1 || a.Waiting != 0 ||
		!a.Ended || a.Steps != 3 {
		t.Errorf("%+v", *a)
	}
	if lost := a.Lost[0]; lost.Step != 1 || lost.Run != 0 {
		t.Errorf("lost %v, want the first rollout of step 1", lost)
	}
}

// Operators and the sample strategy are named by what they dropped.
func TestTheAccountNamesWhoDroppedExperiences(t *testing.T) {
	p := newProject(t, tiny, rl)
	overrides := []string{noEvaluation, "synchronizer.sync_interval=3", "algorithm.sample_strategy=staleness_control",
		"algorithm.sample_strategy_args.max_staleness=1",
		"data_processor.experience_pipeline.operators=[{name: reward_filter, args: {threshold: 0.5}}]"}
	if _, err := run.Run(t.Context(), t.Context(), p.load(t, overrides...), run.Options{Say: func(string) {}}); err != nil {
		t.Fatal(err)
	}
	accounts, err := ledger.Read(p.job())
	if err != nil || accounts["."] == nil {
		t.Fatal(accounts, err)
	}
	a := accounts["."]
	if a.Dropped["reward_filter"] == 0 || a.Dropped["staleness_control"] == 0 || len(a.Lost) != 0 ||
		a.Trained[1] == 0 || len(a.Trained) != 1 ||
		a.Explored != a.Put+a.Dropped["reward_filter"] || a.Put != a.Trained[1]+a.Dropped["staleness_control"]+a.Waiting {
		t.Errorf("%+v", *a)
	}
}
