package model

import (
	"reflect"
	"strings"
	"testing"
)

const (
	smolVision = `"model_type":"smolvlm","image_token_id":90,"scale_factor":4,"tie_word_embeddings":true,"eos_token_id":7,
		"vision_config":{"hidden_size":24,"num_hidden_layers":2,"intermediate_size":40}`
	smolText = `"hidden_size":32,"num_hidden_layers":2,"num_attention_heads":2,"intermediate_size":48,"vocab_size":96,
		"architectures":["VLlama3ForCausalLM"],"model_type":"llama","eos_token_id":2,"tie_word_embeddings":false`
	qwenVision = `"model_type":"qwen2_5_vl","vision_config":{"depth":3,"hidden_size":16,"intermediate_size":24,"spatial_merge_size":3}`
)

// The sizes of the language model are in text_config, or in older files beside vision_config.
func TestConfigsOfModelsThatReadImages(t *testing.T) {
	older, _, _ := strings.Cut(smolText, `"arch`)
	whole := `{` + smolVision + `,"text_config":{` + smolText + `}}`
	for text, want := range map[string]Vision{
		whole: {Placeholder: 90, Layers: 2, Width: 24, MLP: 40, Patches: 16},
		`{` + qwenVision + `,"text_config":{` + smolText + `}}`: {Placeholder: 151655, Layers: 3, Width: 16, MLP: 24, Patches: 9},
		`{` + older + `"image_token_id":91,` + qwenVision + `}`: {Placeholder: 91, Layers: 3, Width: 16, MLP: 24, Patches: 9},
	} {
		c, err := ParseConfig([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		v := *c.Foreign.Vision
		v.Parameters, v.text = 0, ""
		if c.HiddenSize != 32 || c.NumLayers != 2 || c.VocabSize != 96 || c.HeadDim != 16 || v != want {
			t.Errorf("%s: %+v, vision %+v", text, c, c.Foreign.Vision)
		}
		if strings.Contains(text, "smolvlm") && (!c.TieEmbeddings || !reflect.DeepEqual(c.EOS, []int32{7})) {
			t.Errorf("what the whole model says counts: tied %v, EOS %v", c.TieEmbeddings, c.EOS)
		}
		if n := c.Foreign.Vision.Parameters; n == 0 || c.Parameters() <= n {
			t.Errorf("%s: %d parameters of %d read images", text, n, c.Parameters())
		}
	}
	for text, want := range map[string]string{
		`{"model_type":"smolvlm","text_config":{` + smolText + `}}`:      "vision_config is null; expected an object",
		strings.Replace(whole, `"hidden_size":24`, `"hidden_size":0`, 1): "vision_config: hidden_size is 0",
	} {
		if _, err := ParseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

// The layers of an adapter have the names of modules, whatever the files call them.
func TestAdaptersOfModelsThatReadImages(t *testing.T) {
	c, err := ParseConfig([]byte(`{` + qwenVision + `,"text_config":{` + smolText + `}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"model.layers.", "model.language_model.layers."} {
		c.Foreign.Tensors = []TensorSpec{
			{prefix + "0.self_attn.q_proj.weight", []int{32, 32}}, {prefix + "1.mlp.up_proj.weight", []int{48, 32}},
			{"model.visual.blocks.0.attn.proj.weight", []int{16, 16}}, {"visual.merger.mlp.0.weight", []int{5, 5}},
		}
		lora := LoRA{Rank: 2, Alpha: 2, TargetModules: []string{AllLinear}}
		specs, err := lora.Tensors(c)
		if err != nil || len(specs) != 4 || specs[0].Name != "model.language_model.layers.0.self_attn.q_proj.lora_A.weight" {
			t.Errorf("%s: %v, %v", prefix, specs, err)
		}
		if n := c.Foreign.Vision.count(c.Foreign.Tensors); n != 16*16+25 {
			t.Errorf("%s: %d parameters read images", prefix, n)
		}
	}
}
