package cpu

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// withConfig is a directory with another config for the weights of a recorded model.
func withConfig(t *testing.T, model string, config any) Options {
	dir := t.TempDir()
	weights, err := os.ReadFile(filepath.Join("testdata", model, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"model.safetensors": weights, "config.json": text} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return Options{ModelPath: dir}
}

func TestRopeScalingsEqualTransformers(t *testing.T) {
	var want map[string]struct {
		Config  map[string]any
		Logprob [][]float64
	}
	readJSON(t, "testdata/rope_scalings.json.gz", &want)
	for _, name := range []string{"linear", "dynamic", "yarn"} {
		e := open(t, withConfig(t, "llama", want[name].Config))
		got, err := e.Forward(context.Background(), whole(sequences(t, false)), trinity.Streams{})
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range want[name].Logprob {
			if d := worst(got[i].Logprob, w); d > 1e-5 {
				t.Errorf("%s: sequence %d of %d tokens: logprob is %.2g nats off", name, i, len(w), d)
			}
		}
	}
}

// A longrope model trains sequences up to its original context, whose frequencies the engine has.
func TestLongRopeEndsAtTheOriginalContext(t *testing.T) {
	e := open(t, Options{ModelPath: tiny("phi3").ModelPath, MaxTokens: 512, ForwardOnly: true})
	sequence := func(tokens int) *trinity.Batch {
		return whole([]*trinity.Experience{allTrained(0, slices.Repeat([]int32{3}, tokens))})
	}
	if _, err := e.Forward(t.Context(), sequence(257), trinity.Streams{}); err != nil { // the last token is no input
		t.Error(err)
	}
	if _, err := e.Forward(t.Context(), sequence(258), trinity.Streams{}); err == nil || !strings.Contains(err.Error(), "beyond 256") {
		t.Errorf("258 tokens: %v", err)
	}
}

// Sequences over the model's length have frequencies of their own under dynamic scaling, and so
// share nothing with shorter ones.
func TestDynamicRopeSharesOnlyWithinOneLength(t *testing.T) {
	var recorded map[string]struct{ Config map[string]any }
	readJSON(t, "testdata/rope_scalings.json.gz", &recorded)
	e := open(t, withConfig(t, "llama", recorded["dynamic"].Config))
	prompt := sequences(t, false)[0].Tokens[:8]
	var batch []*trinity.Experience
	for i, n := range []int{4, 6, 20, 20, 30} { // the model's length is 16
		tokens := append([]int32(nil), prompt...)
		for j := range n {
			tokens = append(tokens, int32((7*i+3*j)%60+2))
		}
		batch = append(batch, allTrained(i, tokens))
	}
	_, want := e.gradientOf(t, nll{}, whole(batch))
	shared := len(e.passes.packing.tokens)
	e.passes.shareNothing = true
	_, got := e.gradientOf(t, nll{}, whole(batch))
	if saved := len(e.passes.packing.tokens) - shared; saved != 2*8 {
		t.Errorf("sharing saved %d rows, want the prompt of one short and of one long pair", saved)
	}
	if d := difference(got, want); d > 1e-6 {
		t.Errorf("gradients differ by %.2g relative", d)
	}
}
