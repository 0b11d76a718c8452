package cpu

import "github.com/trinity-go/trinity/modelfile"

// LoRAOptions ask for low-rank adapters (Hu et al. 2021) to be trained in place of the weights.
type LoRAOptions struct {
	Rank          int      // r of a new adapter
	Alpha         float64  // the update is scaled by Alpha/Rank
	TargetModules []string // last parts of module names, e.g. "q_proj"; none means all linear maps of the layers
	Exclude       []string // of these, by the same kind of name, those that get no adapter
	RSLoRA        bool     // scale by Alpha/√Rank (Kalajdzievski 2023)
	Seed          uint64   // of the random A of a new adapter; B starts at 0
	Path          string   // directory of a PEFT adapter to go on from: it decides everything above
	BaseModel     string   // name of the base model that saved adapters carry
}

// describe is o as modelfile knows adapters.
func (o *LoRAOptions) describe() modelfile.LoRA {
	targets := o.TargetModules
	if len(targets) == 0 {
		targets = []string{modelfile.AllLinear}
	}
	return modelfile.LoRA{BaseModel: o.BaseModel, Rank: o.Rank, Alpha: o.Alpha, RSLoRA: o.RSLoRA, TargetModules: targets, ExcludeModules: o.Exclude}
}

// adapterLayout places the A and B of every adapted module. Modules that read the same input have their A stacked, so that one product
// serves all.
type adapterLayout struct {
	layout
	modelfile.LoRA
	scale float32
}

// inputGroups are the linear maps of a layer that read the same input, below "model.layers.N.".
var inputGroups = [][]string{
	{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}, {"self_attn.o_proj"}, {"mlp.gate_proj", "mlp.up_proj"}, {"mlp.down_proj"},
}

// newAdapterLayout places the adapters of all layers.
func newAdapterLayout(cfg *modelfile.Config, lora modelfile.LoRA) (*adapterLayout, error) {
	specs, err := lora.Tensors(cfg)
	if err != nil {
		return nil, err
	}
	shapes := map[string][]int{}
	for _, s := range specs {
		shapes[s.Name] = s.Shape
	}
	l := &adapterLayout{layout: layout{index: map[string]int{}}, LoRA: lora, scale: float32(lora.Scale())}
	for i := range cfg.NumLayers {
		for _, group := range inputGroups {
			l.place(shapes, layerPrefix(i), group)
		}
	}
	for _, name := range []string{scoreName, scoreBiasName} { // a value head is trained whole
		if shape, ok := shapes[name]; ok {
			l.add(slot{name: name, shape: shape})
		}
	}
	return l, nil
}

// place puts the A of a group of modules beside one another, and then each B.
func (l *adapterLayout) place(shapes map[string][]int, prefix string, group []string) {
	var as, bs []slot
	for _, module := range group {
		a, b := modelfile.LoRATensor(prefix+module, "A"), modelfile.LoRATensor(prefix+module, "B")
		if shape, ok := shapes[a]; ok {
			as, bs = append(as, slot{name: a, shape: shape}), append(bs, slot{name: b, shape: shapes[b]})
		}
	}
	l.add(as...)
	for _, b := range bs {
		l.add(b)
	}
}

// view fills the adapters of a linear map that consists of neighbouring modules.
func (l *adapterLayout) view(to *linear, base *layout, flat []float32, prefix string, modules []string) {
	var as []string
	out := 0
	for _, module := range modules {
		weight, _ := base.find(prefix + module + ".weight")
		if a := modelfile.LoRATensor(prefix+module, "A"); l.has(a) {
			as = append(as, a)
			to.up = append(to.up, lowRank{from: out, to: out + weight.shape[0], b: l.block(flat, modelfile.LoRATensor(prefix+module, "B"))})
		}
		out += weight.shape[0]
	}
	if len(as) > 0 {
		to.down = l.block(flat, as...)
	}
}
