package checkpoint

import (
	"testing"

	"github.com/trinity-go/trinity/internal/config"
)

// A served adapter has its own name, and not that of its base model.
func TestNameOfAServedModel(t *testing.T) {
	for _, c := range []struct{ model, adapter, want string }{
		{"/models/Qwen3-0.6B", "", "Qwen3-0.6B"},
		{"/models/Qwen3-0.6B", "/mine/polite", "polite"},
		{"/models/Qwen3-0.6B", "/runs/a/global_step_40/actor/lora_adapter", "global_step_40"},
		{"/runs/a/global_step_40/actor/huggingface", "", "global_step_40"},
	} {
		m := &config.Model{ModelPath: c.model}
		if c.adapter != "" {
			m.LoraConfigs = make([]config.Lora, 1)
			m.LoraConfigs[0].Path = c.adapter
		}
		if got := ServedName(m); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
