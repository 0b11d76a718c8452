package model

var _ = register("mistral", family{
	class: "MistralForCausalLM", layerForm: layerForm{slidingWindow: 4096, slidingEverywhere: true}, maxPositions: 131072,
	gguf: ggufForm{name: "llama", interleaved: true, divisors: true, biases: true},
})

// Mistral Small 3.1 and Ministral 3 read images, too. The text part of the latter has a model_type of its own.
var _ = wraps("mistral3", composite{texts: []string{"mistral", "ministral3"}})
