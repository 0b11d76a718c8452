package model

import (
	"encoding/json"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
)

const llamaText = `{"model_type":"llama","hidden_size":256,"intermediate_size":64,"num_hidden_layers":2,` +
	`"num_attention_heads":4,"vocab_size":32}`

// changed returns llamaText with the keys of change added or replaced.
func changed(t *testing.T, change string) []byte {
	t.Helper()
	var raw map[string]any
	for _, text := range []string{llamaText, change} {
		if err := json.Unmarshal([]byte(text), &raw); err != nil {
			t.Fatal(err)
		}
	}
	text, _ := json.Marshal(raw)
	return text
}

func TestInverseFrequenciesEqualTransformers(t *testing.T) {
	text, err := os.ReadFile("testdata/rope.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Config    json.RawMessage
		SeqLen    int       `json:"seq_len"`
		InvFreq   []float64 `json:"inv_freq"`
		Attention float64
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		cfg, err := ParseConfig(c.Config)
		if err != nil {
			t.Fatal(err)
		}
		got, attention := cfg.InverseFrequencies(c.SeqLen)
		if math.Abs(attention-c.Attention) > 1e-12 || len(got) != len(c.InvFreq) {
			t.Errorf("%s: attention %v, want %v; %d frequencies, want %d", c.Config, attention, c.Attention, len(got), len(c.InvFreq))
			continue
		}
		for i, want := range c.InvFreq {
			if math.Abs(got[i]-want) > 2e-6*want { // the reference computes in float32
				t.Errorf("%s: frequency %d is %v, want %v", c.Config, i, got[i], want)
				break
			}
		}
	}
}

func TestMissingKeysHaveDefaults(t *testing.T) {
	c, err := ParseConfig([]byte(llamaText))
	if err != nil {
		t.Fatal(err)
	}
	c.Raw = nil
	want := &Config{
		Architecture: "llama", HiddenSize: 256, IntermediateSize: 64, NumLayers: 2, NumHeads: 4, NumKVHeads: 4, HeadDim: 64, VocabSize: 32,
		MaxPositions: 2048, RMSNormEps: 1e-6, RopeTheta: 10000, InitializerRange: 0.02,
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("%+v\nwant %+v", c, want)
	}
}

func TestSlidingWindowAppliesToItsLayers(t *testing.T) {
	for _, c := range []struct {
		change string
		want   []int // window of each layer
	}{
		{`{"model_type":"mistral"}`, []int{4096, 4096}},
		{`{"model_type":"mistral","sliding_window":null}`, []int{0, 0}},
		{`{"model_type":"mistral","sliding_window":7}`, []int{7, 7}},
		{`{"model_type":"qwen2","sliding_window":7}`, []int{0, 0}},
		{`{"model_type":"qwen2","sliding_window":7,"use_sliding_window":true}`, []int{0, 0}},
		{`{"model_type":"qwen2","sliding_window":7,"use_sliding_window":true,"max_window_layers":1}`, []int{0, 7}},
		{`{"model_type":"qwen3","sliding_window":7,"use_sliding_window":true,"layer_types":["sliding_attention","full_attention"]}`, []int{7, 0}},
		{`{"model_type":"qwen3","layer_types":["full_attention","full_attention"]}`, []int{0, 0}},
		{`{"sliding_window":7}`, []int{0, 0}},
	} {
		text := strings.Replace(string(changed(t, c.change)), "{", `{"num_key_value_heads":2,`, 1)
		cfg, err := ParseConfig([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", c.change, err)
			continue
		}
		if got := []int{cfg.Window(0), cfg.Window(1)}; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: windows %v, want %v", c.change, got, c.want)
		}
	}
}

// Rotary positions are left out of the layers that a config names, or of each fourth one.
func TestLayersWithoutRope(t *testing.T) {
	for keys, want := range map[string][]bool{
		``: {false, false, false, true, false}, `"no_rope_layer_interval":2,`: {false, true, false, true, false},
		`"no_rope_layers":[0,1,1,0,1,0],`: {true, false, false, true, false}, `"no_rope_layers":[1,1,1,1,1],`: nil,
		`"no_rope_layer_interval":6,`: nil,
	} {
		text := changed(t, `{`+keys+`"model_type":"smollm3","num_key_value_heads":2,"num_hidden_layers":5}`)
		c, err := ParseConfig(text)
		if err != nil {
			t.Errorf("%s: %v", keys, err)
			continue
		}
		if !reflect.DeepEqual(c.NoRope, want) || c.Rotates(3) != (want == nil || !want[3]) {
			t.Errorf("%s: layers without RoPE %v, want %v", keys, c.NoRope, want)
		}
		if c.RopeTheta != 2e6 || !c.TieEmbeddings || c.Foreign.Refuse() != nil {
			t.Errorf("%s: base %v, tied %t, %v", keys, c.RopeTheta, c.TieEmbeddings, c.Foreign.Refuse())
		}
		err = c.checkGGUF()
		const refusal = "RoPE in these layers (no_rope_layers)"
		if fits := keys == ``; fits != (err == nil) || err != nil && !strings.Contains(err.Error(), refusal) {
			t.Errorf("%s: GGUF: %v", keys, err)
		}
	}
}

func TestConfigRefusesUnsupportedOptions(t *testing.T) {
	for change, want := range map[string]string{
		`{"model_type":"mamba"}`:                                   `architecture "mamba" is unknown; known are `,
		`{"model_type":7}`:                                         "model_type",
		`{"attention_dropout":1.5}`:                                "attention_dropout is 1.5; expected a number of at least 0",
		`{"quantization_config":{"bits":4}}`:                       "quantization_config",
		`{"architectures":[null]}`:                                 "architectures is [null]; expected one of",
		`{"eos_token_id":[-1,4294967296]}`:                         "eos_token_id is [-1,4294967296]; expected token ids",
		`{"eos_token_id":{"a":1}}`:                                 `eos_token_id is {"a":1}; expected token ids`,
		`{"rope_scaling":[1]}`:                                     "rope_scaling is [1]; expected an object",
		`{"hidden_size":["` + strings.Repeat("long", 1000) + `"]}`: `lo…; expected an integer`,
		`{"architectures":["LlamaForQuestionAnswering"]}`: "expected one of LlamaForCausalLM, " +
			"LlamaForSequenceClassification, LlamaForTokenClassification",
		`{"architectures":["Qwen2ForSequenceClassification"]}`:                                "expected one of LlamaForCausalLM",
		`{"architectures":["LlamaForSequenceClassification"],"num_labels":0}`:                 "0 labels",
		`{"architectures":["LlamaForSequenceClassification"],"num_labels":"one"}`:             "num_labels",
		`{"architectures":["LlamaForTokenClassification"],"id2label":3}`:                      "id2label",
		`{"architectures":["LlamaForTokenClassification"],"token_classification_bias":"yes"}`: "token_classification_bias",
		`{"architectures":["LlamaForTokenClassification"],"id2label":{},"num_labels":4}`:      "0 labels",
		`{"architectures":["LlamaForSequenceClassification"],"num_labels":70000}`:             "70000 labels",
		`{"hidden_size":-1}`:   "hidden_size is -1",
		`{"hidden_size":null}`: "hidden_size is 0",
		`{"vocab_size":0,"rms_norm_eps":7}`: "vocab_size is 0; expected 1 to " +
			"16777216; rms_norm_eps is 7",
		`{"num_hidden_layers":1000000000}`:                                            "num_hidden_layers is 1000000000",
		`{"num_key_value_heads":3}`:                                                   "not a multiple",
		`{"head_dim":63}`:                                                             "even",
		`{"rms_norm_eps":0}`:                                                          "rms_norm_eps",
		`{"vocab_size":1.5}`:                                                          "vocab_size is 1.5; expected an integer",
		`{"tie_word_embeddings":"yes"}`:                                               "expected true or false",
		`{"rope_scaling":{"type":"linear"}}`:                                          "factor is 0",
		`{"rope_parameters":{"rope_type":"llama3","factor":8}}`:                       "low_freq_factor",
		`{"rope_scaling":{"type":"yarn","factor":2,"beta_fast":0.1}}`:                 "beta_fast",
		`{"rope_scaling":"linear"}`:                                                   "expected an object",
		`{"model_type":"qwen2"}`:                                                      "num_key_value_heads is missing",
		`{"model_type":"smollm3","num_key_value_heads":2,"no_rope_layers":[1]}`:       "no_rope_layers has 1 entries; expected 2",
		`{"model_type":"smollm3","num_key_value_heads":2,"no_rope_layers":[1,"x"]}`:   `no_rope_layers is [1,"x"]`,
		`{"model_type":"smollm3","num_key_value_heads":2,"no_rope_layer_interval":0}`: "no_rope_layer_interval is 0",
		`{"model_type":"mistral","attention_bias":true}`:                              "attention_bias is not an option",
		`{"model_type":"qwen3","num_key_value_heads":4,"use_sliding_window":true,` +
			`"layer_types":["full","full_attention"]}`: "layer_types[0]",
		`{"model_type":"qwen3","num_key_value_heads":4,` +
			`"use_sliding_window":true,"layer_types":["sliding_attention"]}`: "layer_types has 1 entries; expected 2",
	} {
		if _, err := ParseConfig(changed(t, change)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line about %q", change, err, want)
		}
	}
	for _, text := range []string{"", "[]", "null", "{", llamaText + "x"} {
		if _, err := ParseConfig([]byte(text)); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func TestEndTokensComeFromBothConfigs(t *testing.T) {
	c, err := ParseConfig(changed(t, `{"eos_token_id":2,"bos_token_id":-1}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.addGeneration([]byte(`{"eos_token_id":[5,2],"pad_token_id":0,"bos_token_id":1}`)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual([][]int32{c.BOS, c.EOS, c.PAD}, [][]int32{{1}, {5, 2}, {0}}) {
		t.Errorf("BOS %v, EOS %v, PAD %v", c.BOS, c.EOS, c.PAD)
	}
}

// A config made from fields reads back as the same config.
func TestSynthesisedConfigReadsBack(t *testing.T) {
	for _, change := range []string{
		`{}`, `{"attention_bias":true,"mlp_bias":true,"tie_word_embeddings":true,"eos_token_id":[1,2],"bos_token_id":3}`,
		`{"rope_scaling":{"type":"dynamic","factor":2}}`,
		`{"rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":512}}`,
		`{"rope_scaling":{"type":"yarn","factor":4,"mscale":0.7,"mscale_all_dim":1,"truncate":false}}`,
		`{"model_type":"mistral","num_key_value_heads":2,"sliding_window":9}`,
		`{"model_type":"mistral","num_key_value_heads":2,"sliding_window":null}`,
		`{"model_type":"qwen3","num_key_value_heads":2,"use_sliding_window":true,"max_window_layers":1}`,
		`{"model_type":"qwen2","num_key_value_heads":2}`,
		`{"model_type":"smollm3","num_key_value_heads":2,"no_rope_layer_interval":2}`,
		`{"model_type":"smollm3","num_key_value_heads":2,"no_rope_layers":[0,0]}`, `{"model_type":"smollm3","num_key_value_heads":2}`,
		`{"model_type":"gemma3_text","num_key_value_heads":2,"query_pre_attn_scalar":8,"sliding_window":9,"sliding_window_pattern":2}`,
		`{"model_type":"olmo3","rope_scaling":{"type":"yarn","factor":4,"attention_factor":1.2}}`,
		moe(""), moe(`"norm_topk_prob":true,"output_router_logits":true,"mlp_only_layers":[1]`), moe(`"num_experts":0`),
		moe(`"output_router_logits":true,"router_aux_loss_coef":2`),
	} {
		c, err := ParseConfig(changed(t, change))
		if err != nil {
			t.Fatal(err)
		}
		c.Raw = nil
		text, err := json.Marshal(c.json("float32"))
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseConfig(text)
		if err != nil {
			t.Fatal(err)
		}
		again.Raw = nil
		if !reflect.DeepEqual(again, c) {
			t.Errorf("%s: %+v\nwant %+v", change, again, c)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(llamaText))
	f.Add([]byte(`{"model_type":"qwen3_moe","num_local_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":8,` +
		`"mlp_only_layers":[0],"decoder_sparse_step":2}`))
	f.Add([]byte(`{"model_type":"qwen3","rope_parameters":{"rope_type":"yarn","factor":4},"layer_types":["full_attention"]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseConfig(text)
		if err != nil || c.NumLayers > 64 || c.HeadDim > 4096 {
			return
		}
		if invFreq, _ := c.InverseFrequencies(10000); len(invFreq) != c.HeadDim/2 {
			t.Fatalf("%d frequencies for head_dim %d", len(invFreq), c.HeadDim)
		}
		if n := c.Parameters(); n <= 0 || c.ActiveParameters() <= 0 || c.ActiveParameters() > n {
			t.Fatalf("%d parameters, %d active", n, c.ActiveParameters())
		}
		if _, err := json.Marshal(c.json("float32")); err != nil {
			t.Fatal(err)
		}
	})
}

// Values that no model has are refused with their key.
func TestConfigRefusesImpossibleValues(t *testing.T) {
	gemma := func(keys string) string { return `{"model_type":"gemma3_text",` + keys + `}` }
	yarn := func(keys string) string { return `{"rope_scaling":{"type":"yarn","factor":2,` + keys + `}}` }
	for _, c := range []struct{ change, want string }{
		{`{"layer_types":"full_attention"}`, `layer_types is "full_attention"; expected a list of names, one for each layer`},
		{`{"layer_types":["full_attention",3]}`, `layer_types is ["full_attention",3]; expected a list of names`},
		{`{"layer_types":["full_attention"]}`, "layer_types has 1 entries; expected 2 (num_hidden_layers)"},
		{`{"layers_block_type":[]}`, "layers_block_type has 0 entries; expected 2"},
		{`{"model_type":"mistral","sliding_window":0}`, "sliding_window is 0; expected a positive number, or null for none"},
		{`{"model_type":"olmo3","sliding_window_pattern":0}`, "sliding_window_pattern is 0; expected a positive number"},
		{gemma(`"rope_local_base_freq":0`), "rope_local_base_freq is 0; expected a number above 1"},
		{
			gemma(`"rope_parameters":{"full_attention":{},"sliding_attention":{"rope_theta":0}}`),
			"rope_parameters: sliding_attention: rope_theta is 0; expected a number above 1",
		},
		{gemma(`"query_pre_attn_scalar":1e-300`), "query_pre_attn_scalar is 1e-300; expected 1e-06 to 1e+06"},
		{yarn(`"mscale":-1,"mscale_all_dim":1`), "rope_scaling: mscale is -1; expected 0 to 1e+06"},
		{yarn(`"mscale":1,"mscale_all_dim":1e9`), "mscale_all_dim is 1e+09; expected 0 to 1e+06"},
		{yarn(`"attention_factor":0`), "attention_factor is 0; expected 1e-06 to 1e+06"},
		{
			`{"model_type":"granitemoehybrid","num_local_experts":-1}`,
			"num_local_experts is -1; expected a positive number, or 0 for none",
		},
	} {
		_, err := ParseConfig(changed(t, c.change))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line about %q", c.change, err, c.want)
		}
	}
}
