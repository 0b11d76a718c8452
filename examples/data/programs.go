package main

import (
	"fmt"
	"math/rand/v2"
)

// programs are tasks such as "n*4+3": a program in bash reads n and prints the result. Each of 2,000
// demonstrations has the right form; half of them compute something else. Every sixth task is held out.
// A task has one test, because from n = 20 on no two tasks have the same result.
func programs(out map[string][]row) {
	const dir = "code_reward/data/"
	rng := rand.New(rand.NewPCG(12, 0))
	program := func(factor int, sign string, term int) string {
		return fmt.Sprintf("read n;echo $((n*%d%s%d))", factor, sign, term)
	}
	type task struct {
		factor int
		sign   string
		term   int
	}
	var train []task
	for i := range 8 * 8 * 2 {
		t := task{2 + i%8, []string{"+", "-"}[i/64], 2 + i/8%8}
		n := 20 + rng.IntN(80)
		result := n*t.factor + t.term
		if t.sign == "-" {
			result = n*t.factor - t.term
		}
		tests := []row{{"input": fmt.Sprintln(n), "output": fmt.Sprintln(result)}}
		file := "train.jsonl"
		if i%6 == 5 {
			file = "eval.jsonl"
		} else {
			train = append(train, t)
		}
		out[dir+file] = append(out[dir+file], row{"question": fmt.Sprintf("n*%d%s%d", t.factor, t.sign, t.term), "tests": tests})
	}
	for range 2000 {
		asked := train[rng.IntN(len(train))]
		t := asked
		if rng.IntN(2) == 0 {
			t = task{2 + rng.IntN(8), []string{"+", "-"}[rng.IntN(2)], 2 + rng.IntN(8)}
		}
		out[dir+"demonstrations.jsonl"] = append(out[dir+"demonstrations.jsonl"], row{
			"question": fmt.Sprintf("n*%d%s%d", asked.factor, asked.sign, asked.term), "program": program(t.factor, t.sign, t.term),
		})
	}
}
