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
	class             string // of transformers, for config.json
	kvHeadsOptional   bool   // config.json may lack num_key_value_heads: there are as many as heads
	attentionBias     bool   // q, k, v biases unless attention_bias says otherwise
	hasAttentionBias  bool   // config.json may have attention_bias, for all four projections
	hasMLPBias        bool   // config.json may have mlp_bias
	qkNorm            bool
	headDim           int // default; 0 means HiddenSize/NumHeads
	slidingWindow     int // default if the key is missing
	slidingEverywhere bool
	maxPositions      int     // default
	tied              bool    // default of tie_word_embeddings
	ropeTheta         float64 // default; 0 means 10000
	noRopeEvery       int     // default of no_rope_layer_interval; 0 means that all layers have RoPE. llama.cpp has no other
	experts           bool
	foreign           bool // the embedded engine does not compute it
	gguf              ggufForm
}

// ggufForm says how llama.cpp has the models of a family.
type ggufForm struct {
	name        string // of the architecture; "" is the family's own name
	interleaved bool   // the rows of q and k in each head are ordered so that rotated pairs are neighbours
	divisors    bool   // it reads the frequency divisors of llama3's scaling
	biases      bool   // it reads biases after the attention and in the MLP
	squareHeads bool   // NumHeads·HeadDim must be HiddenSize
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
}

// Families lists the known values of model_type.
func Families() (all []Family) {
	for _, name := range architectures() {
		f := families[name]
		all = append(all, Family{Name: name, Embedded: !f.foreign, GGUF: !f.foreign && !f.experts})
	}
	return all
}

// architectures lists the values of Config.Architecture.
func architectures() []string { return slices.Sorted(maps.Keys(families)) }

func familyOf(architecture string) (*family, error) {
	f, ok := families[architecture]
	if !ok {
		return nil, fmt.Errorf("architecture %.100q is unknown; known are %s", architecture, strings.Join(architectures(), ", "))
	}
	return f, nil
}

// ggufFamily returns the family that llama.cpp calls by name, and the family's own name.
func ggufFamily(name string) (*family, string, error) {
	for _, own := range architectures() {
		if f := families[own]; f.gguf.name == name && families[name] == nil {
			return f, own, nil
		}
	}
	f, err := familyOf(name)
	return f, name, err
}
