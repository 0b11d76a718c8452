package modelfile

import (
	"os"
	"testing"
)

// openSmolLM2 opens the real model, or skips.
func openSmolLM2(t *testing.T) *Model {
	t.Helper()
	path := os.Getenv("TRINITY_SMOLLM2_GGUF")
	if path == "" {
		t.Skip("TRINITY_SMOLLM2_GGUF does not name the SmolLM2-135M-Instruct GGUF file")
	}
	m, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func TestSmolLM2(t *testing.T) {
	m := openSmolLM2(t)
	if n := m.Config.Parameters(); n != 134_515_008 {
		t.Errorf("%d parameters, want 134,515,008", n)
	}
	for _, name := range m.Names() {
		tensor, err := m.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := tensor.Float32(make([]float32, tensor.Len())); err != nil {
			t.Fatal(err)
		}
	}
}
