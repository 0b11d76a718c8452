package model

import (
	"fmt"
	"reflect"
)

// Config describes a model's architecture and special tokens.
type Config struct {
	Architecture string // model_type of config.json; Families lists them
	PartOf       string // model_type of the model of text and images whose text part this is; "" if it is whole

	HiddenSize       int
	IntermediateSize int // inner width of the MLP in layers without experts
	NumLayers        int
	NumHeads         int
	NumKVHeads       int // divides NumHeads
	HeadDim          int // even; NumHeads·HeadDim need not be HiddenSize
	RotaryDim        int // elements of a head, from the first, that RoPE rotates; even, 0 for all
	VocabSize        int
	MaxPositions     int // tokens of the longest sequence that the model was trained on

	RMSNormEps  float64
	RopeTheta   float64
	RopeScaling *RopeScaling // nil for plain RoPE
	NoRope      []bool       // [NumLayers] which layers have no RoPE; nil if all have it

	Head      Head
	NumLabels int  // outputs of a classification head
	HeadBias  bool // the classification head has a bias

	TieEmbeddings       bool // the vocabulary projection uses the embedding matrix
	AttentionBias       bool // q, k and v projections have biases
	AttentionOutputBias bool // the attention's output projection has a bias
	MLPBias             bool // gate, up and down projections have biases

	Mixture *Mixture // describes the layers with experts; nil if there are none

	SlidingWindow int    // tokens, itself included, that a token attends to in SlidingLayers; 0 for no window
	SlidingLayers []bool // [NumLayers] which layers use the window; nil if SlidingWindow is 0

	variation

	BOS []int32 // beginning-of-sequence tokens; may be empty
	EOS []int32 // every token that ends a reply: first those of generation_config.json, then those of config.json
	PAD []int32 // padding tokens; may be empty

	Foreign *Foreign // what only other engines compute; nil if the embedded engine computes the model

	InitializerRange float64        // standard deviation of the "hf" random initialisation
	Raw              map[string]any // config.json as read (numbers are json.Number); nil if the config has another source
	RawGeneration    map[string]any // generation_config.json as read; nil if absent
}

// RopeScaling changes the frequencies of RoPE for longer contexts; see Config.InverseFrequencies.
type RopeScaling struct {
	Type   string  // "linear", "dynamic", "llama3", "yarn" or "longrope"
	Factor float64 // scaled context length over original context length

	OriginalMaxPositions int // tokens before scaling: llama3, yarn, longrope

	LowFreqFactor, HighFreqFactor float64 // llama3

	BetaFast, BetaSlow   float64 // yarn: rotations over the original context where the ramp begins and ends
	AttentionFactor      float64 // yarn, longrope: multiplies cos and sin; 0 means derived from the other fields
	MScale, MScaleAllDim float64 // yarn; 0 if not given
	KeepFraction         bool    // yarn: do not round the ramp's ends to whole dimensions ("truncate": false)

	ShortFactors, LongFactors []float64 // longrope: divisors of the frequencies up to OriginalMaxPositions tokens, and beyond

	QueryBeta float64 // queries at position p are multiplied by 1 + QueryBeta·ln(1 + ⌊p/OriginalMaxPositions⌋)
}

// Window returns the number of tokens, itself included, that a token attends to in a layer; 0 means
// all tokens before it.
func (c *Config) Window(layer int) int {
	if layer < len(c.SlidingLayers) && c.SlidingLayers[layer] {
		return c.SlidingWindow
	}
	return 0
}

// Limits on sizes, far above any model's. They keep the product of two sizes within 63 bits.
const (
	maxDimension = 1 << 24
	maxLayers    = 1 << 12
)

// Rotates reports whether a layer has RoPE.
func (c *Config) Rotates(layer int) bool { return c.NoRope == nil || !c.NoRope[layer] }

// demands collects what a config violates.
type demands []error

func (d *demands) add(ok bool, format string, args ...any) {
	if !ok {
		*d = append(*d, fmt.Errorf(format, args...))
	}
}

// check returns one error that lists every impossible value. Of a foreign model it checks what any engine reads.
func (c *Config) check() error {
	var d demands
	for _, s := range []struct {
		key   string
		value int
		max   int
	}{
		{"hidden_size", c.HiddenSize, maxDimension}, {"num_hidden_layers", c.NumLayers, maxLayers},
		{"num_attention_heads", c.NumHeads, 1 << 16}, {"num_key_value_heads", c.NumKVHeads, 1 << 16}, {"head_dim", c.HeadDim, 1 << 16},
		{"vocab_size", c.VocabSize, maxDimension}, {"max_position_embeddings", c.MaxPositions, 1 << 30},
	} {
		d.add(s.value > 0 && s.value <= s.max, "%s is %d; expected 1 to %d", s.key, s.value, s.max)
	}
	d.add(c.Head == CausalLM || c.NumLabels > 0 && c.NumLabels <= maxLabels,
		"the head has %d labels (id2label, num_labels); expected 1 to %d", c.NumLabels, maxLabels)
	d.add(c.InitializerRange > 0 && c.InitializerRange <= 1, "initializer_range is %v; expected 0 to 1", c.InitializerRange)
	if c.Foreign != nil {
		return together(d)
	}
	d.add(c.IntermediateSize > 0 && c.IntermediateSize <= maxDimension,
		"intermediate_size is %d; expected 1 to %d", c.IntermediateSize, maxDimension)
	if c.NumKVHeads > 0 {
		d.add(c.NumHeads%c.NumKVHeads == 0, "num_attention_heads %d is not a multiple of num_key_value_heads %d", c.NumHeads, c.NumKVHeads)
	}
	d.add(c.rotated()%2 == 0 && c.rotated() >= 0 && c.rotated() <= c.HeadDim,
		"RoPE rotates %d of the head's %d dimensions (head_dim, partial_rotary_factor); expected an even number of them", c.rotated(), c.HeadDim)
	d.add(c.RMSNormEps > 0 && c.RMSNormEps < 1, "rms_norm_eps is %v; expected a small positive number", c.RMSNormEps)
	d.add(c.RopeTheta > 1 && c.RopeTheta < 1e30, "rope_theta is %v; expected a number above 1", c.RopeTheta)
	d.add(c.SlidingWindow >= 0 && c.SlidingWindow <= 1<<30, "sliding_window is %d; expected a positive number", c.SlidingWindow)
	d.add(c.SlidingWindow == 0 || len(c.SlidingLayers) == c.NumLayers,
		"layer_types has %d entries; expected %d", len(c.SlidingLayers), c.NumLayers)
	c.variation.check(c, &d)
	d.add(c.NoRope == nil || len(c.NoRope) == c.NumLayers, "no_rope_layers has %d entries; expected %d", len(c.NoRope), c.NumLayers)
	if c.RopeScaling != nil {
		d = append(d, c.RopeScaling.check(c.rotated()))
	}
	if c.Mixture != nil {
		d = append(d, c.Mixture.check(c.NumLayers))
	}
	return together(d)
}

// Differs returns the first setting of other that makes it compute differently from c, such as
// "RopeTheta is 10000, not 500000"; "" if there is none.
func (c *Config) Differs(other *Config) string {
	mine, theirs := reflect.ValueOf(*c), reflect.ValueOf(*other)
	for _, field := range reflect.VisibleFields(mine.Type()) {
		switch field.Name {
		case "PartOf", "variation", "BOS", "EOS", "PAD", "InitializerRange", "Raw", "RawGeneration", "Foreign":
		default:
			if a, b := mine.FieldByIndex(field.Index).Interface(), theirs.FieldByIndex(field.Index).Interface(); !reflect.DeepEqual(a, b) {
				return fmt.Sprintf("%s is %v, not %v", field.Name, b, a)
			}
		}
	}
	return ""
}

// Vision returns what makes features of images in the model; nil if it reads none.
func (c *Config) Vision() *Vision {
	if c.Foreign == nil {
		return nil
	}
	return c.Foreign.Vision
}
