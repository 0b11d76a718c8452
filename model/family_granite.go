package model

var _ = register("granite", family{class: "GraniteForCausalLM", kvHeadsOptional: true, maxPositions: 2048, foreign: true})
