package main

import (
	"fmt"
	"math/rand/v2"
)

// guessedNumbers are games of three guesses at a number from 1 to 7. 2,000 demonstrations are of
// players who heed a hint half of the time and prefer the middle. Training and evaluation have a row for each number.
func guessedNumbers(out map[string][]row) {
	const dir, highest = "number_guess/data/", 7
	rng := rand.New(rand.NewPCG(11, 0))
	for range 2000 {
		number, from, to := 1+rng.IntN(highest), 1, highest
		messages := []row{{"role": "user", "content": fmt.Sprintf("1-%d", highest)}}
		for range 3 {
			guess := middling(rng, 1, highest)
			if rng.IntN(2) == 0 {
				guess = middling(rng, from, to)
			}
			messages = append(messages, row{"role": "assistant", "content": fmt.Sprint(guess)})
			if guess == number {
				break
			}
			hint := ">"
			if guess > number {
				hint = "<"
			}
			if from <= guess && guess <= to {
				if hint == "<" {
					to = guess - 1
				} else {
					from = guess + 1
				}
			}
			messages = append(messages, row{"role": "user", "content": hint})
		}
		if messages[len(messages)-1]["role"] == "user" {
			messages = messages[:len(messages)-1]
		}
		out[dir+"games.jsonl"] = append(out[dir+"games.jsonl"], row{"messages": messages})
	}
	for i := range 4 * highest {
		out[dir+"train.jsonl"] = append(out[dir+"train.jsonl"], row{"number": 1 + i%highest})
	}
	for i := range highest {
		out[dir+"eval.jsonl"] = append(out[dir+"eval.jsonl"], row{"number": 1 + i})
	}
}

// middling draws a number from a range, the middle ones most often.
func middling(rng *rand.Rand, from, to int) int {
	n := to - from + 1
	return from + (rng.IntN(n)+rng.IntN(n)+rng.IntN(2))/2
}
