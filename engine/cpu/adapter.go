package cpu

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/engine/cpu/kernel"
	"github.com/trinity-go/trinity/modelfile"
)

// LoRAOptions ask for low-rank adapters (Hu et al. 2021) to be trained in place of the weights.
type LoRAOptions struct {
	Rank          int      // r of a new adapter
	Alpha         float64  // the update is scaled by Alpha/Rank
	TargetModules []string // last parts of module names, e.g. "q_proj"; "all-linear" or none means all seven
	RSLoRA        bool     // scale by Alpha/√Rank (Kalajdzievski 2023)
	Path          string   // directory of a PEFT adapter to go on from; its rank, alpha and modules are used then
	Seed          uint64   // of the random A of a new adapter; B starts at 0
}

// adapterModules are the linear maps that can carry an adapter, in the order of a forward pass.
var adapterModules = []string{
	"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
}

// adapterLayout places the A and B of every adapted module. Modules that read the same input have their A stacked, so that one product
// serves all.
type adapterLayout struct {
	layout
	rank    int
	scale   float32
	modules []string // of adapterModules
}

func (o *LoRAOptions) scale() float32 {
	if o.RSLoRA {
		return float32(o.Alpha / math.Sqrt(float64(o.Rank)))
	}
	return float32(o.Alpha / float64(o.Rank))
}

// targets resolves TargetModules.
func (o *LoRAOptions) targets() ([]string, error) {
	if len(o.TargetModules) == 0 || slices.Contains(o.TargetModules, "all-linear") {
		return adapterModules, nil
	}
	var modules []string
	for _, module := range adapterModules {
		for _, want := range o.TargetModules {
			if module == want || strings.HasSuffix(module, "."+want) {
				modules = append(modules, module)
				break
			}
		}
	}
	for _, want := range o.TargetModules {
		if !slices.ContainsFunc(modules, func(m string) bool { return m == want || strings.HasSuffix(m, "."+want) }) {
			return nil, fmt.Errorf("cpu: lora target_modules: no linear map is called %q; known are %s, and all-linear", want, strings.Join(adapterModules, ", "))
		}
	}
	return modules, nil
}

// newAdapterLayout places adapters for every layer.
func newAdapterLayout(cfg *modelfile.Config, base *layout, o *LoRAOptions) (*adapterLayout, error) {
	if o.Rank < 1 {
		return nil, fmt.Errorf("cpu: lora rank is %d; expected 1 or more", o.Rank)
	}
	if !(o.Alpha > 0) {
		return nil, fmt.Errorf("cpu: lora alpha is %v; expected a positive number", o.Alpha)
	}
	modules, err := o.targets()
	if err != nil {
		return nil, err
	}
	l := &adapterLayout{layout: layout{index: map[string]int{}}, rank: o.Rank, scale: o.scale(), modules: modules}
	for i := range cfg.NumLayers {
		for _, group := range [][]string{adapterModules[0:3], adapterModules[3:4], adapterModules[4:6], adapterModules[6:7]} {
			l.place(base, layerPrefix(i), group)
		}
	}
	return l, nil
}

// place puts the A of a group of modules beside one another, and then each B.
func (l *adapterLayout) place(base *layout, prefix string, group []string) {
	var as, bs []slot
	for _, module := range group {
		if !slices.Contains(l.modules, module) {
			continue
		}
		weight, _ := base.find(prefix + module + ".weight")
		as = append(as, slot{name: nameA(prefix + module), shape: []int{l.rank, weight.shape[1]}})
		bs = append(bs, slot{name: nameB(prefix + module), shape: []int{weight.shape[0], l.rank}})
	}
	if len(as) == 0 {
		return
	}
	l.add(as...)
	for _, b := range bs {
		l.add(b)
	}
}

// Names in PEFT's adapter files.
const (
	prefixAdapter = "base_model.model."
	suffixA       = ".lora_A.weight"
	suffixB       = ".lora_B.weight"
)

func nameA(module string) string { return prefixAdapter + module + suffixA }
func nameB(module string) string { return prefixAdapter + module + suffixB }

// view fills the adapters of a linear map that consists of neighbouring modules.
func (l *adapterLayout) view(to *linear, base *layout, flat []float32, prefix string, modules []string) {
	var as []string
	out := 0
	for _, module := range modules {
		weight, _ := base.find(prefix + module + ".weight")
		if _, ok := l.find(nameA(prefix + module)); ok {
			as = append(as, nameA(prefix+module))
			to.up = append(to.up, lowRank{from: out, to: out + weight.shape[0], b: l.block(flat, nameB(prefix+module))})
		}
		out += weight.shape[0]
	}
	if len(as) > 0 {
		to.down = l.block(flat, as...)
	}
}

// merged writes W + scale·B·A of a module's weight [out, in] to dst.
func (l *adapterLayout) merged(pool *kernel.Pool, dst, weight kernel.Matrix, flat []float32, module string) {
	copy(dst.Data, weight.Data[:weight.Rows*weight.Cols])
	a := l.block(flat, nameA(module))
	b := l.block(flat, nameB(module))
	if a.Rows == 0 {
		return
	}
	scaled := pool.Borrow(b.Rows * b.Cols)
	defer pool.Return(scaled)
	for i, v := range b.Data[:len(scaled)] {
		scaled[i] = l.scale * v
	}
	kernel.MatMul(pool, dst, kernel.NewMatrix(scaled, b.Rows, b.Cols), a, true)
}
