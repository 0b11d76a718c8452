package pipeline

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience/archive"
)

// part serves as an operator or as an advantage.
type part func([]trinity.Group) ([]trinity.Group, trinity.Metrics, error)

func (p part) Process(_ context.Context, g []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return p(g)
}
func (p part) Advantages(_ context.Context, g []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return p(g)
}
func (part) Needs() trinity.Needs { return trinity.Needs{} }

func first(groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return groups[:1], trinity.Metrics{"filtered_count": float64(len(groups) - 1), "reward_diff/mean": 1}, nil
}

func empty(groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return append([]trinity.Group{{}}, groups...), trinity.Metrics{"filtered_count": 0, "reward_diff/mean": 2}, nil
}

func three() []trinity.Group {
	return []trinity.Group{{&trinity.Experience{}, &trinity.Experience{}}, {&trinity.Experience{}}, {&trinity.Experience{}}}
}

// untimed removes the timings, and the prefix of the other metrics.
func untimed(t *testing.T, metrics trinity.Metrics) trinity.Metrics {
	t.Helper()
	out := trinity.Metrics{}
	for name, v := range metrics {
		if short, ok := strings.CutPrefix(name, "experience_pipeline/"); ok {
			out[short] = v
		} else if !strings.HasPrefix(name, "time/experience_pipeline/") || v < 0 {
			t.Errorf("metric %s = %v", name, v)
		}
	}
	return out
}

func TestTimingsAreNamedAfterTheOperators(t *testing.T) {
	p := Pipeline{Operators: []Operator{{"a", part(empty)}, {"b", part(empty)}, {"a", part(empty)}}, Advantage: part(empty)}
	_, metrics, err := p.Process(t.Context(), 7, three())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for name := range metrics {
		if short, ok := strings.CutPrefix(name, "time/experience_pipeline/"); ok {
			got = append(got, short)
		}
	}
	slices.Sort(got)
	if want := []string{"operator/0_a", "operator/1_b", "operator/2_a", "operator/3_advantage", "total"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestStarvedTrainerIsReported(t *testing.T) {
	drop := func(n int) part {
		return func(g []trinity.Group) ([]trinity.Group, trinity.Metrics, error) { return g[n:], nil, nil }
	}
	for _, c := range []struct {
		ops  []Operator
		want string
	}{
		{[]Operator{{"a", drop(2)}}, ""}, // 2 of 4: half
		{[]Operator{{"a", drop(1)}, {"none", drop(0)}, {"b", drop(1)}, {"c", drop(0)}}, ""},
		{[]Operator{{"a", drop(1)}, {"none", drop(0)}, {"b", drop(2)}},
			"step 7: the pipeline left the trainer 1 of 4 experiences: a dropped 1, b dropped 2"},
		{[]Operator{{"all", drop(4)}, {"none", drop(0)}}, "step 7: the pipeline left the trainer 0 of 4 experiences: all dropped 4"},
	} {
		said := ""
		p := Pipeline{Operators: c.ops, Say: func(s string) { said += s }}
		var in []trinity.Group
		for range 4 {
			in = append(in, trinity.Group{{ID: trinity.ExperienceID{Step: 7}}})
		}
		if _, _, err := p.Process(t.Context(), 7, in); err != nil || said != c.want {
			t.Errorf("said %q, %v; want %q", said, err, c.want)
		}
	}
	p := Pipeline{Say: func(s string) { t.Errorf("an empty step logs %s", s) }}
	if _, _, err := p.Process(t.Context(), 7, nil); err != nil {
		t.Error(err)
	}
}

func TestProcessAppliesThePartsInOrder(t *testing.T) {
	for _, c := range []struct {
		name    string
		p       Pipeline
		groups  int
		metrics trinity.Metrics
	}{
		{"nothing to do", Pipeline{}, 3, trinity.Metrics{"experience_count": 4}},
		{"an operator", Pipeline{Operators: []Operator{{"first", part(first)}}}, 1,
			trinity.Metrics{"experience_count": 2, "filtered_count": 2, "reward_diff/mean": 1}},
		{"an advantage", Pipeline{Advantage: part(first)}, 1,
			trinity.Metrics{"experience_count": 2, "filtered_count": 2, "reward_diff/mean": 1}},
		{"an empty group is dropped", Pipeline{Operators: []Operator{{"empty", part(empty)}}}, 3,
			trinity.Metrics{"experience_count": 4, "filtered_count": 0, "reward_diff/mean": 2}},
		{"counts add up, other metrics keep the last value", Pipeline{Operators: []Operator{{"empty", part(empty)},
			{"first", part(first)}}, Advantage: part(first)}, 1,
			trinity.Metrics{"experience_count": 2, "filtered_count": 2, "reward_diff/mean": 1}},
	} {
		c.p.Say = func(string) {}
		groups, metrics, err := c.p.Process(t.Context(), 7, three())
		metrics = untimed(t, metrics)
		if err != nil || len(groups) != c.groups || !maps.Equal(metrics, c.metrics) {
			t.Errorf("%s: got %d groups, %v, %v; want %d, %v", c.name, len(groups), metrics, err, c.groups, c.metrics)
		}
	}
}

func TestCopiesAreKept(t *testing.T) {
	input, output := filepath.Join(t.TempDir(), "input.jsonl"), filepath.Join(t.TempDir(), "output.jsonl")
	p := Pipeline{Input: open(t, input), Output: open(t, output), Operators: []Operator{{"first", part(first)}}, Say: func(string) {}}
	for step := range int64(2) {
		if _, _, err := p.Process(t.Context(), step, three()); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{input: 8, output: 4} {
		if got := strings.Count(readSteps(t, path), "\n"); got != want {
			t.Errorf("%s has %d lines, want %d", filepath.Base(path), got, want)
		}
	}
	p = Pipeline{Output: open(t, output)}
	if err := os.RemoveAll(output); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.Process(t.Context(), 7, three()); err == nil || !strings.Contains(err.Error(), "output_save_path") {
		t.Errorf("got %v, want an error that names the key", err)
	}
}

func open(t *testing.T, path string) *archive.Writer {
	t.Helper()
	w, err := archive.New(path, "")
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// readSteps returns the contents of all files of an archive.
func readSteps(t *testing.T, path string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(path, "step-*"))
	if err != nil {
		t.Fatal(err)
	}
	all := ""
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all += string(data)
	}
	return all
}

// A killed run has written a step. The resumed run explores the step again, and no experience
// remains. Then the copy no longer has the step.
func TestCopyForgetsEmptiedSteps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "output.jsonl")
	none := part(func([]trinity.Group) ([]trinity.Group, trinity.Metrics, error) { return nil, nil, nil })
	for _, life := range []struct {
		first, last int64
		ops         []Operator
	}{{1, 3, nil}, {3, 3, []Operator{{"none", none}}}, {4, 4, nil}} {
		p := Pipeline{Output: open(t, path), Operators: life.ops, Say: func(string) {}}
		for step := life.first; step <= life.last; step++ {
			if _, _, err := p.Process(t.Context(), step, []trinity.Group{{{ID: trinity.ExperienceID{Step: step}}}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	data := readSteps(t, path)
	if got := strings.Count(data, "\n"); got != 3 || strings.Contains(data, `"step":3`) {
		t.Errorf("the copy is %s, want steps 1, 2 and 4", data)
	}
}

func TestErrorNamesThePart(t *testing.T) {
	fail := part(func([]trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
		return nil, nil, errors.New("no such key")
	})
	for want, p := range map[string]Pipeline{
		"operator 1, fail: no such key":      {Operators: []Operator{{"first", part(first)}, {"fail", fail}}},
		"operator 0, advantage: no such key": {Advantage: fail},
	} {
		if _, _, err := p.Process(t.Context(), 7, three()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
