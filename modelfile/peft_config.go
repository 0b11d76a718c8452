package modelfile

import (
	"encoding/json"
	"fmt"
	"slices"
)

func (l *LoRA) json() map[string]any {
	raw := map[string]any{
		"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": nil, "inference_mode": true, "bias": "none", "fan_in_fan_out": false,
		"r": l.Rank, "lora_alpha": l.Alpha, "lora_dropout": l.Dropout, "use_rslora": l.RSLoRA, "target_modules": l.TargetModules, "modules_to_save": nil,
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
	return raw
}

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
		RSLoRA: o.flag("use_rslora", false), Dropout: o.number("lora_dropout", 0), TargetModules: o.targetModules(), ExcludeModules: o.excludeModules(),
	}
	o.refuseAdapter()
	if err := together(o.errs); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

func (o *object) targetModules() []string {
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

func (o *object) excludeModules() []string {
	if o.raw["exclude_modules"] == nil {
		return nil
	}
	var modules []string
	items, ok := o.raw["exclude_modules"].([]any)
	for _, item := range items {
		s, isText := item.(string)
		ok = ok && isText
		modules = append(modules, s)
	}
	if !ok {
		o.fail("exclude_modules is %v; expected a list of module names", o.raw["exclude_modules"])
	}
	slices.Sort(modules)
	return slices.Compact(modules)
}

// refuseAdapter reports options of PEFT that change what an adapter computes and are not implemented.
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
	for _, key := range []string{"modules_to_save", "rank_pattern", "alpha_pattern", "layers_to_transform", "layers_pattern", "layer_replication",
		"trainable_token_indices", "target_parameters", "megatron_config", "eva_config", "corda_config", "kasa_config", "velora_config", "arrow_config", "monteclora_config",
		"alora_invocation_tokens"} {
		if text, _ := json.Marshal(o.raw[key]); !slices.Contains([]string{"null", "{}", "[]"}, string(text)) {
			o.fail("%s is %s; it is not supported", key, text)
		}
	}
}
