package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// sweepOf returns twelve runs as trinity sweep makes them.
func sweepOf(varied ...string) (all []Kept) {
	for _, algorithm := range []string{"grpo", "maxrl", "cispo"} {
		for _, lr := range []float64{0.0002, 1e-5} {
			for seed := 1; seed <= 2; seed++ {
				all = append(all, Kept{
					Name: fmt.Sprintf("proj/own_algorithm_type_%s_lr_%g_seed%d", algorithm, lr, seed), Varied: varied, Settings: map[string]any{
						"algorithm.algorithm_type": algorithm, "algorithm.optimizer.lr": lr, "seed": seed, "name": algorithm,
						"algorithm.advantage_fn": algorithm, "checkpoint_root_dir": fmt.Sprint("/runs/", lr), "buffer.seed": 10 * seed,
					},
				})
			}
		}
	}
	return all
}

func TestNames(t *testing.T) {
	sweep := sweepOf("algorithm.algorithm_type", "algorithm.optimizer.lr", "seed")
	sameEnd := []Kept{
		{Name: "a", Varied: []string{"a.lr", "b.lr", "seed"}, Settings: map[string]any{"a.lr": 0.5, "b.lr": 100000, "seed": 1}},
		{Name: "b", Varied: []string{"a.lr", "b.lr", "seed"}, Settings: map[string]any{"a.lr": 0.25, "b.lr": 100000, "seed": 2}},
		{Name: "c", Varied: []string{"a.lr", "b.lr", "seed"}, Settings: map[string]any{"a.lr": 0.25, "b.lr": 1000, "seed": 1}},
	}
	own := func(names ...string) (all []Kept) {
		for i, name := range names {
			all = append(all, Kept{Name: name, Settings: map[string]any{"algorithm.optimizer.lr": i, "seed": i}})
		}
		return all
	}
	many := func() (all []Kept) { // differ in too many settings to be named after them
		for i := range 5 {
			name := strings.Repeat("a_very_long_name_of_a_run_", 3) + fmt.Sprint(i)
			all = append(all, Kept{Name: name, Settings: map[string]any{fmt.Sprintf("x.only%d", i): true}})
		}
		return all
	}
	defaulted := []Kept{
		{Name: "long_name_of_the_first_run_lr_1e-6", Settings: map[string]any{"algorithm.optimizer.lr": 0.5}},
		{Name: "long_name_of_the_other_run_without", Settings: map[string]any{}},
	}
	for _, test := range []struct {
		name string
		kept []Kept
		want []string
	}{
		{"a sweep", sweep, []string{
			"grpo · lr 2e-4 · seed 1", "grpo · lr 2e-4 · seed 2", "grpo · lr 1e-5 · seed 1", "grpo · lr 1e-5 · seed 2",
			"maxrl · lr 2e-4 · seed 1", "maxrl · lr 2e-4 · seed 2", "maxrl · lr 1e-5 · seed 1", "maxrl · lr 1e-5 · seed 2",
			"cispo · lr 2e-4 · seed 1", "cispo · lr 2e-4 · seed 2", "cispo · lr 1e-5 · seed 1", "cispo · lr 1e-5 · seed 2",
		}},
		{"a sweep of which no file tells", sweepOf()[:3], []string{"lr 2e-4 · seed 1", "lr 2e-4 · seed 2", "lr 1e-5 · seed 1"}},
		{"a part of a sweep", []Kept{sweep[0], sweep[4]}, []string{"grpo", "maxrl"}},
		{"seeds alone", sweep[:2], []string{"seed 1", "seed 2"}},
		{"keys with one end", sameEnd, []string{
			"a.lr 0.5 · b.lr 1e5 · seed 1", "a.lr 0.25 · b.lr 1e5 · seed 2", "a.lr 0.25 · b.lr 1e3 · seed 1",
		}},
		{"own names", own("p/sums/fast", "p/sums/slow"), []string{"fast", "slow"}},
		{"numbers in names", own("lr1e-5_seed0", "lr1e-6_seed0"), []string{"lr1e-5", "lr1e-6"}},
		{"a name that others begin with", own("p/run", "p/run_b"), []string{"run", "run_b"}},
		{"names of numbers", own("run-1", "run-2"), []string{"run-1", "run-2"}},
		{"one run", own("p/group/run_1"), []string{"run_1"}},
		{"too many settings", many(), []string{"0", "1", "2", "3", "4"}},
		{"a default", defaulted, []string{"lr 0.5", "lr 1e-6"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Name(test.kept).Labels
			if !slices.Equal(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
			if distinct(got) != len(got) {
				t.Errorf("two runs have one name: %q", got)
			}
		})
	}
	n := Name(sweep)
	if want := []string{"algorithm_type", "lr", "seed"}; !slices.Equal(n.Heads, want) {
		t.Errorf("heads %q, want %q", n.Heads, want)
	}
	if want := []string{"maxrl", "2e-4", "1"}; !slices.Equal(n.Values[4], want) {
		t.Errorf("values %q, want %q", n.Values[4], want)
	}
}

// Every two names that a fuzzer finds are told apart.
func FuzzNames(f *testing.F) {
	f.Add("a_seed1", "a_seed2", "1")
	f.Add("/", "//", "")
	f.Add("a-b", "a-", "NaN")
	f.Fuzz(func(t *testing.T, a, b, value string) {
		if a == b {
			return
		}
		for _, varied := range [][]string{nil, {"k"}} {
			n := Name([]Kept{
				{Name: a, Varied: varied, Settings: map[string]any{"k": value}}, {Name: b, Varied: varied, Settings: map[string]any{"k": "other"}},
			})
			if n.Labels[0] == n.Labels[1] {
				t.Errorf("%q and %q are both %q", a, b, n.Labels[0])
			}
		}
	})
}
