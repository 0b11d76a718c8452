package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// family holds the differences between one architecture and the others. Each is declared in a file of
// its own, family_NAME.go, and its name stands there alone.
type family struct {
	class            string    // of transformers, for config.json
	kvHeadsOptional  bool      // config.json may lack num_key_value_heads: there are as many as heads
	attentionBias    bool      // q, k, v biases unless attention_bias says otherwise
	hasAttentionBias bool      // config.json may have attention_bias, for all four projections
	hasMLPBias       bool      // config.json may have mlp_bias
	variation        variation // that all models of the family have
	headDim          int       // default; 0 means HiddenSize/NumHeads
	layerForm
	rotation     rotation
	maxPositions int     // default
	normEps      float64 // default; 0 means 1e-6
	tied         bool    // default of tie_word_embeddings
	ropeTheta    float64 // default; 0 means 10000
	noRopeEvery  int     // default of no_rope_layer_interval; 0 means that all layers have RoPE. llama.cpp has no other
	experts      bool
	projections  projectionNames                     // the usual ones if empty
	norms        Norms                               // the usual ones if empty
	foreign      bool                                // the embedded engine does not compute it
	vision       *visionForm                         // of models that read images, which are foreign; nil if it reads none
	classes      classes                             // of transformers, with another head
	read         func(r *configReader)               // reads the keys that only the family has
	write        func(c *Config, raw map[string]any) // writes them to the keys that all have
	gguf         ggufForm
}

// classes says which classes with a head of labels transformers has of a family.
type classes struct {
	prefix  string // of their names; "" means that of the language model's class
	without []Head // heads without a class
}

// layerForm says how the layers of a family differ.
type layerForm struct {
	slidingWindow     int // default if the key is missing
	slidingEverywhere bool
	slidingPattern    int      // default: each so-many-th layer has no window; 0: layers have one only if the config says so
	types             []string // that layer_types may name; usualTypes if empty
}

// usualTypes are the types of layers in most families.
var usualTypes = []string{"full_attention", "sliding_attention"}

// hasWindow reports whether models of the family may have a sliding window.
func (f *family) hasWindow() bool { return f.slidingWindow > 0 || f.slidingEverywhere }

// rotation says what RoPE of a family may be, besides that of all families.
type rotation struct {
	partial bool // config.json may have partial_rotary_factor
	queries bool // it is yarn, whose parameters have llama_4_scaling_beta
	long    bool // it is plain or longrope, which older files call su or yarn

	local float64 // default of RoPE's base in layers with a window; 0: they rotate as all do
}

// ggufForm says how llama.cpp has the models of a family.
type ggufForm struct {
	name        string // of the architecture; "" is the family's own name
	interleaved bool   // the rows of q and k in each head are ordered so that rotated pairs are neighbours
	divisors    bool   // it reads the frequency divisors of llama3's scaling
	biases      bool   // it reads biases after the attention and in the MLP
	squareHeads bool   // NumHeads·HeadDim must be HiddenSize
	longFactors bool   // it reads the factors of longrope
	factors     bool   // it reads variation.factors
	queryScale  bool   // it reads the factor on queries and all of yarn's fields
	window      bool   // files have the sliding window, which llama.cpp does not apply

	tensors map[string]string // names that differ from layerNames

	pattern int                    // slidingPattern of all its models, which is not in files; 0: it has no windows
	read    func(c *Config)        // sets what files do not say
	refuses func(c *Config) string // what it cannot say of a model; "" for nothing
	lacks   string                 // what it cannot say of any of them; "" for nothing
	unknown bool                   // llama.cpp may have them, but this program does not know how
}

// hasWindows reports whether llama.cpp gives the layers of c their windows. A window as wide as the context is none.
func (f *ggufForm) hasWindows(c *Config) bool {
	if f.pattern == 0 {
		return c.SlidingWindow == 0 || c.SlidingWindow >= c.MaxPositions
	}
	return c.SlidingWindow > 0 && slices.Equal(c.SlidingLayers, slidingLayers(c.NumLayers, f.pattern))
}

// families has every known architecture by its model_type.
var families = map[string]*family{}

// register adds an architecture. Each family's file calls it once.
func register(name string, f family) *family {
	families[name] = &f
	return &f
}

// Family is a model_type that this program knows. The PyTorch worker computes all of them, if its proof of
// a model holds.
type Family struct {
	Name     string
	Embedded bool // the embedded engine computes it
	GGUF     bool // it is read from GGUF files and written to them

	// TextParts are the families of which the text part may be, if the model reads images and this program takes its text part
	// alone. The other fields speak of the first of them. It is empty for other models.
	TextParts []string `json:",omitempty"`
}

// Families lists the known values of model_type.
func Families() (all []Family) {
	add := func(name string, f *family, parts []string) {
		gguf := !f.foreign && !f.experts && !f.gguf.unknown && f.gguf.lacks == ""
		all = append(all, Family{Name: name, Embedded: !f.foreign, GGUF: gguf, TextParts: parts})
	}
	for _, name := range architectures() {
		add(name, families[name], nil)
	}
	for name, c := range composites {
		add(name, families[c.texts[0]], c.texts)
	}
	slices.SortFunc(all, func(a, b Family) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// architectures lists the values of Config.Architecture.
func architectures() []string { return slices.Sorted(maps.Keys(families)) }

func familyOf(architecture string) (*family, error) {
	f, ok := families[architecture]
	if !ok {
		return nil, fmt.Errorf("architecture %.100q is unknown; known are %s, and the text parts of %s", architecture,
			strings.Join(architectures(), ", "), strings.Join(slices.Sorted(maps.Keys(composites)), ", "))
	}
	return f, nil
}

// ggufFamily returns the family that llama.cpp calls by name, and the family's own name.
func ggufFamily(name string) (*family, string, error) {
	for _, own := range architectures() {
		if f := families[own]; f.gguf.name == name && (families[name] == nil || families[name].foreign) {
			return f, own, nil
		}
	}
	f, err := familyOf(name)
	return f, name, err
}
