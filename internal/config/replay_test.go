package config

import (
	"testing"
)

// Nobody sampled demonstrations, so their tokens have no experts.
func TestReplayOfDemonstrationsIsRefused(t *testing.T) {
	const on = "algorithm.enable_router_replay=true"
	for _, c := range []struct{ text, words string }{
		{offlineBase, "nobody sampled the rows of buffer.trainer_input.experience_buffer (schema sft); leave it out"},
		{mixedBase, "nobody sampled the rows of " + auxiliaryKey + ".sft_dataset (schema sft)"},
		{base + "data_processor:\n  experience_pipeline:\n    inputs: {shown: {path: p, schema_type: sft, batch_size: 1}}\n",
			"nobody sampled the rows of " + inputsKey + ".shown (schema sft)"},
	} {
		expectError(t, c.text, on, routerReplayKey, c.words, false)
	}
	mustParse(t, base, Options{Overrides: []string{on}})
	mustParse(t, base, Options{Overrides: []string{on, "mode=bench", "buffer.explorer_input.eval_tasksets=[{name: e, path: p}]"}})
}
