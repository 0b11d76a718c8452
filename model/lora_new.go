package model

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// newAdapters is a Source of adapters that nothing has trained.
type newAdapters struct {
	specs []TensorSpec
	seed  uint64
}

// New returns new adapters: every A is drawn from U(−1/√in, 1/√in), as PEFT's Kaiming
// initialisation does, and every B is 0. Each number depends only on the seed, the tensor's name and
// its index. The Source has no classification head.
func (l *LoRA) New(cfg *Config, seed uint64) (Source, error) {
	adapters := *l
	adapters.Head = false
	specs, err := adapters.Tensors(cfg)
	return newAdapters{specs, seed}, err
}

// Names implements Source.
func (a newAdapters) Names() (names []string) {
	for _, s := range a.specs {
		names = append(names, s.Name)
	}
	return names
}

// Tensor implements Source.
func (a newAdapters) Tensor(name string) (Tensor, error) {
	i := slices.IndexFunc(a.specs, func(s TensorSpec) bool { return s.Name == name })
	if i < 0 {
		return Tensor{}, fmt.Errorf("model: new adapters have no tensor %s", name)
	}
	shape := a.specs[i].Shape
	if !strings.HasSuffix(name, LoRATensor("", "A")) {
		return NewTensor(name, shape, constant(0)), nil
	}
	key, bound, width := newNormalStream(a.seed, name).key, 1/math.Sqrt(float64(shape[1])), shape[1]
	return NewTensor(name, shape, func(dst []float32, from, _ int) error {
		for i := range dst {
			dst[i] = float32(uniform(mix(key+uint64(from*width+i))) * bound)
		}
		return nil
	}), nil
}
