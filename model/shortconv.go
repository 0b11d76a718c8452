package model

// ShortConv describes layers with a gated short convolution in place of attention (LFM2): in_proj makes B, C and x of the normed
// input, and out_proj reads C·conv(B·x). The convolution is causal and has taps of its own for each channel.
type ShortConv struct {
	Taps   int    // tokens that a token reads, itself included
	Layers []bool // [NumLayers] which layers have it
}

// maxTaps bounds the taps of a convolution, far above any model's.
const maxTaps = 16

// convName is the weight of a layer's convolution, [hidden, 1, taps]; the last tap is that of the token itself.
const convName = "conv.conv.weight"

// convProjections are the linear maps around a convolution.
var convProjections = projectionNames{qkv: []string{"conv.in_proj"}, output: []string{"conv.out_proj"}}

// Convolves reports whether a layer has a short convolution in place of attention.
func (v *variation) Convolves(layer int) bool { return v.ShortConv != nil && v.ShortConv.Layers[layer] }

func (s *ShortConv) check(layers int, d *demands) {
	d.add(s.Taps > 0 && s.Taps <= maxTaps, "conv_L_cache is %d; expected 1 to %d", s.Taps, maxTaps)
	d.add(len(s.Layers) == layers, "layer_types has %d entries; expected %d", len(s.Layers), layers)
}
