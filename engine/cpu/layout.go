package cpu

import (
	"fmt"
	"slices"

	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
)

// align is the alignment of tensors in a flat parameter vector, in elements: one cache line.
const align = 16

// slot is the place of a tensor in a flat parameter vector.
type slot struct {
	name  string
	shape []int
	from  int    // in a vector whose tensors are row-major
	at    int    // in a vector of weights; that of the stack, if there is one
	stack *stack // nil if weights are row-major, too
	row   int    // first row in the stack
}

func (s slot) size() int {
	n := 1
	for _, d := range s.shape {
		n *= d
	}
	return n
}

// layout places tensors in one flat vector, so that optimizer, clipping and saving need not know
// the model's structure. The tensors of a group are neighbours: q, k and v form one matrix, gate
// and up another.
//
// A vector of weights has the matrices of a group as one, in the panels that products read. So forward passes pack nothing, and a
// sampler may read them where they are (decision 29). Gradients and moments are row-major.
type layout struct {
	slots []slot // in the order of the vector
	index map[string]int
	size  int // elements of a row-major vector, gaps included; gaps stay 0
	room  int // elements of a vector of weights, gaps included
}

// add places a group of neighbouring tensors.
func (l *layout) add(group ...slot) {
	l.size, l.room = aligned(l.size), aligned(l.room)
	for _, s := range group {
		s.from, s.at = l.size, l.room
		l.put(s)
		l.room += s.size()
	}
}

// addStack places a group of matrices with the same input.
func (l *layout) addStack(group ...slot) {
	l.size = aligned(l.size)
	stack := &stack{at: aligned(l.room), cols: group[0].shape[1]}
	for _, s := range group {
		s.from, s.at, s.stack, s.row = l.size, stack.at, stack, stack.rows
		l.put(s)
		stack.rows += s.shape[0]
	}
	l.room = stack.at + kernel.PackedFloats(stack.rows, stack.cols)
}

func (l *layout) put(s slot) {
	l.index[s.name] = len(l.slots)
	l.slots = append(l.slots, s)
	l.size += s.size()
}

func aligned(n int) int { return (n + align - 1) / align * align }

// find returns the slot of a tensor by its Hugging Face name.
func (l *layout) find(name string) (slot, bool) {
	i, ok := l.index[name]
	if !ok {
		return slot{}, false
	}
	return l.slots[i], true
}

func (l *layout) has(name string) bool { _, ok := l.index[name]; return ok }

// in returns the tensor's part of a flat vector; nil if the layout has no such tensor or flat is
// nil.
func (l *layout) in(flat []float32, name string) []float32 {
	s, ok := l.find(name)
	if !ok || flat == nil {
		return nil
	}
	return flat[s.from : s.from+s.size() : s.from+s.size()]
}

// block returns the matrix [rows of all names, in] that neighbouring tensors form. It is empty if
// the layout lacks one of them or flat is nil.
func (l *layout) block(flat []float32, names ...string) kernel.Matrix {
	if flat == nil {
		return kernel.Matrix{}
	}
	rows, cols, from := 0, 0, -1
	for _, name := range names {
		s, ok := l.find(name)
		if !ok {
			return kernel.Matrix{}
		}
		if from < 0 {
			from = s.from
		}
		rows += s.shape[0]
		cols = s.size() / s.shape[0]
	}
	return kernel.NewMatrix(flat[from:from+rows*cols], rows, cols)
}

// layerGroups returns the groups of neighbouring tensors in a layer, below "model.layers.N.".
func layerGroups(cfg *model.Config, layer int) [][]string {
	p, norms := cfg.Projections(layer), cfg.Norms()
	of := func(from model.Projection, suffix string) (names []string) {
		for _, name := range from.Names {
			names = append(names, name+suffix)
		}
		return names
	}
	return [][]string{
		{norms.BeforeAttention + ".weight"},
		of(p.QKV, ".weight"), of(p.QKV, ".bias"),
		{norms.Q + ".weight"},
		{norms.K + ".weight"},
		{convName},
		of(p.Output, ".weight"), of(p.Output, ".bias"),
		{norms.AfterAttention + ".weight"},
		{norms.BeforeMLP + ".weight"},
		{norms.AfterMLP + ".weight"},
		of(p.GateUp, ".weight"), of(p.GateUp, ".bias"),
		of(p.Down, ".weight"), of(p.Down, ".bias"),
	}
}

const (
	embeddingName = "model.embed_tokens.weight"
	convName      = "conv.conv.weight" // of a layer
	headName      = "lm_head.weight"
	scoreName     = "score.weight"
	scoreBiasName = "score.bias"
)

func layerPrefix(layer int) string { return fmt.Sprintf("model.layers.%d.", layer) }

// isStack reports whether a tensor is a matrix that forward passes multiply with. An embedding alone is only read row by row, and a
// head of few outputs is not worth a panel of 16.
func isStack(cfg *model.Config, s slot) bool {
	return len(s.shape) == 2 && s.name != scoreName && (s.name != embeddingName || cfg.TieEmbeddings && cfg.Head == model.CausalLM)
}

// modelLayout places every tensor of a model.
func modelLayout(cfg *model.Config) (*layout, error) {
	shapes := map[string][]int{}
	for _, t := range cfg.Tensors() {
		shapes[t.Name] = t.Shape
	}
	l := &layout{index: map[string]int{}}
	place := func(names ...string) {
		var group []slot
		for _, name := range names {
			if shape, ok := shapes[name]; ok {
				group = append(group, slot{name: name, shape: shape})
			}
		}
		switch {
		case len(group) == 0:
		case isStack(cfg, group[0]):
			l.addStack(group...)
		default:
			l.add(group...)
		}
	}
	place(embeddingName)
	for layer := range cfg.NumLayers {
		groups := layerGroups(cfg, layer)
		if cfg.Sparse(layer) {
			groups = slices.Concat(groups, mixtureGroups(cfg))
		}
		for _, group := range groups {
			names := make([]string, len(group))
			for i, name := range group {
				names[i] = layerPrefix(layer) + name
			}
			place(names...)
		}
	}
	place(cfg.Norms().Final + ".weight")
	place(headName)
	place(scoreName)
	place(scoreBiasName)
	if len(l.slots) != len(shapes) {
		return nil, fmt.Errorf("cpu: the config has %d tensors, but this engine knows only %d of them", len(shapes), len(l.slots))
	}
	return l, nil
}
