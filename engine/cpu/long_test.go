package cpu

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// randomOptions are of a random Llama with so many layers and positions.
func randomOptions(t testing.TB, layers, positions int) Options {
	t.Helper()
	return changedOptions(t, map[string]any{"num_hidden_layers": layers, "max_position_embeddings": positions})
}

// changedOptions are of random weights, for the configuration of testdata/llama with changes.
func changedOptions(t testing.TB, changes map[string]any) Options {
	t.Helper()
	text, err := os.ReadFile("testdata/llama/config.json")
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	maps.Copy(config, changes)
	if text, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o666); err != nil {
		t.Fatal(err)
	}
	return Options{ModelPath: dir, InitStyle: "fan_in", InitSeed: 1}
}

// longSequence is all trained, of random tokens.
func longSequence(vocabulary, length int) *trinity.Experience {
	tokens, random := make([]int32, length), uint64(length)
	for i := range tokens {
		random = mix(random)
		tokens[i] = int32(random % uint64(vocabulary))
	}
	return allTrained(0, tokens)
}

func TestMemoryOfTrainingIsLinearInTheLength(t *testing.T) {
	lengths := []int{512, 1024, 2048, 4096, 8192}
	if testing.Short() {
		lengths = lengths[:3]
	}
	var fixed, perToken [3]float64
	for i, length := range lengths {
		pool := kernel.NewPool(2)
		opts := randomOptions(t, 1, 8192)
		opts.Pool, opts.MaxTokens = pool, 16
		e := open(t, opts)
		e.passes.head.budget = 0 // which jumps to logits that are computed again
		x := longSequence(e.cfg.VocabSize, length)
		e.gradientOf(t, nll{}, whole([]*trinity.Experience{x}))
		// Scratch depends on how many tasks happen to run at once: what both cores borrow at most
		// bounds it.
		most := float64(2 * 4 * 2 * attentionOf(e.cfg, 0).BackwardScratch(length))
		bytes := [3]float64{float64(e.passes.backbone.work.arena.Bytes()), float64(e.passes.head.space.arena.Bytes()), most}
		scratch := float64(pool.ScratchBytes())
		pool.Close()
		t.Logf("%d tokens: activations %.0f, head %.0f, scratch %.0f of at most %.0f bytes", length, bytes[0], bytes[1], scratch, most)
		if scratch > most+(8<<20) {
			t.Errorf("%d tokens: scratch of %.0f bytes, bound %.0f", length, scratch, most)
		}
		for k := range bytes {
			switch i {
			case 0:
				fixed[k] = bytes[k]
			case 1:
				perToken[k] = (bytes[k] - fixed[k]) / float64(length-lengths[0])
				fixed[k] -= perToken[k] * float64(lengths[0])
			default:
				if linear := fixed[k] + perToken[k]*float64(length); bytes[k] > 1.3*linear {
					t.Errorf("%d tokens: memory %d is %.0f bytes; linear growth would be %.0f", length, k, bytes[k], linear)
				}
			}
		}
	}
}
