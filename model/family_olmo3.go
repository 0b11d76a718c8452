package model

var _ = register("olmo3", family{class: "Olmo3ForCausalLM", kvHeadsOptional: true, maxPositions: 2048, foreign: true})
