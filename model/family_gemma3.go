package model

var _ = register("gemma3", family{class: "Gemma3ForConditionalGeneration", kvHeadsOptional: true, maxPositions: 32768, wraps: true, foreign: true})
