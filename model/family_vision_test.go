package model

import "testing"

// The sizes of a model that reads images are those of its text part, wherever its files have them.
func TestModelsThatSeeImages(t *testing.T) {
	const text = `"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "max_position_embeddings": 2048`
	const rest = `"num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 320, "eos_token_id": 7`
	for _, c := range []struct {
		config string
		sees   bool
		vocab  int
	}{
		{`{"model_type": "qwen2_5_vl", "vision_config": {}, "text_config": {"model_type": "x", ` + text + `, ` + rest + `}}`, true, 320},
		{`{"model_type": "qwen3_vl", "vision_config": {"hidden_size": 9}, ` + text + `, ` + rest + `}`, true, 320},
		{`{"model_type": "smolvlm", "hidden_size": 9, "vision_config": {}, "text_config": {` + text + `, ` + rest + `}}`, true, 320},
		{`{"model_type": "llama", ` + text + `, ` + rest + `}`, false, 320},
	} {
		got, err := ParseConfig([]byte(c.config))
		if err != nil {
			t.Errorf("%s: %v", c.config, err)
			continue
		}
		if got.HiddenSize != 64 || got.VocabSize != c.vocab || got.MaxPositions != 2048 || (got.Vision() != nil) != c.sees ||
			(got.Foreign.Refuse() != nil) != c.sees {
			t.Errorf("%s: %+v", c.config, got)
		}
	}
	if _, err := ParseConfig([]byte(`{"model_type": "qwen3_vl", "vision_config": {}}`)); err == nil {
		t.Error("a config without sizes is read")
	}
}
