package model

var _ = register("idefics3", family{
	class: "Idefics3ForConditionalGeneration", kvHeadsOptional: true, maxPositions: 32768, foreign: true,
})
