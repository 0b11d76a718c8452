package model

import (
	"encoding/json"
	"fmt"
	"slices"
)

func (l *LoRA) json(head Head) map[string]any {
	raw := map[string]any{
		"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": nil, "inference_mode": true,
		"bias": "none", "fan_in_fan_out": false, "r": l.Rank, "lora_alpha": l.Alpha, "lora_dropout": l.Dropout,
		"use_rslora": l.RSLoRA, "target_modules": l.TargetModules, "modules_to_save": nil,
		"target_parameters": l.TargetParameters,
	}
	if l.BaseModel != "" {
		raw["base_model_name_or_path"] = l.BaseModel
	}
	if len(l.ExcludeModules) > 0 {
		raw["exclude_modules"] = l.ExcludeModules
	}
	if len(l.TargetModules) == 1 && l.TargetModules[0] == AllLinear {
		raw["target_modules"] = AllLinear
	}
	if l.Head {
		raw["modules_to_save"] = []string{headModule}
		raw["task_type"] = map[Head]string{SequenceClassification: "SEQ_CLS", TokenClassification: "TOKEN_CLS"}[head]
	}
	return raw
}

// headModule is the name of the classification head in modules_to_save.
const headModule = "score"

func readAdapterConfig(path string) (*LoRA, error) {
	text, err := readSmall(path)
	if err != nil {
		return nil, err
	}
	raw, err := decodeObject(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	o := &object{raw: raw}
	l := &LoRA{
		BaseModel: o.text("base_model_name_or_path", ""), Rank: o.integer("r", 8), Alpha: o.number("lora_alpha", 8),
		RSLoRA: o.flag("use_rslora", false), Dropout: o.number("lora_dropout", 0),
		TargetModules: o.targetModules(), ExcludeModules: o.modules("exclude_modules"), Head: o.savesHead(),
		TargetParameters: o.modules("target_parameters"),
	}
	o.refuseAdapter()
	if o.flag("ensure_weight_tying", false) && slices.Contains(l.TargetModules, OutputHead) {
		o.fail("ensure_weight_tying is true with an adapter of %s, which then adapts the embedding too; it is not supported", OutputHead)
	}
	if err := together(o.errs); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

func (o *object) targetModules() []string {
	if o.raw["target_modules"] == nil && o.raw["target_parameters"] != nil {
		return nil // an adapter of experts alone
	}
	switch v := o.raw["target_modules"].(type) {
	case string:
		if v == AllLinear {
			return []string{AllLinear}
		}
	case []any:
		var modules []string
		for _, item := range v {
			if s, ok := item.(string); ok && s != AllLinear {
				modules = append(modules, s)
			}
		}
		if len(modules) == len(v) {
			slices.Sort(modules)
			return slices.Compact(modules)
		}
	}
	o.fail("target_modules is %v; expected a list of module names or %q", o.raw["target_modules"], AllLinear)
	return nil
}

// modules returns a list of names; nil if there is none.
func (o *object) modules(key string) []string {
	if o.raw[key] == nil {
		return nil
	}
	var modules []string
	items, ok := o.raw[key].([]any)
	for _, item := range items {
		s, isText := item.(string)
		ok = ok && isText
		modules = append(modules, s)
	}
	if !ok {
		o.fail("%s is %v; expected a list of module names", key, o.raw[key])
	}
	slices.Sort(modules)
	return slices.Compact(modules)
}

// savesHead reports whether modules_to_save names the classification head. PEFT adds "classifier",
// the head of other architectures.
func (o *object) savesHead() bool {
	modules, ok := o.raw["modules_to_save"].([]any)
	for _, m := range modules {
		ok = ok && (m == headModule || m == "classifier")
	}
	if !ok && o.raw["modules_to_save"] != nil {
		o.fail("modules_to_save is %v; only %q is supported", o.raw["modules_to_save"], headModule)
	}
	return slices.Contains(modules, any(headModule))
}

// refuseAdapter reports the options of PEFT that change what an adapter computes and that this
// package does not support.
func (o *object) refuseAdapter() {
	if kind := o.text("peft_type", ""); kind != "LORA" {
		o.fail("peft_type is %q; expected \"LORA\"", kind)
	}
	if bias := o.text("bias", "none"); bias != "none" {
		o.fail("bias is %q; expected \"none\"", bias)
	}
	for _, key := range []string{"use_dora", "fan_in_fan_out", "lora_bias", "use_qalora", "use_bdlora"} {
		value := o.raw[key]
		if enabled, isFlag := value.(bool); value != nil && (enabled || !isFlag) {
			o.fail("%s is not supported", key)
		}
	}
	for _, key := range []string{"rank_pattern", "alpha_pattern", "layers_to_transform", "layers_pattern", "layer_replication",
		"trainable_token_indices", "megatron_config", "eva_config", "corda_config", "kasa_config",
		"velora_config", "arrow_config", "monteclora_config",
		"alora_invocation_tokens"} {
		if text, _ := json.Marshal(o.raw[key]); !slices.Contains([]string{"null", "{}", "[]"}, string(text)) {
			o.fail("%s is %s; it is not supported", key, text)
		}
	}
}
