package pipeline

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// part is an operator and an advantage.
type part func([]trinity.Group) ([]trinity.Group, trinity.Metrics, error)

func (p part) Process(_ context.Context, g []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return p(g)
}
func (p part) Advantages(g []trinity.Group) ([]trinity.Group, trinity.Metrics, error) { return p(g) }

func first(groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return groups[:1], trinity.Metrics{"filtered_count": float64(len(groups) - 1), "reward_diff/mean": 1}, nil
}

func empty(groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return append([]trinity.Group{{}}, groups...), trinity.Metrics{"filtered_count": 0, "reward_diff/mean": 2}, nil
}

func three() []trinity.Group {
	return []trinity.Group{{&trinity.Experience{}, &trinity.Experience{}}, {&trinity.Experience{}}, {&trinity.Experience{}}}
}

func TestProcess(t *testing.T) {
	for _, c := range []struct {
		name    string
		p       Pipeline
		groups  int
		metrics trinity.Metrics
	}{
		{"nothing to do", Pipeline{}, 3, trinity.Metrics{"experience_count": 4}},
		{"an operator", Pipeline{Operators: []trinity.Operator{part(first)}}, 1,
			trinity.Metrics{"experience_count": 2, "filtered_count": 2, "reward_diff/mean": 1}},
		{"an advantage", Pipeline{Advantage: part(first)}, 1,
			trinity.Metrics{"experience_count": 2, "filtered_count": 2, "reward_diff/mean": 1}},
		{"an empty group is dropped", Pipeline{Operators: []trinity.Operator{part(empty)}}, 3,
			trinity.Metrics{"experience_count": 4, "filtered_count": 0, "reward_diff/mean": 2}},
		{"counts add up, of other metrics the last stands", Pipeline{Operators: []trinity.Operator{part(empty), part(first)}, Advantage: part(first)}, 1,
			trinity.Metrics{"experience_count": 2, "filtered_count": 2, "reward_diff/mean": 1}},
	} {
		groups, metrics, err := c.p.Process(t.Context(), three())
		if err != nil || len(groups) != c.groups || !maps.Equal(metrics, c.metrics) {
			t.Errorf("%s: got %d groups, %v, %v; want %d, %v", c.name, len(groups), metrics, err, c.groups, c.metrics)
		}
	}
}

func TestAnErrorNamesThePart(t *testing.T) {
	fail := part(func([]trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
		return nil, nil, errors.New("no such key")
	})
	for want, p := range map[string]Pipeline{
		"operator 1 (pipeline.part): no such key": {Operators: []trinity.Operator{part(first), fail}},
		"advantage: no such key":                  {Advantage: fail},
	} {
		if _, _, err := p.Process(t.Context(), three()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
