package selector

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// rows is a dataset whose pass rates rise with i modulo 4.
// dataset is a dataset in memory.
type dataset []map[string]any

func (d dataset) Len() int                          { return len(d) }
func (d dataset) Row(i int) (map[string]any, error) { return d[i], nil }

func rows(n int) dataset {
	r := make(dataset, n)
	for i := range r {
		r[i] = map[string]any{"i": int64(i), "rate": map[string]any{"weak": float64(i%4) / 4, "strong": int64(i % 2)}}
	}
	return r
}

func build(t *testing.T, name string, seed, n int) Selector {
	t.Helper()
	s, err := Selectors.Build(name, map[string]any{"seed": seed, "feature_keys": []string{"rate.weak", "rate.strong"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(rows(n)); err != nil {
		t.Fatal(err)
	}
	return s
}

func next(t *testing.T, s Selector, n int) []int {
	t.Helper()
	got, err := s.Next(n)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestSequentialBatchSpansEpochs(t *testing.T) {
	if got := next(t, build(t, "sequential", 0, 3), 7); !slices.Equal(got, []int{0, 1, 2, 0, 1, 2, 0}) {
		t.Errorf("got %v", got)
	}
}

func TestShuffleTakesEachRowOncePerEpoch(t *testing.T) {
	s := build(t, "shuffle", 42, 100)
	first, second := next(t, s, 100), next(t, s, 100)
	if slices.Equal(first, second) || slices.IsSorted(first) {
		t.Errorf("epochs %v and %v", first, second)
	}
	// The order of an epoch depends on seed + epoch alone.
	if other := next(t, build(t, "shuffle", 43, 100), 100); !slices.Equal(other, second) {
		t.Errorf("epoch 0 of seed 43 is %v, epoch 1 of seed 42 is %v", other, second)
	}
}

func TestRandomDrawsNoRowTwiceInABatch(t *testing.T) {
	s := build(t, "random", 3, 50)
	seen := map[int]int{}
	for range 200 {
		batch := next(t, s, 20)
		for _, row := range batch {
			seen[row]++
		}
		slices.Sort(batch)
		if len(slices.Compact(batch)) != 20 {
			t.Fatalf("a batch repeats rows: %v", batch)
		}
	}
	for row := range 50 { // mean 80, standard deviation 6.9
		if seen[row] < 45 || seen[row] > 115 {
			t.Errorf("row %d came %d times of about 80", row, seen[row])
		}
	}
}

func TestEasy2HardSortsByFallingPassRate(t *testing.T) {
	// Among rows with the same rate.weak, the later row comes first.
	want := []int{7, 3, 6, 2, 9, 5, 1, 8, 4, 0}
	if got := next(t, build(t, "offline_easy2hard", 0, 10), 10); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Further keys decide if the keys before them are equal. If all are equal, the later row comes
// first.
func TestEasy2HardSortsByAnyNumberOfKeys(t *testing.T) {
	data := dataset{{"a": 1, "b": 2, "c": "0.5"}, {"a": 1, "b": 2, "c": 1.5}, {"a": 1, "b": 3, "c": 0},
		{"a": 2, "b": 0, "c": 0}, {"a": 1, "b": 2, "c": 0.5}}
	for _, c := range []struct {
		keys []string
		want []int
	}{
		{[]string{"a"}, []int{3, 4, 2, 1, 0}},
		{[]string{"a", "b"}, []int{3, 2, 4, 1, 0}},
		{[]string{"a", "b", "c"}, []int{3, 2, 1, 4, 0}},
	} {
		s := &easy2hard{options: options{FeatureKeys: c.keys}}
		if err := s.Start(data); err != nil {
			t.Fatal(err)
		}
		if got := next(t, s, 5); !slices.Equal(got, c.want) {
			t.Errorf("by %v: %v, want %v", c.keys, got, c.want)
		}
	}
}

func TestSelectorsCheckTheirInput(t *testing.T) {
	small := build(t, "shuffle", 1, 5)
	state, _ := small.State()
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"other dataset", build(t, "shuffle", 1, 6).Restore(state), "dataset had 5 rows, this one has 6"},
		{"negative count", build(t, "sequential", 1, 6).Restore(json.RawMessage(`{"rows":6,"drawn":-1}`)), "impossible"},
		{"no keys", (&easy2hard{}).Start(rows(3)), "feature_keys"},
		{"missing key", (&easy2hard{options: options{FeatureKeys: []string{"rate.middle"}}}).Start(rows(3)), `no "rate.middle"`},
		{"no number", (&easy2hard{options: options{FeatureKeys: []string{"rate"}}}).Start(rows(3)), "want a number"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, c.err, c.want)
		}
	}
}
