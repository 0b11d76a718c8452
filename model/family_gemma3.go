package model

import "encoding/json"

var _ = register("gemma3", family{
	class: "Gemma3ForConditionalGeneration", kvHeadsOptional: true, headDim: 256, tied: true, maxPositions: 131072, foreign: true,
	read: func(r *configReader) { // which published models leave out
		for key, value := range map[string]json.Number{"num_attention_heads": "8", "num_key_value_heads": "4", "vocab_size": "262208"} {
			if r.raw[key] == nil {
				r.raw[key] = value
			}
		}
	},
})
