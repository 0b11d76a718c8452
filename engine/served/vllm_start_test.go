package served_test

import (
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/config"
)

// A server that the run starts takes adapters of rank 512 at most. One that runs already is asked.
func TestLargeAdapters(t *testing.T) {
	const key, started = "model.lora_configs.0.lora_rank", "explorer.rollout_model.base_urls=[]"
	for _, c := range []struct {
		set     []string
		refused bool
	}{
		{[]string{started, "model.lora_configs=[{lora_rank: 513}]"}, true},
		{[]string{started, "model.lora_configs=[{lora_rank: 512}]"}, false},
		{[]string{"model.lora_configs=[{lora_rank: 513}]"}, false},
	} {
		_, err := config.Parse("run.yaml", []byte(training), config.Options{Overrides: c.set})
		says := err != nil && strings.Contains(err.Error(), key) &&
			strings.Contains(err.Error(), "rank 513: vLLM takes adapters of rank 512 at most")
		if says != c.refused || err != nil && !c.refused {
			t.Errorf("%q: %v", c.set, err)
		}
	}
}
