package model

import (
	"fmt"
	"strings"
	"sync"
)

// stack is a tensor [experts, out, in] in which transformers keeps the matrices of a layer's experts. PEFT adapts it with an A and
// a B of every expert, and writes them as two matrices.
type stack struct {
	name             string // of the tensor, below module
	module           string // "model.layers.N.mlp.experts"
	wrapper          string // the module whose adapter it is in PEFT's files
	experts, out, in int
}

// stacks returns the tensors of a layer's experts that target_parameters names. PEFT wraps their module once for each, the first
// innermost, and the tensors in its files have the names of these wrappers.
func (l *LoRA) stacks(cfg *Config, layer int) (all []stack) {
	if !cfg.Sparse(layer) {
		return nil
	}
	m, module := cfg.Mixture, fmt.Sprintf("model.layers.%d.mlp.experts", layer)
	for _, s := range []stack{
		{"gate_up_proj", module, module, m.Experts, 2 * m.Size, cfg.HiddenSize},
		{"down_proj", module, module, m.Experts, cfg.HiddenSize, m.Size},
	} {
		if matches(module+"."+s.name, l.TargetParameters) {
			all = append(all, s)
		}
	}
	for i := range all {
		all[i].wrapper += strings.Repeat(".base_layer", len(all)-1-i)
	}
	return all
}

// tensor returns the name of matrix "A" or "B" of an expert.
func (s stack) tensor(expert int, matrix string) string {
	return LoRATensor(fmt.Sprintf("%s.%d.%s", s.module, expert, s.name), matrix)
}

// each returns the adapter's tensors, A before B, one expert after another.
func (s stack) each(rank int) (specs []TensorSpec) {
	for e := range s.experts {
		specs = append(specs, TensorSpec{s.tensor(e, "A"), []int{rank, s.in}}, TensorSpec{s.tensor(e, "B"), []int{s.out, rank}})
	}
	return specs
}

// joined returns the adapter's tensors in PEFT's files.
func (s stack) joined(rank int) []TensorSpec {
	return []TensorSpec{
		{LoRATensor(s.wrapper, "A"), []int{rank * s.experts, s.in}}, {LoRATensor(s.wrapper, "B"), []int{s.out, rank * s.experts}},
	}
}

// checkParameters returns an error if target_parameters names a tensor that the model does not have.
func (l *LoRA) checkParameters(cfg *Config) error {
	switch {
	case len(l.TargetParameters) == 0:
		return nil
	case cfg.Mixture == nil && cfg.Foreign != nil:
		return fmt.Errorf("target_parameters: adapters of experts are for qwen3_moe models, this one is %s: leave target_parameters out",
			cfg.Architecture)
	case cfg.Mixture == nil:
		return fmt.Errorf("target_parameters names tensors of experts, and a %s model has no experts: leave it out; "+
			"target_modules names linear maps", cfg.Architecture)
	}
	for _, target := range l.TargetParameters {
		one, found := LoRA{TargetParameters: []string{target}}, false
		for layer := range cfg.NumLayers {
			found = found || len(one.stacks(cfg, layer)) > 0
		}
		if !found {
			return fmt.Errorf("target_parameters: no tensor of experts is called %q; known are %s", target, ofExperts)
		}
	}
	return nil
}

// ofExperts are the names that target_parameters may have.
const ofExperts = "mlp.experts.gate_up_proj and mlp.experts.down_proj"

// splitStacks replaces the adapters of stacked tensors, as PEFT's files have them, by those of single experts.
func (l *LoRA) splitStacks(cfg *Config, tensors map[string]Tensor) {
	for layer := range cfg.NumLayers {
		for _, s := range l.stacks(cfg, layer) {
			a, b := LoRATensor(s.wrapper, "A"), LoRATensor(s.wrapper, "B")
			whole := tensors[b]
			// A row of B has the columns of all experts, so it is read once for all.
			values := sync.OnceValues(func() ([]float32, error) {
				v := make([]float32, whole.Len())
				return v, whole.Float32(v)
			})
			for e := range s.experts {
				one := tensors[a].slice(e*l.Rank, l.Rank)
				one.Name = s.tensor(e, "A")
				tensors[one.Name] = one
				name := s.tensor(e, "B")
				tensors[name] = NewTensor(name, []int{s.out, l.Rank}, func(dst []float32, from, to int) error {
					v, err := values()
					if err != nil {
						return err
					}
					for i := range (to - from) * l.Rank {
						dst[i] = v[(from*l.Rank+i)*s.experts+e]
					}
					return nil
				})
			}
			delete(tensors, a)
			delete(tensors, b)
		}
	}
}

// joinStacks is the opposite of splitStacks. Rows of A are ordered by expert, columns of B by rank and then by expert.
func (l *LoRA) joinStacks(cfg *Config, tensors map[string]Tensor) {
	for layer := range cfg.NumLayers {
		for _, s := range l.stacks(cfg, layer) {
			var as, bs []Tensor
			for e := range s.experts {
				a, b := s.tensor(e, "A"), s.tensor(e, "B")
				as, bs = append(as, tensors[a]), append(bs, tensors[b])
				delete(tensors, a)
				delete(tensors, b)
			}
			joined := s.joined(l.Rank)
			tensors[joined[0].Name] = NewTensor(joined[0].Name, joined[0].Shape, func(dst []float32, from, to int) error {
				for row := from; row < to; row++ {
					if err := as[row/l.Rank].Rows(dst[(row-from)*s.in:][:s.in], row%l.Rank, row%l.Rank+1); err != nil {
						return err
					}
				}
				return nil
			})
			tensors[joined[1].Name] = NewTensor(joined[1].Name, joined[1].Shape, func(dst []float32, from, to int) error {
				own := make([]float32, (to-from)*l.Rank)
				for e, b := range bs {
					if err := b.Rows(own, from, to); err != nil {
						return err
					}
					for i, v := range own {
						dst[i*s.experts+e] = v
					}
				}
				return nil
			})
		}
	}
}

// updateOf returns the module whose adapter updates a matrix of so many rows, and the first row of its B that does: gate and up of
// an expert have one adapter.
func updateOf(module string, rows int) (adapted string, from int) {
	for i, part := range []string{".gate_proj", ".up_proj"} {
		if expert, ok := strings.CutSuffix(module, part); ok && strings.Contains(expert, ".mlp.experts.") {
			return expert + ".gate_up_proj", i * rows
		}
	}
	return module, 0
}
