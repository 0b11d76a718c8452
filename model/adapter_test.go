package model

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/model/safetensors"
)

func openAdapter(t *testing.T, dir string, cfg *Config) *Adapter {
	t.Helper()
	a, err := OpenAdapter(dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func adapterValues(t *testing.T, a *Adapter, name string) []float32 {
	t.Helper()
	tensor, err := a.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	v := make([]float32, tensor.Len())
	if err := tensor.Float32(v); err != nil {
		t.Fatal(err)
	}
	return v
}

// W + Scale·B·A of an adapter that PEFT saved equals the weight that PEFT merges.
func TestAdapterOfPEFTGivesItsMergedWeights(t *testing.T) {
	base := open(t, "testdata/tiny/llama")
	a := openAdapter(t, "testdata/adapter", base.Config)
	if a.Rank != 2 || a.Alpha != 3 || !a.RSLoRA || a.BaseModel != "tiny/llama" || len(a.Names()) != 2*7*2 {
		t.Errorf("adapter %+v with %d tensors", a.LoRA, len(a.Names()))
	}
	const module = "model.layers.1.mlp.down_proj"
	w, down, up := values(t, base, module+".weight"), adapterValues(t, a, LoRATensor(module, "A")),
		adapterValues(t, a, LoRATensor(module, "B"))
	f, err := safetensors.Open("testdata/adapter/merged.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	merged, _ := f.Tensor(module + ".weight")
	want := make([]float32, merged.Len())
	if err := merged.Range(want, 0); err != nil {
		t.Fatal(err)
	}
	const in = 12
	for i := range want {
		row, column := i/in, i%in
		got := float64(w[i])
		for r := range a.Rank {
			got += a.Scale() * float64(up[row*a.Rank+r]) * float64(down[r*in+column])
		}
		if math.Abs(got-float64(want[i])) > 1e-5 {
			t.Fatalf("merged weight %d is %v, want %v", i, got, want[i])
		}
	}
}

func TestAdapterIsWrittenAsPEFTWritesIt(t *testing.T) {
	cfg := open(t, "testdata/tiny/llama").Config
	a := openAdapter(t, "testdata/adapter", cfg)
	dir := filepath.Join(t.TempDir(), "copy")
	if err := WriteAdapter(dir, cfg, &a.LoRA, a); err != nil {
		t.Fatal(err)
	}
	got, _ := os.ReadFile(filepath.Join(dir, adapterWeightsName))
	want, _ := os.ReadFile(filepath.Join("testdata/adapter", adapterWeightsName))
	if !reflect.DeepEqual(got, want) {
		t.Error("adapter_model.safetensors differs from PEFT's")
	}
	if again := openAdapter(t, dir, cfg); !reflect.DeepEqual(again.LoRA, a.LoRA) {
		t.Errorf("%+v, want %+v", again.LoRA, a.LoRA)
	}
	wrong := a.LoRA
	wrong.TargetModules = []string{"q_proj"}
	if err := WriteAdapter(dir, cfg, &wrong, a); err == nil || !strings.Contains(err.Error(), "LoRA adapter of this config does not have") {
		t.Errorf("too many tensors: %v", err)
	}
}

func TestLoRATargetsMatchModules(t *testing.T) {
	cfg := open(t, "testdata/tiny/llama").Config
	for _, c := range []struct {
		targets []string
		tensors int
		want    string
	}{
		{[]string{AllLinear}, 28, ""},
		{[]string{"q_proj", "v_proj"}, 8, ""},
		{[]string{"self_attn.q_proj"}, 4, ""},
		{[]string{"model.layers.1.mlp.up_proj"}, 2, ""},
		{[]string{"proj"}, 0, `no linear map is called "proj"; known are all-linear or one or more of q_proj`},
		{[]string{"q_proj", "lm_head"}, 6, ""},
		{[]string{AllLinear, "lm_head"}, 30, ""},
		{[]string{"lm_head"}, 2, ""},
		{[]string{"head"}, 0, `no linear map is called "head"; known are all-linear or one or more of q_proj, k_proj, ` +
			`v_proj, o_proj, gate_proj, up_proj, down_proj, lm_head`},
		{nil, 0, "at least one module"},
	} {
		specs, err := (&LoRA{Rank: 3, Alpha: 6, TargetModules: c.targets}).Tensors(cfg)
		if len(specs) != c.tensors || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %d tensors, %v", c.targets, len(specs), err)
		}
	}
	if s := (&LoRA{Rank: 4, Alpha: 6}).Scale(); s != 1.5 {
		t.Errorf("scale %v, want 1.5", s)
	}
	if s := (&LoRA{Rank: 4, Alpha: 6, RSLoRA: true}).Scale(); s != 3 {
		t.Errorf("rank-stabilised scale %v, want 3", s)
	}
}

// PEFT saves the frozen weight of an adapted head, too. Files of this package leave it out, and list the
// names that all-linear means beside the head, because PEFT knows it by itself only.
func TestAdapterOfTheHead(t *testing.T) {
	cfg := open(t, "testdata/tiny/llama").Config
	a := openAdapter(t, "testdata/adapter_head", cfg)
	if !a.adaptsHead(cfg) || len(a.Names()) != 6 || !slices.Contains(a.Names(), "lm_head.lora_B.weight") {
		t.Errorf("tensors %v", a.Names())
	}
	if len(adapterValues(t, a, "lm_head.lora_A.weight")) != 3*8 || len(adapterValues(t, a, "lm_head.lora_B.weight")) != 10*3 {
		t.Error("an adapter of another shape")
	}
	dir := filepath.Join(t.TempDir(), "copy")
	lora := a.LoRA
	if err := WriteAdapter(dir, cfg, &lora, a); err != nil {
		t.Fatal(err)
	}
	if again := openAdapter(t, dir, cfg); !slices.Equal(again.Names(), a.Names()) || again.tensors[headBaseName].Name != "" {
		t.Errorf("written as %v", again.Names())
	}
	lora = LoRA{Rank: 1, Alpha: 1, TargetModules: []string{AllLinear, OutputHead}}
	source, err := lora.New(cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteAdapter(dir, cfg, &lora, source); err != nil {
		t.Fatal(err)
	}
	want := "[down_proj gate_proj k_proj lm_head o_proj q_proj up_proj v_proj]"
	if got := fmt.Sprint(readJSON(t, filepath.Join(dir, adapterConfigName))["target_modules"]); got != want {
		t.Errorf("target_modules %v, want %s", got, want)
	}
	excluded := LoRA{Rank: 1, Alpha: 1, TargetModules: []string{"q_proj", "lm_head"}, ExcludeModules: []string{"lm_head"}}
	if specs, err := excluded.Tensors(cfg); len(specs) != 4 || err != nil || excluded.adaptsHead(cfg) {
		t.Errorf("an excluded head: %d tensors, %v", len(specs), err)
	}
	critic, err := cfg.WithHead(TokenClassification)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (&LoRA{Rank: 1, Alpha: 1, TargetModules: []string{"lm_head"}}).Tensors(critic); err == nil ||
		!strings.Contains(err.Error(), `no linear map is called "lm_head"`) {
		t.Errorf("a critic: %v", err)
	}
}

func TestAdapterRefusesUnsupportedOptions(t *testing.T) {
	cfg := open(t, "testdata/tiny/llama").Config
	for change, want := range map[string]string{
		`{"peft_type":"IA3"}`:                 "peft_type",
		`{"use_dora":true}`:                   "use_dora is not supported",
		`{"bias":"all"}`:                      `bias is "all"`,
		`{"rank_pattern":{"q_proj":3}}`:       "rank_pattern",
		`{"modules_to_save":["lm_head"]}`:     "modules_to_save",
		`{"target_modules":"model.*q_proj"}`:  "target_modules is model.*q_proj",
		`{"r":3}`:                             "has shape [2 8]; the config demands [3 8]",
		`{"r":0}`:                             "r is 0",
		`{"target_modules":["q_proj","moe"]}`: `no linear map is called "moe"`,
		`{"target_modules":["q_proj"]}`:       "does not have",
		`{"exclude_modules":".*k_proj"}`:      "exclude_modules is .*k_proj",
		`{"exclude_modules":["k_proj"]}`:      "LoRA adapter of this config does not have",
		`{"exclude_modules":["proj", 1]}`:     "exclude_modules is [\"proj\",1]",
		`{"lora_alpha":"16"}`:                 "lora_alpha is \"16\"; expected a number",
		`{"target_modules":["q_proj","lm_head"],"ensure_weight_tying":true}`: "ensure_weight_tying is true with an adapter of lm_head",
	} {
		raw := readJSON(t, "testdata/adapter/adapter_config.json")
		if err := json.Unmarshal([]byte(change), &raw); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := writeJSON(filepath.Join(dir, adapterConfigName), raw); err != nil {
			t.Fatal(err)
		}
		weights, _ := os.ReadFile("testdata/adapter/adapter_model.safetensors")
		if err := os.WriteFile(filepath.Join(dir, adapterWeightsName), weights, 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenAdapter(dir, cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one about %q", change, err, want)
		}
	}
}

func TestExcludedModulesGetNoAdapter(t *testing.T) {
	cfg := open(t, "testdata/tiny/llama").Config
	for _, c := range []struct {
		exclude []string
		tensors int
		want    string
	}{
		{[]string{"k_proj", "self_attn.v_proj"}, 20, ""},
		{[]string{"model.layers.0.mlp.up_proj"}, 26, ""},
		{[]string{"proj", "lm_head"}, 28, ""}, // names that the model does not have, or not in all-linear
		{[]string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}, 0, "excludes every module of target_modules"},
	} {
		lora := LoRA{Rank: 3, Alpha: 6, TargetModules: []string{AllLinear}, ExcludeModules: c.exclude}
		specs, err := lora.Tensors(cfg)
		if len(specs) != c.tensors || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %d tensors, %v", c.exclude, len(specs), err)
		}
	}
	lora := LoRA{Rank: 1, Alpha: 1, TargetModules: []string{AllLinear}, ExcludeModules: []string{"k_proj", "head"}}
	if err := lora.CheckExcluded(cfg); err == nil || !strings.Contains(err.Error(), `exclude_modules: no linear map is called "head"`) {
		t.Errorf("error %v", err)
	}
	if text := fmt.Sprint(lora.json(CausalLM)["exclude_modules"]); text != "[k_proj head]" {
		t.Errorf("written as %s", text)
	}
}
