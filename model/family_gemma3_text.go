package model

var _ = register("gemma3_text", family{class: "Gemma3ForCausalLM", kvHeadsOptional: true, tied: true, maxPositions: 131072, foreign: true})
