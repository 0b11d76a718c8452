package model

var _ = register("gemma2", family{class: "Gemma2ForCausalLM", kvHeadsOptional: true, tied: true, maxPositions: 8192, foreign: true})
