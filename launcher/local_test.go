package launcher

import (
	"fmt"
	"testing"
)

// CUDA_VISIBLE_DEVICES says which GPUs there are. CUDA reads it up to a number that is none.
func TestVisibleGPUs(t *testing.T) {
	for visible, want := range map[string]string{
		"": "[]", "-1": "[]", "0": "[0]", "2, 0": "[2 0]", "1,-1,2": "[1]", "GPU-ab,GPU-cd": "[GPU-ab GPU-cd]",
	} {
		t.Setenv(visibleGPUs, visible)
		if got := fmt.Sprint(gpusHere()); got != want {
			t.Errorf("%q: %s, want %s", visible, got, want)
		}
	}
}
