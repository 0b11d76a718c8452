package model

var _ = register("llama", family{
	class: "LlamaForCausalLM", kvHeadsOptional: true, hasAttentionBias: true, hasMLPBias: true, maxPositions: 2048,
	gguf: ggufForm{interleaved: true, divisors: true, biases: true},
})
