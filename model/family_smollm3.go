package model

var _ = register("smollm3", family{
	class: "SmolLM3ForCausalLM", hasAttentionBias: true, hasMLPBias: true, tied: true, maxPositions: 32768, ropeTheta: 2e6, noRopeEvery: 4,
	gguf: ggufForm{interleaved: true, divisors: true, biases: true},
})
