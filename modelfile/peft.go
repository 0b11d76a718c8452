package modelfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/modelfile/safetensors"
)

const (
	adapterConfigName  = "adapter_config.json"
	adapterWeightsName = "adapter_model.safetensors"
	adapterPrefix      = "base_model.model." // of every tensor name in a PEFT file

	// AllLinear as the only target module means every linear map of the layers, not the head; of attention alone in a model with experts.
	AllLinear = "all-linear"
)

// LoRA describes low-rank adapters, W + Scale·B·A, of a model's linear maps (Hu et al. 2021).
type LoRA struct {
	BaseModel     string  // name or path of the model adapted; may be empty
	Rank          int     // rows of A, columns of B
	Alpha         float64 // see Scale
	RSLoRA        bool    // rank-stabilised scale (Kalajdzievski 2023)
	Dropout       float64 // on the input of A while training; 0 to 1. Sampling and merging have none
	TargetModules []string
	// ExcludeModules get no adapter though TargetModules names them; they are matched alike, and may name what the model does not have.
	ExcludeModules []string
	Head           bool // the classification head is trained too and saved beside the adapters (modules_to_save)
}

// Scale is Alpha/Rank, or Alpha/√Rank for RSLoRA.
func (l *LoRA) Scale() float64 {
	if l.RSLoRA {
		return l.Alpha / math.Sqrt(float64(l.Rank))
	}
	return l.Alpha / float64(l.Rank)
}

// LoRATensor names adapter matrix "A" [rank, in] or "B" [out, rank] of a linear map such as "model.layers.0.self_attn.q_proj".
func LoRATensor(module, matrix string) string { return module + ".lora_" + matrix + ".weight" }

// Tensors lists the adapter's tensors, A before B, layer by layer. A target matches a module's name or its end after
// a dot, as in PEFT; one that matches nothing is an error.
func (l *LoRA) Tensors(cfg *Config) ([]TensorSpec, error) {
	if l.Rank < 1 || l.Rank > maxDimension || !(l.Alpha > 0) || !(l.Dropout >= 0 && l.Dropout < 1) || len(l.TargetModules) == 0 {
		return nil, fmt.Errorf("r is %d, lora_alpha %v, lora_dropout %v, target_modules %v; expected positive numbers, a dropout below 1 and at least one module",
			l.Rank, l.Alpha, l.Dropout, l.TargetModules)
	}
	unused := map[string]bool{}
	for _, target := range l.TargetModules {
		unused[target] = true
	}
	var specs []TensorSpec
	for layer := range cfg.NumLayers {
		for _, linear := range cfg.adaptable(layer) {
			module := fmt.Sprintf("model.layers.%d.%s", layer, linear.name)
			if !l.targets(module, unused) || matches(module, l.ExcludeModules) {
				continue
			}
			specs = append(specs, TensorSpec{LoRATensor(module, "A"), []int{l.Rank, linear.in}}, TensorSpec{LoRATensor(module, "B"), []int{linear.out, l.Rank}})
		}
	}
	if len(unused) > 0 {
		target := slices.Min(slices.Collect(maps.Keys(unused)))
		if cfg.Mixture != nil && slices.Contains([]string{"gate", "gate_proj", "up_proj", "down_proj"}, target[strings.LastIndex(target, ".")+1:]) {
			return nil, fmt.Errorf("target_modules: %q means experts or routers in a model that has them, which adapters do not cover; known are %s or one or more of %s", target, AllLinear, strings.Join(linearNames(cfg), ", "))
		}
		return nil, fmt.Errorf("target_modules: no linear map is called %q; known are %s or one or more of %s", target, AllLinear, strings.Join(linearNames(cfg), ", "))
	}
	if len(specs) == 0 {
		return nil, fmt.Errorf("exclude_modules %v leaves nothing of target_modules %v", l.ExcludeModules, l.TargetModules)
	}
	if l.Head {
		if cfg.Head == CausalLM {
			return nil, fmt.Errorf("modules_to_save has a classification head, and the model is a language model")
		}
		specs = append(specs, cfg.headTensors()...)
	}
	return specs, nil
}

// matches reports whether a module has one of the names, or one of them as its end after a dot, as in PEFT.
func matches(module string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return module == name || strings.HasSuffix(module, "."+name) })
}

// CheckExcluded reports a name in ExcludeModules that no linear map of the model has: in a new adapter, a mistake.
func (l *LoRA) CheckExcluded(cfg *Config) error {
	for _, name := range l.ExcludeModules {
		one := LoRA{Rank: 1, Alpha: 1, TargetModules: []string{name}}
		if _, err := one.Tensors(cfg); err != nil {
			return fmt.Errorf("exclude_modules: no linear map is called %q; known are %s", name, strings.Join(linearNames(cfg), ", "))
		}
	}
	return nil
}

// targets reports whether any target matches, and strikes all that do off unused.
func (l *LoRA) targets(module string, unused map[string]bool) bool {
	matched := false
	for _, target := range l.TargetModules {
		if target == AllLinear && len(l.TargetModules) == 1 || matches(module, []string{target}) {
			delete(unused, target)
			matched = true
		}
	}
	return matched
}

// names is TargetModules with AllLinear spelt out.
func (l *LoRA) names(cfg *Config) []string {
	if len(l.TargetModules) == 1 && l.TargetModules[0] == AllLinear {
		return linearNames(cfg)
	}
	return l.TargetModules
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

// Adapter is an open PEFT directory. As a Source its tensors have the names of LoRA.Tensors.
type Adapter struct {
	LoRA

	path    string
	names   []string
	tensors map[string]Tensor
	file    *safetensors.File
}

// OpenAdapter opens a PEFT directory (adapter_config.json, adapter_model.safetensors) and checks it against the config
// of the model that it adapts.
func OpenAdapter(dir string, cfg *Config) (*Adapter, error) {
	lora, err := readAdapterConfig(filepath.Join(dir, adapterConfigName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("modelfile: %s is no PEFT directory, as it has no %s", dir, adapterConfigName)
	} else if err != nil {
		return nil, fmt.Errorf("modelfile: %w", err)
	}
	specs, err := lora.Tensors(cfg)
	if err != nil {
		return nil, fmt.Errorf("modelfile: %s: %w", filepath.Join(dir, adapterConfigName), err)
	}
	a := &Adapter{LoRA: *lora, path: filepath.Join(dir, adapterWeightsName), tensors: map[string]Tensor{}}
	if a.file, err = safetensors.Open(a.path); err != nil {
		return nil, fmt.Errorf("modelfile: %w", err)
	}
	for _, name := range a.file.Names() {
		stored, _ := a.file.Tensor(name)
		t := fromSafetensors(stored)
		t.Name = strings.TrimPrefix(name, adapterPrefix)
		a.tensors[t.Name] = t
	}
	for _, spec := range specs {
		a.names = append(a.names, spec.Name)
	}
	if err := compareTensors(specs, a.tensors, "LoRA adapter of this config"); err != nil {
		a.file.Close()
		return nil, fmt.Errorf("modelfile: %s: %w", a.path, err)
	}
	return a, nil
}

// Names lists the tensors in the order of LoRA.Tensors.
func (a *Adapter) Names() []string { return slices.Clone(a.names) }

// Tensor finds a tensor by its name without PEFT's prefix.
func (a *Adapter) Tensor(name string) (Tensor, error) {
	t, ok := a.tensors[name]
	if !ok {
		return Tensor{}, fmt.Errorf("modelfile: %s: no tensor %s", a.path, name)
	}
	return t, nil
}

// Float32 reads a tensor.
func (a *Adapter) Float32(name string) ([]float32, error) {
	t, err := a.Tensor(name)
	if err != nil {
		return nil, err
	}
	v := make([]float32, t.Len())
	return v, t.Float32(v)
}

// Close releases the file; tensors must not be read afterwards.
func (a *Adapter) Close() error { return a.file.Close() }

// WriteAdapter writes a PEFT directory in float32. source has the tensors of lora.Tensors(cfg).
func WriteAdapter(dir string, cfg *Config, lora *LoRA, source Source) error {
	specs, err := lora.Tensors(cfg)
	if err != nil {
		return fmt.Errorf("modelfile: adapter: %w", err)
	}
	tensors, err := collect(source)
	if err != nil {
		return err
	}
	if err := compareTensors(specs, tensors, "LoRA adapter of this config"); err != nil {
		return fmt.Errorf("modelfile: the adapter to be written: %w", err)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("modelfile: %w", err)
	}
	var entries []safetensors.Entry
	for name, t := range tensors {
		entries = append(entries, safetensors.Entry{Name: adapterPrefix + name, DType: safetensors.F32, Shape: t.Shape, Write: func(w io.Writer) error {
			return encodeRows(w, safetensors.F32, t)
		}})
	}
	if err := safetensors.Write(filepath.Join(dir, adapterWeightsName), entries, nil); err != nil {
		return fmt.Errorf("modelfile: %w", err)
	}
	described := *lora
	if cfg.Mixture != nil { // where PEFT takes all-linear to mean the experts and routers too
		described.TargetModules = lora.names(cfg)
	}
	return writeJSON(filepath.Join(dir, adapterConfigName), described.json(cfg.Head))
}
