package service

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	_ "github.com/trinity-go/trinity/engine/cpu"
	"github.com/trinity-go/trinity/registry"
)

const tiny = "../../../model/testdata/tiny/llama"

// lone is an engine that shares no base.
type lone struct{ engine.TrainerOpener }

func opened(t *testing.T, shares bool) (*adapters, []engine.MemoryPart) {
	t.Helper()
	opener, err := registry.Trainers.Build("cpu")
	if err != nil {
		t.Fatal(err)
	}
	if !shares {
		opener = lone{opener}
	}
	a, plan, err := newAdapters(t.Context(), opener, engine.TrainerSpec{ModelPath: tiny, Train: true, MicroTokens: 64, MaxModelLen: 48})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.close(); err != nil {
			t.Error(err)
		}
	})
	return a, plan
}

// pretend makes so many bytes free.
func pretend(t *testing.T, bytes int64) {
	before := available
	available = func() int64 { return bytes }
	t.Cleanup(func() { available = before })
}

func rank(n int) *engine.LoRASpec {
	return &engine.LoRASpec{LoraRank: n, LoraAlpha: 8, TargetModules: engine.Names{"all-linear"}}
}

func TestModelsThatDoNotFitAreRefused(t *testing.T) {
	for name, shares := range map[string]bool{"one base": true, "engines that share nothing": false} {
		t.Run(name, func(t *testing.T) {
			a, _ := opened(t, shares)
			plan, err := a.plan(rank(4))
			if err != nil {
				t.Fatal(err)
			}
			need := int64(0)
			for _, p := range plan {
				need += p.Bytes
			}
			for _, c := range []struct {
				free int64
				fits bool
			}{{need, true}, {need / 2, false}, {0, true}} { // 0 is unknown
				pretend(t, c.free)
				e, err := a.open(t.Context(), rank(4), 1)
				switch {
				case c.fits && err != nil:
					t.Errorf("%d bytes are free, and %d needed: %v", c.free, need, err)
				case !c.fits && (err == nil || !strings.Contains(err.Error(), "a model of rank 4 needs about ") ||
					errors.As(err, new(*trinity.EngineError))):
					t.Errorf("%d bytes are free, and %d needed: %v", c.free, need, err)
				case e != nil:
					if err := e.Close(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

func TestABaseThatDoesNotFitIsRefused(t *testing.T) {
	opener, err := registry.Trainers.Build("cpu")
	if err != nil {
		t.Fatal(err)
	}
	pretend(t, 1000)
	_, _, err = newAdapters(t.Context(), opener, engine.TrainerSpec{ModelPath: tiny, Train: true, MicroTokens: 64, MaxModelLen: 48})
	if err == nil || !strings.Contains(err.Error(), "1.0 KiB are free: lower --max-model-len") {
		t.Error(err)
	}
}

// Models of one base take what a tenant takes; the others take all.
func TestWhatAModelTakesIsSaid(t *testing.T) {
	for _, shares := range []bool{true, false} {
		a, plan := opened(t, shares)
		var lines []string
		if err := a.describe("tiny", plan, func(line string) { lines = append(lines, line) }); err != nil {
			t.Fatal(err)
		}
		last := lines[len(lines)-1]
		if !strings.HasPrefix(last, "memory of tiny: each model of rank 32, ") || !strings.HasSuffix(last, " KiB of this machine") {
			t.Error(last)
		}
		base := slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "memory of tiny: base weights, ") })
		if base != shares {
			t.Errorf("shares %t: %q", shares, lines)
		}
	}
}
