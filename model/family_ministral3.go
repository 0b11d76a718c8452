package model

var _ = register("ministral3", family{class: "Ministral3ForCausalLM", kvHeadsOptional: true, maxPositions: 262144, foreign: true})
