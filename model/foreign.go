package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/model/safetensors"
)

// Foreign describes a model that other engines compute and the embedded engine does not. Its config
// has what any engine reads: sizes, positions and tokens.
type Foreign struct {
	Why     string       // what the embedded engine lacks, such as `hidden_act "gelu"`
	Tensors []TensorSpec // of the model's files, without the head; nil if the files are not here
	Vision  *Vision      // nil if the model reads no images
}

// Refuse returns an error by which the embedded engine refuses the model; nil if f is nil.
func (f *Foreign) Refuse() error {
	if f == nil {
		return nil
	}
	return fmt.Errorf("%s: the embedded engine does not compute it; trainer_type torch with engine_type vllm does", f.Why)
}

// lacks notes what changes a model's outputs and what the embedded engine does not compute.
func (r *configReader) lacks(format string, args ...any) {
	r.beyond = append(r.beyond, fmt.Sprintf(format, args...))
}

// readTensors reads which tensors the files of a directory have, which no field of the config says. If the model reads
// images, also whether its head is tied, which goes to c: the two parts of its config need not agree.
func (f *Foreign) readTensors(dir string, c *Config) error {
	if f == nil || !HasWeights(dir) {
		return nil
	}
	weights, err := safetensors.OpenDir(dir)
	if err != nil {
		return err
	}
	defer weights.Close()
	stored, err := unwrapped(weights, c.PartOf != "")
	if err != nil {
		return err
	}
	for name, t := range stored {
		if !isBuffer(name) && !slices.Contains([]string{headName, scoreName, scoreBiasName}, name) {
			f.Tensors = append(f.Tensors, TensorSpec{name, t.Shape})
		}
	}
	slices.SortFunc(f.Tensors, func(a, b TensorSpec) int { return strings.Compare(a.Name, b.Name) })
	if f.Vision != nil {
		c.TieEmbeddings = !has(stored, headName)
		f.Vision.Parameters = f.Vision.count(f.Tensors)
	}
	return nil
}

// linears returns the linear maps of a layer: its matrices, without those of routers. Files of a model that reads
// images may call its layers as those of other models are called.
func (f *Foreign) linears(layer int) (maps []linear) {
	for _, t := range f.Tensors {
		name, inside := strings.CutPrefix(t.Name, fmt.Sprintf("%s%d.", f.layersName(), layer))
		if !inside {
			name, inside = strings.CutPrefix(t.Name, fmt.Sprintf("%slayers.%d.", bodyPrefix, layer))
		}
		name, isWeight := strings.CutSuffix(name, ".weight")
		parts := strings.Split(name, ".")
		isRouter := slices.Contains(parts, "router") || parts[len(parts)-1] == "gate"
		if inside && isWeight && len(t.Shape) == 2 && !isRouter {
			maps = append(maps, linear{name: name, out: t.Shape[0], in: t.Shape[1]})
		}
	}
	return maps
}
