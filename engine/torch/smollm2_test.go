package torch

import (
	"fmt"
	"os"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
)

// A real model of 30 layers, from its GGUF file, agrees with the embedded engine.
func TestSmolLM2AgreesWithTheEmbeddedEngine(t *testing.T) {
	path := os.Getenv("TRINITY_SMOLLM2_GGUF")
	if path == "" {
		t.Skip("TRINITY_SMOLLM2_GGUF does not name the model")
	}
	spec := engine.TrainerSpec{ModelPath: path, MicroTokens: 128, MaxModelLen: 64, Train: true}
	spec.Optimizer.Type = engine.SGD
	theirs, b := embedded(t, spec), randomBatch(49152)
	streams, err := theirs.Forward(t.Context(), b, trinity.Streams{Entropy: true, Discriminator: true})
	if err != nil {
		t.Fatal(err)
	}
	ref, _ := gradientOf(t, theirs, b, mixed{trinity.Streams{Entropy: true}}, false)
	for _, ranks := range []int{1, 2} {
		t.Run(fmt.Sprint(ranks, " ranks"), func(t *testing.T) {
			spec := spec
			spec.Place = here(t, ranks)
			ours := opened(t, realPlugin(t, nil), spec)
			got, err := ours.Forward(t.Context(), b, trinity.Streams{Entropy: true, Discriminator: true})
			if err != nil || apart(got, streams) > 1e-4 {
				t.Errorf("%v, streams are %.2g apart", err, apart(got, streams))
			}
			gradient, _ := gradientOf(t, ours, b, mixed{trinity.Streams{Entropy: true}}, false)
			compareGradients(t, gradient, ref, 6e-5, 1.5e-4) // docs/develop/worker.md says why these are not 1e-5
		})
	}
}
