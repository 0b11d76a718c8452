package model

import (
	"strings"
	"testing"
)

// Types and numbers of layers that a family lacks are refused, also where nothing reads them.
func TestLayersThatAFamilyLacks(t *testing.T) {
	const usual = "full_attention or sliding_attention"
	lfm := func(was, is string) string { return strings.Replace(lfm2Config, was, is, 1) }
	with := func(change string) string { return string(changed(t, change)) }
	for _, c := range []struct{ text, want string }{
		{
			with(`{"model_type":"qwen3","num_key_value_heads":4,"layer_types":["banana","linear_attention"]}`),
			`layer_types[0] is "banana"; expected ` + usual,
		},
		{
			with(`{"model_type":"qwen3","num_key_value_heads":4,"layer_types":["full_attention","conv"]}`),
			`layer_types[1] is "conv"; expected ` + usual,
		},
		{with(`{"layer_types":["mamba","full_attention"]}`), `layer_types[0] is "mamba"; expected ` + usual},
		{with(`{"model_type":"gemma2","layer_types":["full_attention","x"]}`), `layer_types[1] is "x"; expected ` + usual},
		{with(`{"model_type":"qwen3_5_text","layer_types":["conv","full_attention"]}`), `expected full_attention or linear_attention`},
		{
			with(`{"model_type":"granitemoehybrid","layers_block_type":["conv","mamba"]}`),
			`layers_block_type[0] is "conv"; expected attention or`,
		},
		{lfm(`[2]`, `[7]`), "full_attn_idxs names layer 7; expected 0 to 3 (num_hidden_layers - 1)"},
		{lfm(`[2]`, `[-1]`), "full_attn_idxs names layer -1; expected 0 to 3"},
		{with(`{"model_type":"qwen3_moe","num_experts":2,"num_experts_per_tok":1,"moe_intermediate_size":8,"mlp_only_layers":[9,-1]}`),
			"mlp_only_layers names layer 9; expected 0 to 1"},
	} {
		if _, err := ParseConfig([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
	for _, good := range []string{
		with(`{"model_type":"qwen3_5_text","layer_types":["linear_attention","full_attention"]}`),
		with(`{"model_type":"lfm3","layer_types":["conv","sliding_attention"]}`),
		with(`{"model_type":"granitemoehybrid","num_local_experts":0,"layers_block_type":["attention","mamba"]}`),
		with(`{"model_type":"smollm3","num_key_value_heads":2,"num_hidden_layers":1,"no_rope_layers":[1]}`),
	} {
		if _, err := ParseConfig([]byte(good)); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}

// The models of text and images whose text part is opened are listed, with its families.
func TestFamiliesListComposites(t *testing.T) {
	parts := map[string]string{}
	for _, f := range Families() {
		parts[f.Name] = strings.Join(f.TextParts, " ")
	}
	if len(parts) != len(families)+len(composites) || parts["mistral3"] != "mistral ministral3" || parts["gemma3"] != "gemma3_text" {
		t.Errorf("families and text parts: %v", parts)
	}
	_, err := familyOf("banana")
	if err == nil || !strings.Contains(err.Error(), ", and the text parts of gemma3, mistral3, qwen3_5") {
		t.Error(err)
	}
	for name, c := range composites {
		for _, text := range c.texts {
			if families[text] == nil {
				t.Errorf("the text part of %s is a %s, which is unknown", name, text)
			}
		}
	}
}
