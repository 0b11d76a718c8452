package model

var _ = register("mistral", family{
	class: "MistralForCausalLM", slidingWindow: 4096, slidingEverywhere: true, maxPositions: 131072,
	gguf: ggufForm{name: "llama", interleaved: true, divisors: true, biases: true},
})
