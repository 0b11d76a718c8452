package model

import (
	"cmp"
	"maps"
	"slices"
)

// ropeKeys are the keys that a rope_scaling or rope_parameters object may have.
var ropeKeys = []string{
	"rope_type", "type", "rope_theta", "factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor",
	"beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim", "truncate", "partial_rotary_factor",
	"short_factor", "long_factor",
	"finetuned", // a remark that some yarn checkpoints carry
}

// ropeKinds are the scalings that the embedded engine computes.
var ropeKinds = []string{"linear", "dynamic", "llama3", "yarn", "longrope"}

// queryKeys are the further keys of a family with a factor on queries.
var queryKeys = []string{"llama_4_scaling_beta", "max_position_embeddings"}

// rope reads rope_theta and rope_scaling. Newer files hold both in rope_parameters.
func (r *configReader) rope() {
	c := r.c
	c.RopeTheta = r.number("rope_theta", cmp.Or(r.ropeTheta, 10000))
	r.rotary(&r.object)
	if r.rotation.local != 0 {
		c.LocalRopeTheta = r.base("rope_local_base_freq", r.rotation.local)
	}
	for _, key := range []string{"rope_scaling", "rope_parameters"} {
		value := r.raw[key]
		if value == nil {
			continue
		}
		raw, ok := value.(map[string]any)
		if !ok {
			r.fail("%s is %v; expected an object", key, quoted(value))
			return
		}
		if len(raw) == 0 {
			continue
		}
		o := &object{raw: raw, path: key + ": "}
		if local := r.byLayerType(o); local != nil {
			c.LocalRopeTheta = local.base("rope_theta", r.rotation.local)
			if kind := local.text("rope_type", "default"); kind != "default" {
				r.lacks("%srope_type %q", local.path, kind)
			}
			r.errs = append(r.errs, local.errs...)
		}
		c.RopeTheta = o.number("rope_theta", c.RopeTheta)
		c.RopeScaling = r.scaling(o)
		r.errs = append(r.errs, o.errs...)
		return // rope_scaling wins, as in transformers
	}
	if r.rotation.queries {
		r.fail("rope_parameters is missing")
	}
}

// base reads a base of RoPE.
func (o *object) base(key string, missing float64) float64 {
	base := o.number(key, missing)
	if !(base > 1 && base < 1e30) {
		o.fail("%s is %v; expected a number above 1", key, base)
		return missing
	}
	return base
}

// byLayerType returns what newer files say of layers with a window, and leaves in o what they say of the others. It returns nil
// if o speaks of all layers.
func (r *configReader) byLayerType(o *object) *object {
	full, ok := o.raw["full_attention"].(map[string]any)
	sliding, isObject := o.raw["sliding_attention"].(map[string]any)
	if r.rotation.local == 0 || !ok || !isObject {
		return nil
	}
	local := &object{raw: sliding, path: o.path + "sliding_attention: "}
	o.raw, o.path = full, o.path+"full_attention: "
	return local
}

func (r *configReader) scaling(o *object) *RopeScaling {
	for _, key := range slices.Sorted(maps.Keys(o.raw)) {
		if !slices.Contains(ropeKeys, key) && !(r.rotation.queries && slices.Contains(queryKeys, key)) {
			r.lacks("%s%s", o.path, key)
		}
	}
	r.rotary(o)
	kind := o.text("rope_type", o.text("type", "default"))
	if r.rotation.long && (kind == "su" || kind == "yarn") {
		kind = "longrope"
	}
	switch {
	case r.rotation.queries && kind != "yarn":
		o.fail("type %q is unknown for %s, expected yarn", kind, r.c.Architecture)
		return nil
	case kind == "default":
		return nil
	case r.rotation.long && kind != "longrope":
		o.fail("type %q is unknown for %s; known are default, longrope", kind, r.c.Architecture)
	}
	if !slices.Contains(ropeKinds, kind) {
		r.lacks("%srope_type %q", o.path, kind)
		return nil
	}
	s := &RopeScaling{Type: kind, Factor: o.number("factor", 0)}
	switch kind {
	case "llama3":
		s.OriginalMaxPositions = o.integer("original_max_position_embeddings", r.c.MaxPositions)
		s.LowFreqFactor, s.HighFreqFactor = o.number("low_freq_factor", 0), o.number("high_freq_factor", 0)
	case "yarn":
		s.OriginalMaxPositions = o.integer("original_max_position_embeddings", r.c.MaxPositions)
		s.Factor = o.number("factor", float64(r.c.MaxPositions)/float64(max(s.OriginalMaxPositions, 1)))
		s.BetaFast, s.BetaSlow = o.number("beta_fast", 32), o.number("beta_slow", 1)
		s.AttentionFactor = o.factor("attention_factor", 0) // 0 means that it is derived
		s.MScale, s.MScaleAllDim = o.number("mscale", 0), o.number("mscale_all_dim", 0)
		s.KeepFraction = !o.flag("truncate", true)
		s.QueryBeta = o.number("llama_4_scaling_beta", 0)
	case "longrope":
		s.OriginalMaxPositions = r.integer("original_max_position_embeddings", o.integer("original_max_position_embeddings", 0))
		s.Factor = o.number("factor", max(1, float64(r.c.MaxPositions)/float64(max(s.OriginalMaxPositions, 1))))
		s.AttentionFactor = o.factor("attention_factor", 0) // 0 means that it is derived
		s.ShortFactors, s.LongFactors = o.numbers("short_factor"), o.numbers("long_factor")
	}
	return s
}

// factor reads a factor, whose product with a number of float32 neither vanishes nor overflows.
func (o *object) factor(key string, missing float64) float64 {
	factor := o.number(key, missing)
	if o.raw[key] != nil && !(factor >= smallestFactor && factor <= largestFactor) {
		o.fail("%s is %v; expected %g to %g", key, factor, smallestFactor, largestFactor)
		return missing
	}
	return factor
}

// rotary reads which part of each head RoPE rotates.
func (r *configReader) rotary(o *object) {
	switch part := o.number("partial_rotary_factor", 1); {
	case o.raw["partial_rotary_factor"] == nil:
	case part == 1:
		r.c.RotaryDim = 0
	case !r.rotation.partial:
		r.lacks("%spartial_rotary_factor %v", o.path, part)
	case !(part > 0 && part < 1):
		o.fail("partial_rotary_factor is %v; expected a number above 0, and 1 at most", part)
	default:
		r.c.RotaryDim = int(float64(r.c.HeadDim) * part)
	}
}

// noRope reads which layers have no RoPE: those with a 0 in no_rope_layers, else each
// no_rope_layer_interval-th.
func (r *configReader) noRope() {
	c := r.c
	if r.noRopeEvery == 0 {
		return
	}
	if r.flag("use_sliding_window", false) && r.raw["sliding_window"] != nil {
		r.lacks("use_sliding_window of a %s", c.Architecture)
	}
	if slices.Contains(r.layerTypes, "sliding_attention") {
		r.lacks("sliding_attention in layer_types of a %s", c.Architecture)
	}
	every := r.integer("no_rope_layer_interval", r.noRopeEvery)
	given := read(&r.object, "no_rope_layers", nil, layerList, asIntegers)
	switch {
	case c.NumLayers < 1 || c.NumLayers > maxLayers:
	case given == nil && every < 1:
		r.fail("no_rope_layer_interval is %d; expected a positive number", every)
	case given == nil:
		c.NoRope = withoutRope(c.NumLayers, every)
	case len(given) < c.NumLayers:
		r.fail("no_rope_layers has %d entries; expected %d", len(given), c.NumLayers)
	default:
		layers := make([]bool, c.NumLayers)
		for i := range layers {
			layers[i] = given[i] == 0
		}
		if slices.Contains(layers, true) {
			c.NoRope = layers
		}
	}
}

// withoutRope returns the layers of which each every-th has no RoPE; nil if all have it.
func withoutRope(layers, every int) []bool {
	if every == 0 || layers < every {
		return nil
	}
	without := make([]bool, layers)
	for i := range without {
		without[i] = (i+1)%every == 0
	}
	return without
}
