package model

var _ = register("phi3", family{class: "Phi3ForCausalLM", kvHeadsOptional: true, maxPositions: 4096, foreign: true})
