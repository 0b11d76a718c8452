package main

import "fmt"

// carriedSums are 300 of the quickstart's sums to explore without a carry and 300 with one or two, as two tasksets. In place of the measured pass
// rates of two models the rows have what the number of carries suggests.
func carriedSums(out map[string][]row) {
	for _, sum := range out["quickstart/data/train.jsonl"] {
		var a, b int
		if _, err := fmt.Sscanf(sum["question"].(string), "%d+%d=?", &a, &b); err != nil {
			panic(err)
		}
		carries, file := 0, "plain"
		if a%10+b%10 > 9 {
			carries++
		}
		if a+b > 99 {
			carries++
		}
		if carries > 0 {
			file = "carry"
		}
		file = "curriculum/data/" + file + ".jsonl"
		if len(out[file]) < 300 {
			out[file] = append(out[file], row{"question": sum["question"], "answer": sum["answer"], "rates": row{"weak": float64(5-2*carries) / 10, "strong": float64(10-carries) / 10}})
		}
	}
}
