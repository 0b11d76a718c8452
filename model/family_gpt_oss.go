package model

var _ = register("gpt_oss", family{class: "GptOssForCausalLM", kvHeadsOptional: true, maxPositions: 131072, foreign: true})
