package config

import (
	"strings"
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
	const recorded = "buffer.trainer_input.experience_buffer"
	rollouts := strings.Replace(offlineBase, "algorithm_type: sft", "algorithm_type: grpo\n  enable_router_replay: true", 1)
	expectError(t, rollouts, recorded+"={storage_type: file, path: old.jsonl.gz}", recorded+".path", "JSON lines hold no experts", false)
	mustParse(t, rollouts, Options{Overrides: []string{recorded + "={storage_type: file, path: old.parquet}"}})
	mustParse(t, base, Options{Overrides: []string{on}})
	mustParse(t, base, Options{Overrides: []string{on, "mode=bench", "buffer.explorer_input.eval_tasksets=[{name: e, path: p}]"}})
}
