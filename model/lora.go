package model

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/engine"
)

// AllLinear as a target module means every linear map of the layers. In a model with experts it
// means the linear maps of the attention. As in PEFT it never means the head, which [OutputHead]
// names.
const AllLinear = "all-linear"

// OutputHead is the vocabulary projection. An adapter of a head that is tied to the embedding
// changes the logits alone, as in PEFT.
const OutputHead = "lm_head"

// LoRA describes low-rank adapters, W + Scale·B·A, of a model's linear maps (Hu et al. 2021).
type LoRA struct {
	BaseModel     string  // name or path of the base model; may be empty
	Rank          int     // rows of A, columns of B
	Alpha         float64 // see Scale
	RSLoRA        bool    // rank-stabilised scale (Kalajdzievski 2023)
	Dropout       float64 // on the input of A, in training only; at least 0 and below 1
	TargetModules []string
	// TargetParameters are the tensors of experts of which every expert's matrix gets an adapter, by PEFT's names:
	// mlp.experts.gate_up_proj. They match as targets do.
	TargetParameters []string
	// ExcludeModules get no adapter even if TargetModules names them. They match as targets do, but
	// may name modules that the model does not have.
	ExcludeModules []string
	Head           bool // the classification head is trained too and saved beside the adapters (modules_to_save)
}

// NewLoRA describes new adapters for a run. Without target modules they cover all linear maps.
func NewLoRA(spec *engine.LoRASpec) LoRA {
	targets := []string(spec.TargetModules)
	if len(targets) == 0 {
		targets = []string{AllLinear}
	}
	return LoRA{
		Rank: spec.LoraRank, Alpha: float64(spec.LoraAlpha), RSLoRA: spec.UseRslora,
		TargetModules: targets, ExcludeModules: spec.ExcludeModules, TargetParameters: spec.TargetParameters,
	}
}

// Scale is Alpha/Rank, or Alpha/√Rank for RSLoRA.
func (l *LoRA) Scale() float64 {
	if l.RSLoRA {
		return l.Alpha / math.Sqrt(float64(l.Rank))
	}
	return l.Alpha / float64(l.Rank)
}

// LoRATensor returns the name of adapter matrix "A" [rank, in] or "B" [out, rank] of a linear map
// such as "model.layers.0.self_attn.q_proj".
func LoRATensor(module, matrix string) string { return module + ".lora_" + matrix + ".weight" }

// Tensors lists the adapter's tensors, layer by layer and then the head, A before B. As in PEFT a
// target matches a module's whole name or its end after a dot. A target that matches nothing is an
// error. An expert has tensors of its own: those of mlp.experts.N.gate_up_proj and of
// mlp.experts.N.down_proj.
func (l *LoRA) Tensors(cfg *Config) ([]TensorSpec, error) {
	return l.specs(cfg, stack.each)
}

// specs lists the adapter's tensors; ofStack returns those of a tensor that stacks experts.
func (l *LoRA) specs(cfg *Config, ofStack func(s stack, rank int) []TensorSpec) ([]TensorSpec, error) {
	if l.Rank < 1 || l.Rank > maxDimension || !(l.Alpha > 0) || !(l.Dropout >= 0 && l.Dropout < 1) ||
		len(l.TargetModules)+len(l.TargetParameters) == 0 {
		return nil, fmt.Errorf("r is %d, lora_alpha %v, lora_dropout %v, target_modules %v; "+
			"expected positive numbers, a dropout below 1 and at least one module",
			l.Rank, l.Alpha, l.Dropout, l.TargetModules)
	}
	if cfg.Foreign != nil && cfg.Foreign.Tensors == nil {
		return nil, fmt.Errorf("%s: which linear maps it has, only its files say, and they are not here", cfg.Foreign.Why)
	}
	if err := l.checkParameters(cfg); err != nil {
		return nil, err
	}
	unused := map[string]bool{}
	for _, target := range l.TargetModules {
		unused[target] = true
	}
	var specs []TensorSpec
	add := func(module string, out, in int) {
		if l.targets(module, unused) && !matches(module, l.ExcludeModules) {
			specs = append(specs, TensorSpec{LoRATensor(module, "A"), []int{l.Rank, in}},
				TensorSpec{LoRATensor(module, "B"), []int{out, l.Rank}})
		}
	}
	for layer := range cfg.NumLayers {
		for _, linear := range cfg.adaptable(layer) {
			add(fmt.Sprintf("model.layers.%d.%s", layer, linear.name), linear.out, linear.in)
		}
		for _, s := range l.stacks(cfg, layer) {
			specs = append(specs, ofStack(s, l.Rank)...)
		}
	}
	if cfg.Head == CausalLM {
		add(OutputHead, cfg.VocabSize, cfg.HiddenSize)
	}
	if len(unused) > 0 {
		target := slices.Min(slices.Collect(maps.Keys(unused)))
		if cfg.Mixture != nil && slices.Contains([]string{"gate", "gate_proj", "up_proj", "down_proj"},
			target[strings.LastIndex(target, ".")+1:]) {
			return nil, fmt.Errorf("target_modules: %q names experts or routers of this model; known are %s or one or more of %s; "+
				"target_parameters adapts experts: %s",
				target, AllLinear, strings.Join(adaptableNames(cfg), ", "), ofExperts)
		}
		return nil, fmt.Errorf("target_modules: no linear map is called %q; known are %s or one or more of %s",
			target, AllLinear, strings.Join(adaptableNames(cfg), ", "))
	}
	if len(specs) == 0 {
		return nil, fmt.Errorf("exclude_modules %v excludes every module of target_modules %v", l.ExcludeModules, l.TargetModules)
	}
	if l.Head {
		if cfg.Head == CausalLM {
			return nil, fmt.Errorf("modules_to_save names a classification head, but the model is a language model")
		}
		specs = append(specs, cfg.headTensors()...)
	}
	return specs, nil
}

// matches reports whether a module's name is one of names or ends, after a dot, in one of them.
func matches(module string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return module == name || strings.HasSuffix(module, "."+name) })
}

// CheckExcluded returns an error if ExcludeModules has a name that no linear map of the model has.
// In a new adapter such a name is a mistake.
func (l *LoRA) CheckExcluded(cfg *Config) error {
	for _, name := range l.ExcludeModules {
		one := LoRA{Rank: 1, Alpha: 1, TargetModules: []string{name}}
		if _, err := one.Tensors(cfg); err != nil {
			return fmt.Errorf("exclude_modules: no linear map is called %q; known are %s", name, strings.Join(adaptableNames(cfg), ", "))
		}
	}
	return nil
}

// targets reports whether a target matches the module. It deletes every matching target from
// unused.
func (l *LoRA) targets(module string, unused map[string]bool) bool {
	matched := false
	for _, target := range l.TargetModules {
		if target == AllLinear && module != OutputHead || matches(module, []string{target}) {
			delete(unused, target)
			matched = true
		}
	}
	return matched
}

// targetNames returns TargetModules in order, with AllLinear replaced by the names that it means.
func (l *LoRA) targetNames(cfg *Config) (names []string) {
	for _, target := range l.TargetModules {
		if target == AllLinear {
			names = append(names, linearNames(cfg)...)
			continue
		}
		names = append(names, target)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// adaptsHead reports whether the adapter changes the vocabulary projection of a model.
func (l *LoRA) adaptsHead(cfg *Config) bool {
	return cfg.Head == CausalLM && l.targets(OutputHead, map[string]bool{}) && !matches(OutputHead, l.ExcludeModules)
}

// adaptableNames returns the names that target_modules may have besides AllLinear.
func adaptableNames(cfg *Config) []string {
	if cfg.Head == CausalLM {
		return append(linearNames(cfg), OutputHead)
	}
	return linearNames(cfg)
}

func linearNames(cfg *Config) []string {
	var names []string
	for layer := range cfg.NumLayers {
		for _, linear := range cfg.adaptable(layer) {
			if name := linear.name[strings.LastIndex(linear.name, ".")+1:]; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
