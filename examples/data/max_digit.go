package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// maxDigits are the data of the examples of algorithms: which of two digits is the larger? 1,000 demonstrations answer with either, at random;
// the 100 questions have their answers in the forms that the algorithms read. Of the 90 with two digits, 20 are held out of the preferences.
func maxDigits(out map[string][]row) {
	const dir = "algorithms/data/"
	add := func(file string, r row) { out[dir+file+".jsonl"] = append(out[dir+file+".jsonl"], r) }
	ask := func(a, b int) string { return fmt.Sprintf("max %d %d", a, b) }
	answer := func(digit int) string { return fmt.Sprintf("<answer>%d</answer>", digit) }
	rng := rand.New(rand.NewPCG(7, 0))
	for range 1000 {
		digits := [2]int{rng.IntN(10), rng.IntN(10)}
		add("warmup", row{"question": ask(digits[0], digits[1]), "response": answer(digits[rng.IntN(2)])})
	}
	heldOut := map[int]bool{} // by place among the 90
	for _, place := range rng.Perm(90)[:20] {
		heldOut[place] = true
	}
	place := -1
	for i := range 100 {
		a, b := i/10, i%10
		right := answer(max(a, b))
		add("questions", row{"question": ask(a, b), "answer": fmt.Sprint(max(a, b))})
		add("right", row{"question": ask(a, b), "response": right})
		add("texts", row{"text": "<|im_start|>user\n" + ask(a, b) + "<|im_end|>\n<|im_start|>assistant\n" + right + "<|im_end|>"})
		if a == b {
			continue
		}
		wrong := answer(min(a, b))
		pair := row{"question": ask(a, b), "chosen": right, "rejected": wrong}
		if place++; heldOut[place] {
			add("held_out", pair)
			continue
		}
		add("pairs", pair)
		add("verdicts", row{"question": ask(a, b), "response": right, "label": true})
		add("verdicts", row{"question": ask(a, b), "response": wrong, "label": false})
	}
}

// maxDigitModel is the quickstart's, cut down to 91,456 parameters.
func maxDigitModel() error {
	from, to := "../quickstart/model", "../algorithms/model"
	for _, name := range []string{"config.json", "tokenizer.json", "tokenizer_config.json"} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return err
		}
		for key, size := range map[string][2]int{"hidden_size": {128, 64}, "intermediate_size": {384, 128}, "num_attention_heads": {4, 2}, "num_key_value_heads": {2, 1}} {
			data = bytes.Replace(data, fmt.Appendf(nil, "%q: %d,", key, size[0]), fmt.Appendf(nil, "%q: %d,", key, size[1]), 1)
		}
		if err := os.WriteFile(filepath.Join(to, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
