package checkpoint

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// Pending experiences come back exactly, including numbers that are not finite.
func TestPendingIsExact(t *testing.T) {
	path := filepath.Join(t.TempDir(), pendingFile)
	var exps []*trinity.Experience
	for run := range 3 {
		exps = append(exps, &trinity.Experience{
			ID: trinity.ExperienceID{Step: 1, Task: "a/1", Run: run}, Tokens: []int32{1, 2}, Mask: []bool{false, true}, PromptLen: 1,
			Logprobs: []float32{0, float32(math.Inf(-1))}, Advantages: []float32{0, float32(math.NaN())}, Info: map[string]any{"x": "y"},
			Metrics: map[string]float64{"acc": math.NaN(), "n": float64(run)}, Reward: trinity.Reward{Value: math.Inf(1), Valid: true},
		})
	}
	for n := range len(exps) {
		if err := writePending(path, []trinity.Group{exps[:1], exps[1 : n+1]}); err != nil {
			t.Fatal(err)
		}
		got, err := readPending(path)
		if err != nil || len(got) != 2 || len(got[0]) != 1 || len(got[1]) != n {
			t.Fatalf("read groups %v, %v; want one of 1 and one of %d experiences", got, err, n)
		}
		for i, e := range slices.Concat(got...) {
			if fmt.Sprintf("%+v", e) != fmt.Sprintf("%+v", exps[i]) {
				t.Errorf("got %+v, want %+v", e, exps[i])
			}
		}
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, broken := range [][]byte{whole[:len(whole)-1], append(whole, 5, 'T'), append(whole, 1, 'x'), whole[1:], nil} {
		if err := os.WriteFile(path, broken, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readPending(path); err == nil || !strings.Contains(err.Error(), path+": ") {
			t.Errorf("%d bytes: got %v, want an error that names the file", len(broken), err)
		}
	}
}
