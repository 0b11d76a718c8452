package model

var _ = register("lfm2", family{class: "Lfm2ForCausalLM", kvHeadsOptional: true, tied: true, maxPositions: 128000, foreign: true})
