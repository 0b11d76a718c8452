package model

var _ = register("qwen3_5_text", family{class: "Qwen3_5ForCausalLM", kvHeadsOptional: true, maxPositions: 32768, foreign: true})
