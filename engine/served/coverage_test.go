package served_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/served"
	"github.com/trinity-go/trinity/internal/model/safetensors"
	"github.com/trinity-go/trinity/trinitytest/server"
	"github.com/trinity-go/trinity/weights"
)

// A server that the run has started proves by its digests that the first delivery replaces all that they
// cover: what it lacks has still the digests of a reset.
func TestFirstDeliveryReplacesAllTensors(t *testing.T) {
	const short = "model.layers.0.mlp.down_proj.weight"
	rounded := func(t *testing.T) string {
		return otherNumbers(t, func(x float32) float32 { return x }, safetensors.BF16)
	}
	other := func(t *testing.T) string {
		return otherNumbers(t, func(x float32) float32 { return x + 1 }, safetensors.F32)
	}
	base := otherNumbers(t, func(x float32) float32 { return x }, safetensors.F32)
	same := func(*testing.T) string { return base }
	for _, c := range []struct {
		name    string
		lie     server.Lie
		options server.Options
		dir     func(*testing.T) string
		version int64
		want    string
		covered float64
	}{
		{"honest", "", server.Options{}, same, 0, "", 1},
		{"matrices in another form", "", server.Options{CPU: true}, same, 0, "", 5. / 21},
		{"one short", server.OneShort, server.Options{}, same, 0, "the delivery has not replaced tensor " + short, 0},
		{"one short, of a resumed run", server.OneShort, server.Options{}, other, 7, "the delivery has not replaced tensor " + short, 0},
		{"does nothing", server.DoesNothing, server.Options{Fetches: true}, same, 0, "the delivery has not replaced tensor lm_head.weight", 0},
		{"keeps old weights", server.OldWeights, server.Options{}, same, 0, "the delivery has not replaced tensor lm_head.weight", 0},
		{"resets nothing", server.ResetsNone, server.Options{}, same, 0, "a reset of its weights has changed none of its 21 digests", 0},
		{"other numbers", "", server.Options{}, other, 0, "is not that of the model with which it was started", 0},
		{"other numbers of a later version", "", server.Options{}, other, 7, "", 1},
		{"rounded", "", server.Options{}, rounded, 0, "", 1},
		{"asleep", "", server.Options{Sleeps: true}, same, 0, "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.options.Model = base
			s := &starter{t: t, options: c.options}
			with := startsOf(s, 1)
			with.ModelPath = base
			if c.options.Sleeps {
				with.Start.Place.Beside = "trainer"
			}
			sampler := must(t, "vllm", with).(interface {
				weights.Provable
				weights.Sleeper
			})
			covered := 0.0
			sampler.Prove(engine.Proving{Alone: true, Digests: 1, Covered: func(share float64) { covered = share }})
			if err := sampler.Sleep(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.started("rollout-0", 1).fake.Tell(c.lie)
			err := sampler.LoadWeights(t.Context(), c.dir(t), c.version)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), "digests: ") ||
				!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "vLLM 0.33.0 at http://rollout-0: loading version ")) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if covered != c.covered {
				t.Errorf("the digests cover %v, want %v", covered, c.covered)
			}
			if c.want == "" { // the proof is given once
				if err := sampler.LoadWeights(t.Context(), base, 8); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A first delivery may fail after the reset: the next one is compared with what the server had before it.
func TestFirstDeliveryIsRepeated(t *testing.T) {
	s := &starter{t: t, options: server.Options{Model: tiny}}
	sampler := must(t, "vllm", startsOf(s, 1)).(weights.Provable)
	sampler.Prove(engine.Proving{Alone: true, Digests: 1, Covered: func(float64) {}})
	for _, lie := range []server.Lie{server.RefusesWeights, ""} {
		s.started("rollout-0", 1).fake.Tell(lie)
		if err := sampler.LoadWeights(t.Context(), tiny, 0); (err == nil) != (lie == "") {
			t.Errorf("%q: %v", lie, err)
		}
	}
}

// otherNumbers writes the tiny model with other numbers.
func otherNumbers(t *testing.T, change func(float32) float32, dtype safetensors.DType) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "version")
	if err := os.CopyFS(dir, os.DirFS(tiny)); err != nil {
		t.Fatal(err)
	}
	rewrite(t, dir, func(all []safetensors.Entry, numbers [][]float32) []safetensors.Entry {
		for i := range all {
			for j, x := range numbers[i] {
				numbers[i][j] = change(x)
			}
			all[i].DType, all[i].Write = dtype, func(w io.Writer) error { return safetensors.Encode(w, dtype, numbers[i]) }
		}
		return all
	})
	return dir
}

// A server that is started again has the digests of those that have the same version, or is left out.
func TestLaterReplicasAgree(t *testing.T) {
	for _, lie := range []server.Lie{"", server.OtherBit} {
		s := &starter{t: t, options: server.Options{Model: tiny}}
		var mu sync.Mutex
		said := ""
		with := startsOf(s, 2)
		with.Say = func(line string) {
			mu.Lock()
			defer mu.Unlock()
			said += line + "\n"
		}
		s.tells = func(start int) server.Lie {
			if start > 2 {
				return lie
			}
			return ""
		}
		sampler := served.Hasten(must(t, "vllm", with)).(weights.Provable)
		sampler.Prove(engine.Proving{Alone: true, Digests: 1, Covered: func(float64) {}})
		if err := sampler.LoadWeights(t.Context(), tiny, 0); err != nil {
			t.Fatal(err)
		}
		s.started("rollout-1", 1).close()
		again := s.started("rollout-1", 2)
		want := "vLLM 0.33.0 at http://rollout-1 is back"
		if lie != "" {
			want = "tensor model.layers.0.mlp.down_proj.weight of version 0 differs from that of vLLM 0.33.0 at http://rollout-0"
		}
		for {
			p := trinity.SamplingParams{N: 8, MaxTokens: 1} // one alone goes to the first server
			if _, err := sampler.(trinity.Sampler).Sample(t.Context(), trinity.Prompt{Tokens: []int32{3}}, p); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			found := strings.Contains(said, want) || strings.Contains(served.Why(sampler.(trinity.Sampler), 1), want)
			mu.Unlock()
			if found {
				break
			}
		}
		if n := again.fake.Asked(); lie != "" && n > 3 { // the questions of the look before
			t.Errorf("the server that differs was asked %d times", n)
		}
	}
}
