package main

import (
	"fmt"
	"math/rand/v2"
)

// products are products of two two-digit numbers: 160 to train with, and 40 others.
func products(out map[string][]row) {
	const dir = "exec_openai/data/"
	rng := rand.New(rand.NewPCG(12, 0))
	for i, k := range rng.Perm(90 * 90)[:200] {
		a, b := 10+k/90, 10+k%90
		file := dir + "train.jsonl"
		if i >= 160 {
			file = dir + "held_out.jsonl"
		}
		out[file] = append(out[file], row{"question": fmt.Sprintf("What is %d * %d?", a, b), "answer": fmt.Sprint(a * b)})
	}
}
