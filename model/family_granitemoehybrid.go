package model

var _ = register("granitemoehybrid", family{class: "GraniteMoeHybridForCausalLM", kvHeadsOptional: true, maxPositions: 2048, foreign: true})
