package cpu

import "github.com/trinity-go/trinity/model"

// adapterLayout places the A and B of every adapted module. The A of modules that read the same
// input are stacked, so that one product computes all of them.
type adapterLayout struct {
	layout
	model.LoRA
	scale float32
	maps  int // adapters whose low-rank states of a row exist at once, at most
}

// newAdapterLayout places the adapters of all layers and of the head, and the value head if lora has
// one.
func newAdapterLayout(cfg *model.Config, lora model.LoRA) (*adapterLayout, error) {
	specs, err := lora.Tensors(cfg)
	if err != nil {
		return nil, err
	}
	shapes := map[string][]int{}
	for _, s := range specs {
		shapes[s.Name] = s.Shape
	}
	l := &adapterLayout{layout: layout{index: map[string]int{}}, LoRA: lora, scale: float32(lora.Scale()), maps: 3} // q, k and v
	for i := range cfg.NumLayers {
		p := cfg.Projections(i)
		for _, group := range []model.Projection{p.QKV, p.Output, p.GateUp, p.Down} {
			l.place(shapes, layerPrefix(i), group.Names)
		}
		if cfg.Sparse(i) && len(lora.TargetParameters) > 0 {
			l.maps = max(l.maps, cfg.Mixture.PerToken)
			for e := range cfg.Mixture.Experts {
				for _, module := range expertModules(e) {
					l.place(shapes, layerPrefix(i), []string{module})
				}
			}
		}
	}
	l.place(shapes, "", []string{model.OutputHead})
	for _, name := range []string{scoreName, scoreBiasName} { // a value head is trained in full
		if shape, ok := shapes[name]; ok {
			l.add(slot{name: name, shape: shape})
		}
	}
	return l, nil
}

// columns returns the columns of scratch that the updates of a linear map, or of a token's experts, need at most; 0 without
// adapters.
func (l *adapterLayout) columns() int {
	if l == nil {
		return 0
	}
	return l.maps * l.Rank
}

// place puts the A of a group of modules next to each other, and then each B.
func (l *adapterLayout) place(shapes map[string][]int, prefix string, group []string) {
	var as, bs []slot
	for _, module := range group {
		a, b := model.LoRATensor(prefix+module, "A"), model.LoRATensor(prefix+module, "B")
		if shape, ok := shapes[a]; ok {
			as, bs = append(as, slot{name: a, shape: shape}), append(bs, slot{name: b, shape: shapes[b]})
		}
	}
	l.add(as...)
	for _, b := range bs {
		l.add(b)
	}
}

// view adds its adapters to a linear map that consists of neighbouring modules.
func (l *adapterLayout) view(dst *linear, base *layout, flat []float32, prefix string, modules []string) {
	var as []string
	out := 0
	for _, module := range modules {
		weight, _ := base.find(prefix + module + ".weight")
		if a := model.LoRATensor(prefix+module, "A"); l.has(a) {
			as = append(as, a)
			dst.up = append(dst.up, lowRank{from: out, to: out + weight.shape[0], b: l.block(flat, model.LoRATensor(prefix+module, "B"))})
		}
		out += weight.shape[0]
	}
	if len(as) > 0 {
		dst.down, dst.scale = l.block(flat, as...), l.scale
	}
}

// viewWhole adds the adapter of all outputs of a linear map, if there is one.
func (l *adapterLayout) viewWhole(dst *linear, flat []float32, module string) {
	if a, b := model.LoRATensor(module, "A"), model.LoRATensor(module, "B"); l.has(a) {
		s, _ := l.find(b)
		dst.down, dst.scale = l.block(flat, a), l.scale
		dst.up = []lowRank{{to: s.shape[0], b: l.block(flat, b)}}
	}
}

// headRank returns the rank of the head's adapter, 0 if there is none.
func (l *adapterLayout) headRank() int {
	if l == nil || !l.has(model.LoRATensor(model.OutputHead, "A")) {
		return 0
	}
	return l.Rank
}
