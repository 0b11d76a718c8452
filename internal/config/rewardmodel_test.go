package config

import (
	"strings"
	"testing"
)

func TestRewardModelsAreTrainedAlone(t *testing.T) {
	const buffer = "buffer.trainer_input.experience_buffer"
	scoring := Options{Overrides: []string{"algorithm.algorithm_type=scoring", buffer + ".format.margin_key=margin"}}
	if s := mustParse(t, offlineBase, scoring).settled[0]; !s.Method.Scores || s.Method.Reference || s.Batch.PerRow != 2 {
		t.Errorf("%+v, %d experiences a row", s.Method, s.Batch.PerRow)
	}
	for _, c := range []struct{ algorithm, override, key, words string }{
		{"scoring", "model.lora_configs=[{lora_rank: 4}]", "model.lora_configs", "scoring trains all weights of a reward model"},
		{"scoring", evalBuffersKey + "={other: {path: o, schema_type: cpt}}", evalBuffersKey + ".other.schema_type",
			"and the run has none"},
		{"dpo", buffer + ".format.margin_key=m", buffer + ".format.margin_key", "dpo has no margins; remove it"},
		{"sft", evalBuffersKey + "={other: {path: o, format: {margin_key: m}}}", evalBuffersKey + ".other.format.margin_key",
			"sft has no margins"},
	} {
		_, err := parse(t, offlineBase, Options{Overrides: []string{"algorithm.algorithm_type=" + c.algorithm, c.override}})
		wantErrorAt(t, err, c.key, c.words)
	}
}

func TestNoPolicyBeginsWithARewardModel(t *testing.T) {
	const shared = "model: {model_path: m, max_model_len: 16}\nmode: train\n" +
		"buffer: {train_batch_size: 4, trainer_input: {experience_buffer: {path: p.jsonl}}}\nstages:\n"
	const reward = "- {stage_name: score, algorithm: {algorithm_type: scoring}}\n"
	const policy = "- {stage_name: learn, algorithm: {algorithm_type: sft}}\n"
	mustParse(t, shared+policy+reward)
	mustParse(t, shared+reward+"- {stage_name: again, algorithm: {algorithm_type: scoring}}\n")
	_, err := parse(t, shared+reward+policy)
	wantErrorAt(t, err, "stages.1", "would begin with the reward model of stage score as its policy")
}

// wantErrorAt asks for one line about a key.
func wantErrorAt(t *testing.T, err error, key, words string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), key+": ") || !strings.Contains(err.Error(), words) ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v, want one line at %s with %q", err, key, words)
	}
}
