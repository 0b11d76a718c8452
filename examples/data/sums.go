package main

import "fmt"

// sumsForAlgorithms are answers to the sums of grpo_arithmetic_smollm2 that are not held out, in the form in which SmolLM2 replies: right ones, pairs
// with a wrong one that is too large or too small by one, and each of them with a verdict.
func sumsForAlgorithms(out map[string][]row) {
	const dir = "algorithms_smollm2/data/"
	add := func(file string, r row) { out[dir+file+".jsonl"] = append(out[dir+file+".jsonl"], r) }
	for _, sum := range out["grpo_arithmetic_smollm2/data/train.jsonl"] {
		var a, b int
		if _, err := fmt.Sscanf(sum["question"].(string), "What is %d+%d?", &a, &b); err != nil {
			panic(err)
		}
		answer := func(c int) string { return fmt.Sprintf("%d + %d = %d", a, b, c) }
		right := answer(a + b)
		add("right", row{"question": sum["question"], "response": right})
		for _, off := range []int{-1, 1} {
			wrong := answer(a + b + off)
			add("pairs", row{"question": sum["question"], "chosen": right, "rejected": wrong})
			add("verdicts", row{"question": sum["question"], "response": right, "label": true})
			add("verdicts", row{"question": sum["question"], "response": wrong, "label": false})
		}
	}
}
