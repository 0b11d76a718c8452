package model

var _ = register("olmo3", family{
	class: "Olmo3ForCausalLM", classes: classes{without: []Head{TokenClassification}},
	kvHeadsOptional: true, hasAttentionBias: true, maxPositions: 2048, normEps: 1e-5,
	layerForm: layerForm{slidingWindow: 4096, slidingPattern: 4}, ropeTheta: olmoTheta, rotation: rotation{local: olmoTheta},
	variation: variation{QKNorm: true, WideQKNorm: true, PostNorms: true, NoPreNorms: true},
	read:      readOlmo,
	gguf:      ggufForm{lacks: "windows, norms and YaRN as these layers have them"},
})

const olmoTheta = 500000

// readOlmo gives layers with a window the base of the others, unless the file speaks of each: older files have one rope_theta,
// and a rope_scaling that is for layers without a window.
func readOlmo(r *configReader) {
	if r.raw["rope_parameters"] == nil {
		r.c.LocalRopeTheta = r.c.RopeTheta
	}
}
