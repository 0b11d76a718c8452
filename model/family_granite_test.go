package model

import (
	"strings"
	"testing"
)

const graniteConfig = `{"model_type":"granite","hidden_size":32,"intermediate_size":40,"num_hidden_layers":2,"num_attention_heads":4,
"num_key_value_heads":2,"vocab_size":64,"max_position_embeddings":64,"embedding_multiplier":12,"attention_multiplier":0.015625,
"residual_multiplier":0.22,"logits_scaling":8.0,"tie_word_embeddings":true}`

func TestGraniteConfig(t *testing.T) {
	c, err := ParseConfig([]byte(graniteConfig))
	if err != nil || c.Foreign != nil {
		t.Fatal(err, c.Foreign)
	}
	if c.EmbeddingScale != 12 || c.AttentionScale != 0.015625 || c.ResidualScale != 0.22 || c.LogitScale != 8 {
		t.Errorf("factors %v %v %v %v", c.EmbeddingScale, c.AttentionScale, c.ResidualScale, c.LogitScale)
	}
	plain, err := ParseConfig([]byte(strings.Replace(graniteConfig, `"attention_multiplier":0.015625,`, "", 1)))
	if err != nil || plain.AttentionScale != 1 {
		t.Errorf("without attention_multiplier scores have the factor %v, %v; transformers has 1", plain.AttentionScale, err)
	}
	for was, is := range map[string]string{`12`: `0`, `0.22`: `-1`, `8.0`: `0.0`, `0.015625`: `1e-40`, `:8.0`: `:1e300`} {
		refuses(t, graniteConfig, was, is, "expected 1e-06 to 1e+06")
	}
	dropped, err := ParseConfig([]byte(strings.Replace(graniteConfig, `{`, `{"attention_dropout":0.1,`, 1)))
	if err != nil || len(dropped.Notes()) != 1 || !strings.HasPrefix(dropped.Notes()[0], "attention_dropout 0.1 is left out") {
		t.Errorf("with attention_dropout: %v, %v", dropped, err)
	}
}

func TestGraniteGGUF(t *testing.T) {
	c, err := ParseConfig([]byte(graniteConfig))
	if err != nil {
		t.Fatal(err)
	}
	m, err := RandomInit(c, 1, styleHF)
	if err != nil {
		t.Fatal(err)
	}
	path := writeGGUF(t, m, m, "f32")
	for key, want := range map[string]any{
		"granite.embedding_scale": float32(12), "granite.attention.scale": float32(0.015625), "granite.residual_scale": float32(0.22),
		"granite.logit_scale": float32(8),
	} {
		if value, _ := openGGUFFile(t, path).Value(key); value != want {
			t.Errorf("%s is %v, want %v", key, value, want)
		}
	}
	sameModel(t, m, open(t, path))
	dir := t.TempDir()
	if err := WriteDir(dir, open(t, path).Config, m, "f32"); err != nil {
		t.Fatal(err)
	}
	sameModel(t, m, open(t, dir))
}

// Of Granite 4 the embedded engine computes the models without experts whose layers are all attention.
func TestGraniteHybridConfig(t *testing.T) {
	hybrid := func(keys string) []byte {
		keys = `"model_type":"granitemoehybrid","shared_intermediate_size":48,` + keys
		return []byte(strings.Replace(graniteConfig, `"model_type":"granite"`, keys, 1))
	}
	c, err := ParseConfig(hybrid(`"num_local_experts":0,"layer_types":["attention","attention"],"position_embedding_type":"nope"`))
	if err != nil || c.Foreign != nil || c.Rotates(0) || c.Rotates(1) || c.IntermediateSize != 48 {
		t.Fatalf("%v, %+v", err, c)
	}
	c, err = ParseConfig(hybrid(`"num_local_experts":0,"layer_types":["attention","attention"],"position_embedding_type":"rope"`))
	if err != nil || !c.Rotates(1) {
		t.Errorf("position_embedding_type rope: %v", err)
	}
	for keys, want := range map[string]string{
		`"num_local_experts":0,"layer_types":["attention","mamba"]`: "layers of type mamba",
		`"layer_types":["attention","attention"]`:                   "num_local_experts 8",
		`"num_local_experts":0`:                                     "layer_types",
	} {
		if c, err := ParseConfig(hybrid(keys)); err != nil || c.Foreign == nil || !strings.Contains(c.Foreign.Why, want) {
			t.Errorf("%s: %v, want a model that the embedded engine refuses for %q", keys, err, want)
		}
	}
}
