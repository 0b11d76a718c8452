package model

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// moe is a change of llamaText to a small qwen3_moe model, with keys over its own.
func moe(keys string) string {
	text := `{"model_type":"qwen3_moe","num_key_value_heads":2,"num_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":24`
	if keys != "" {
		text += "," + keys
	}
	return text + "}"
}

func TestConfigDescribesItsMixture(t *testing.T) {
	all := Mixture{Experts: 4, PerToken: 2, Size: 24, Layers: []bool{true, true}}
	with := func(change func(m *Mixture)) *Mixture {
		m := all
		change(&m)
		return &m
	}
	for keys, want := range map[string]*Mixture{
		"":                           &all,
		`"norm_topk_prob":true`:      with(func(m *Mixture) { m.Normalise = true }),
		`"mlp_only_layers":[1]`:      with(func(m *Mixture) { m.Layers = []bool{true, false} }),
		`"mlp_only_layers":null`:     &all,
		`"decoder_sparse_step":2`:    with(func(m *Mixture) { m.Layers = []bool{false, true} }),
		`"decoder_sparse_step":3`:    nil,
		`"num_experts":0`:            nil,
		`"mlp_only_layers":[0,1]`:    nil,
		`"num_local_experts":4`:      &all,
		`"router_aux_loss_coef":0.5`: &all, // only with output_router_logits
		`"output_router_logits":true,"router_aux_loss_coef":0.5`: with(func(m *Mixture) { m.AuxLoss = 0.5 }),
		`"output_router_logits":true`:                            with(func(m *Mixture) { m.AuxLoss = 0.001 }),
		`"num_experts":null,"num_local_experts":4`:               &all,
	} {
		c, err := ParseConfig(changed(t, moe(keys)))
		if err != nil {
			t.Errorf("%s: %v", keys, err)
		} else if !reflect.DeepEqual(c.Mixture, want) {
			t.Errorf("%s: %+v, want %+v", keys, c.Mixture, want)
		}
	}
}

func TestMixtureRefusesBadValues(t *testing.T) {
	for keys, want := range map[string]string{
		`"num_local_experts":8`:                                 "num_experts is 4 and num_local_experts 8",
		`"num_experts":null`:                                    "num_experts is missing",
		`"num_experts":-1`:                                      "num_experts is -1",
		`"num_experts":1000000`:                                 "num_experts is 1000000; expected 1 to 32768",
		`"num_experts_per_tok":5`:                               "num_experts_per_tok is 5; expected 1 to num_experts 4",
		`"num_experts_per_tok":null`:                            "num_experts_per_tok is 0",
		`"moe_intermediate_size":-2`:                            "moe_intermediate_size is -2",
		`"decoder_sparse_step":0`:                               "decoder_sparse_step is 0",
		`"mlp_only_layers":["a"]`:                               `mlp_only_layers is ["a"]`,
		`"mlp_only_layers":3`:                                   "mlp_only_layers is 3",
		`"output_router_logits":true,"router_aux_loss_coef":-1`: "router_aux_loss_coef is -1",
	} {
		if _, err := ParseConfig(changed(t, moe(keys))); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line about %q", keys, err, want)
		}
	}
}

// transformers can write the experts of a layer as one tensor.
func TestFusedExpertsAreTheSameTensors(t *testing.T) {
	apart, fused := open(t, "testdata/tiny/qwen3_moe"), open(t, "testdata/tiny/qwen3_moe_fused")
	for _, name := range apart.Names() {
		if got, want := values(t, fused, name), values(t, apart, name); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	tensor, err := fused.Tensor("model.layers.1.mlp.experts.2.up_proj.weight")
	if err != nil {
		t.Fatal(err)
	}
	part := make([]float32, 2*8)
	if err := tensor.Rows(part, 3, 5); err != nil || !reflect.DeepEqual(part, values(t, apart, tensor.Name)[3*8:5*8]) {
		t.Errorf("rows 3 and 4 read alone differ: %v", err)
	}
	dir := t.TempDir()
	weights, _ := os.ReadFile("testdata/tiny/qwen3_moe_fused/model.safetensors")
	config, _ := os.ReadFile("testdata/tiny/qwen3_moe_fused/config.json")
	config = []byte(strings.Replace(string(config), `"moe_intermediate_size": 5`, `"moe_intermediate_size": 6`, 1))
	for name, text := range map[string][]byte{"model.safetensors": weights, "config.json": config} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "gate_up_proj has shape [4 10 8]; the config demands [4 12 8]") {
		t.Errorf("error is %v", err)
	}
}

func TestParametersCountExperts(t *testing.T) {
	c := open(t, "testdata/tiny/qwen3_moe").Config
	attention := 8*(12+6+6+12) + 2*6 + 2*8
	router, expert, dense := 4*8, 3*5*8, 3*12*8
	other := 2*10*8 + 8
	if got, want := c.Parameters(), int64(other+2*attention+dense+router+4*expert); got != want {
		t.Errorf("%d parameters, want %d", got, want)
	}
	if got, want := c.ActiveParameters(), int64(other+2*attention+dense+router+2*expert); got != want {
		t.Errorf("%d active parameters, want %d", got, want)
	}
}

func TestAdaptersLeaveExpertsAlone(t *testing.T) {
	c := open(t, "testdata/tiny/qwen3_moe").Config
	specs, err := (&LoRA{Rank: 1, Alpha: 1, TargetModules: []string{AllLinear}}).Tensors(c)
	if err != nil {
		t.Fatal(err)
	}
	if len(specs) != 2*(4+4) {
		t.Errorf("%d tensors for the four maps of attention in two layers", len(specs))
	}
	for _, target := range []string{"up_proj", "mlp.gate", "model.layers.0.mlp.down_proj"} {
		_, err = (&LoRA{Rank: 1, Alpha: 1, TargetModules: []string{"q_proj", target}}).Tensors(c)
		if err == nil || !strings.Contains(err.Error(), `"`+target+`" names experts or routers`) ||
			!strings.HasSuffix(err.Error(), "q_proj, k_proj, v_proj, o_proj, lm_head; target_parameters adapts experts: "+ofExperts) {
			t.Errorf("error is %v", err)
		}
	}
}

func TestGGUFRefusesFamilies(t *testing.T) {
	const mixture = "mixture of experts, which GGUF files do not support here"
	for name, want := range map[string]string{
		"qwen3moe": mixture, "qwen3_moe": mixture, "lfm2": `"lfm2" models are not read from GGUF files`, "olmo3": "do not say enough of",
	} {
		file := []byte("GGUF")
		number := func(n uint64, size int) {
			file = append(file, binary.LittleEndian.AppendUint64(nil, n)[:size]...)
		}
		text := func(s string) { number(uint64(len(s)), 8); file = append(file, s...) }
		number(3, 4)
		number(0, 8) // tensors
		number(1, 8) // metadata
		text("general.architecture")
		number(8, 4) // a string
		text(name)
		path := filepath.Join(t.TempDir(), "x.gguf")
		if err := os.WriteFile(path, file, 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
}
