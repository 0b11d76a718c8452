package advantage

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// recordedExperience is an experience in testdata/batch.json.
type recordedExperience struct {
	Task           string
	Run, Turn      int
	Mask           []bool
	Logprobs       []float32
	Teacher        []float32
	Penalty        []float64
	Entropies      []float32
	Discriminators []float32
	Reward         float64
	Valid          bool
	Info           map[string]any
}

func (r *recordedExperience) experience() *trinity.Experience {
	return &trinity.Experience{
		ID: trinity.ExperienceID{Step: 1, Task: r.Task, Run: r.Run, Turn: r.Turn}, Tokens: make([]int32, len(r.Mask)),
		Mask: slices.Clone(r.Mask), PromptLen: 1,
		Logprobs: r.Logprobs, TeacherLogprobs: r.Teacher,
		StepStreams: trinity.StepStreams{Entropies: r.Entropies, Discriminators: r.Discriminators},
		Reward:      trinity.Reward{Value: r.Reward, Valid: r.Valid}, Info: maps.Clone(r.Info),
	}
}

func TestBatchAdvantagesEqualPyTorch(t *testing.T) {
	data, err := os.ReadFile("testdata/batch.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct {
		Data  map[string][][]recordedExperience
		Cases []struct {
			Fn         string
			Data       string
			Args       map[string]any
			Advantages [][][]float64 // null for dropped experiences
			Returns    [][][]float64
			Mask       [][][]bool
		}
	}
	if err := json.Unmarshal(data, &recorded); err != nil {
		t.Fatal(err)
	}
	for _, c := range recorded.Cases {
		t.Run(fmt.Sprint(c.Fn, c.Args), func(t *testing.T) {
			var groups []trinity.Group
			penalties := map[*trinity.Experience][]float64{}
			for _, g := range recorded.Data[c.Data] {
				var group trinity.Group
				for _, r := range g {
					e := r.experience()
					group, penalties[e] = append(group, e), r.Penalty
				}
				groups = append(groups, group)
			}
			penalized := c.Args["penalty"] == true
			delete(c.Args, "penalty")
			a, err := registry.Advantages.Build(c.Fn, c.Args)
			if err != nil {
				t.Fatal(err)
			}
			if penalized {
				a.Needs().PenalizeKL(func(_ context.Context, batch []*trinity.Experience) ([][]float64, trinity.Metrics, error) {
					var out [][]float64
					for _, e := range batch {
						out = append(out, penalties[e])
					}
					return out, trinity.Metrics{"kl": 1}, nil
				})
			}
			all := slices.Clone(groups)
			for i, g := range all {
				all[i] = slices.Clone(g)
			}
			kept, metrics, err := a.Advantages(t.Context(), groups)
			if err != nil {
				t.Fatal(err)
			}
			if penalized && metrics["kl"] != 1 {
				t.Errorf("metrics %v lack the penalty's", metrics)
			}
			left := map[*trinity.Experience]bool{}
			for _, e := range slices.Concat(kept...) {
				left[e] = true
			}
			for i, g := range all {
				for j, e := range g {
					want := c.Advantages[i][j]
					if left[e] != (want != nil) {
						t.Errorf("%s: kept is %v, want %v", e.ID, left[e], want != nil)
					}
					if want != nil && !near(e.Advantages, want, 1e-6) {
						t.Errorf("%s: %v, want %v", e.ID, e.Advantages, want)
					}
					if want != nil && c.Returns != nil && !near(e.Returns, c.Returns[i][j], 1e-6) {
						t.Errorf("%s: returns %v, want %v", e.ID, e.Returns, c.Returns[i][j])
					}
					if want != nil && c.Mask != nil && !slices.Equal(e.Mask, c.Mask[i][j]) {
						t.Errorf("%s: mask %v, want %v", e.ID, e.Mask, c.Mask[i][j])
					}
				}
			}
		})
	}
}
