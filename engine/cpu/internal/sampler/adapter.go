package sampler

import (
	"fmt"

	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
)

// adapter holds the low-rank updates that requests refer to by name. Its weights are replaced as a
// whole, between two steps. A request keeps its adapter until it ends, even if the name was
// dropped.
type adapter struct {
	name    string
	root    int64    // root of its pages in the tree of the K/V cache; below 0
	version int64    // of the weights that it samples
	weights *updates // nil for the model's own weights
}

// updates are the packed A and B of a model: y += scale·(x·Aᵀ)·Bᵀ for every adapted linear map, as
// in training.
type updates struct {
	rank   int
	scale  float32
	layers []layerUpdates
	head   update // of the vocabulary projection
}

// layerUpdates are the updates of one block, by input.
type layerUpdates struct {
	qkv, out, gateUp, down update
	experts                []expertUpdates // nil if the adapter covers none
}

// expertUpdates are the updates of one expert.
type expertUpdates struct{ gateUp, down update }

// update is the low-rank update of the maps with the same input.
type update struct {
	down *kernel.Packed // [in, r of all maps]; nil if none of them is adapted
	up   []part
}

// part is the B of one map; its outputs are columns [from, to).
type part struct {
	from, to int
	b        *kernel.Packed // [r, to−from]
}

// pack packs an adapter. tensor returns its tensors by their names in model.LoRA.Tensors.
func pack(cfg *model.Config, pool *kernel.Pool, lora *model.LoRA, tensor func(name string) ([]float32, error)) (*updates, error) {
	specs, err := lora.Tensors(cfg)
	if err != nil {
		return nil, err
	}
	p := packer{pool: pool, tensor: tensor, rank: lora.Rank, shapes: map[string][]int{}}
	for _, s := range specs {
		p.shapes[s.Name] = s.Shape
	}
	u := &updates{rank: lora.Rank, scale: float32(lora.Scale()), layers: make([]layerUpdates, cfg.NumLayers)}
	for i := range u.layers {
		from := cfg.Projections(i)
		l, prefix := &u.layers[i], fmt.Sprintf("model.layers.%d.", i)
		for _, group := range []struct {
			to   *update
			from model.Projection
		}{{&l.qkv, from.QKV}, {&l.out, from.Output}, {&l.gateUp, from.GateUp}, {&l.down, from.Down}} {
			if err := p.pack(group.to, prefix, group.from); err != nil {
				return nil, err
			}
		}
		if cfg.Sparse(i) && len(lora.TargetParameters) > 0 {
			if err := p.packExperts(l, prefix, cfg); err != nil {
				return nil, err
			}
		}
	}
	head := model.Projection{Names: []string{model.OutputHead}, Outs: []int{cfg.VocabSize}, In: cfg.HiddenSize}
	if err := p.pack(&u.head, "", head); err != nil {
		return nil, err
	}
	for _, s := range specs {
		if _, left := p.shapes[s.Name]; left {
			return nil, fmt.Errorf("tensor %s: the sampler does not apply adapters of this module; leave it out of target_modules", s.Name)
		}
	}
	return u, nil
}

// packer packs the tensors in shapes, and removes from shapes the tensors that it packed.
type packer struct {
	pool   *kernel.Pool
	tensor func(name string) ([]float32, error)
	rank   int
	shapes map[string][]int
	stack  []float32 // the A of the maps with the same input, stacked
}

// pack fills u with the adapters of modules whose names begin with prefix.
func (p *packer) pack(u *update, prefix string, m model.Projection) error {
	p.stack = p.stack[:0]
	from := 0
	for i, name := range m.Names {
		to := from + m.Outs[i]
		a, b := model.LoRATensor(prefix+name, "A"), model.LoRATensor(prefix+name, "B")
		if _, adapted := p.shapes[a]; adapted {
			v, err := p.take(a, p.rank*m.In)
			if err != nil {
				return err
			}
			p.stack = append(p.stack, v...)
			if v, err = p.take(b, m.Outs[i]*p.rank); err != nil {
				return err
			}
			packed, err := p.packed(v, m.Outs[i], p.rank)
			if err != nil {
				return err
			}
			u.up = append(u.up, part{from, to, packed})
		}
		from = to
	}
	if len(u.up) == 0 {
		return nil
	}
	var err error
	u.down, err = p.packed(p.stack, p.rank*len(u.up), m.In)
	return err
}

// packExperts fills l with the adapters of the experts of a layer.
func (p *packer) packExperts(l *layerUpdates, prefix string, cfg *model.Config) error {
	l.experts = make([]expertUpdates, cfg.Mixture.Experts)
	for i := range l.experts {
		for _, m := range []struct {
			to      *update
			name    string
			out, in int
		}{
			{&l.experts[i].gateUp, "gate_up_proj", 2 * cfg.Mixture.Size, cfg.HiddenSize},
			{&l.experts[i].down, "down_proj", cfg.HiddenSize, cfg.Mixture.Size},
		} {
			name := fmt.Sprintf("mlp.experts.%d.%s", i, m.name)
			if err := p.pack(m.to, prefix, model.Projection{Names: []string{name}, Outs: []int{m.out}, In: m.in}); err != nil {
				return err
			}
		}
	}
	return nil
}

// take returns a tensor of the given size and removes it from shapes.
func (p *packer) take(name string, size int) ([]float32, error) {
	v, err := p.tensor(name)
	if err != nil {
		return nil, fmt.Errorf("tensor %s: %w", name, err)
	}
	if len(v) != size {
		return nil, fmt.Errorf("tensor %s has %d elements; the config demands %d", name, len(v), size)
	}
	delete(p.shapes, name)
	return v, nil
}

// packed returns v [out, in] as the right operand of x·vᵀ. It lies in the Go heap, so the garbage
// collector frees it after the last request that uses it.
func (p *packer) packed(v []float32, out, in int) (*kernel.Packed, error) {
	w, err := kernel.NewPacked(nil, out, in, kernel.F32)
	if err != nil {
		return nil, err
	}
	w.Pack(p.pool, kernel.NewMatrix(v, out, in).T())
	return w, nil
}
