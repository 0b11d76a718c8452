package model

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
)

// Values that no model has are refused, whether a file has layer_types or not.
func TestBadValues(t *testing.T) {
	gemma := `{"model_type":"gemma3_text","hidden_size":64,"intermediate_size":96,"num_hidden_layers":2,"num_attention_heads":4,
		"num_key_value_heads":2,"head_dim":16,"vocab_size":32,"sliding_window":8}`
	lfm := strings.NewReplacer(`[2]`, `[1]`, `"num_hidden_layers":4`, `"num_hidden_layers":2`).Replace(lfm2Config)
	olmo := strings.Replace(gemma, "gemma3_text", "olmo3", 1)
	qwen := strings.Replace(gemma, `"gemma3_text"`, `"qwen3","use_sliding_window":true`, 1)
	for _, c := range []struct{ text, types, key, values string }{
		{gemma, "sliding_attention", "num_key_value_heads", "3 0 -1"},
		{gemma, "sliding_attention", "num_attention_heads", "0 -4 65537"},
		{gemma, "sliding_attention", "hidden_size", "0 -64 1000000000000"},
		{gemma, "sliding_attention", "head_dim", "31 0 -16"},
		{gemma, "sliding_attention", "vocab_size", "0 1000000000000"},
		{gemma, "sliding_attention", "rms_norm_eps", "-1 0 2"},
		{gemma, "sliding_attention", "rope_theta", "0 -1"},
		{olmo, "sliding_attention", "num_key_value_heads", "3 0"},
		{qwen, "sliding_attention", "hidden_size", "0 -64"},
		{lfm, "conv", "conv_L_cache", "0 17 5000 1000000000 -3"},
		{lfm, "conv", "norm_eps", "-1 0"},
		{lfm, "conv", "num_key_value_heads", "3 0"},
		{lfm, "conv", "head_dim", "31"},
		{lfm, "conv", "vocab_size", "1000000000000"},
	} {
		raw := map[string]any{}
		if err := json.Unmarshal([]byte(c.text), &raw); err != nil {
			t.Fatal(err)
		}
		for _, types := range []any{nil, []string{c.types, "full_attention"}} {
			raw["layer_types"] = types
			whole := maps.Clone(raw)
			text, _ := json.Marshal(whole)
			if _, err := ParseConfig(text); err != nil {
				t.Errorf("%s: %v", text, err)
			}
			for value := range strings.FieldsSeq(c.values) {
				whole[c.key] = json.Number(value)
				text, _ := json.Marshal(whole)
				if _, err := ParseConfig(text); err == nil || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s %s with layer_types %v: %v", c.key, value, types, err)
				}
			}
		}
	}
}
