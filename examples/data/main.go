// Command data writes the datasets of the examples, and the tiny model's shape: run it in this directory. Same bytes every time.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

//go:generate go run .

type row map[string]any

func main() {
	for path, rows := range datasets() {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		for _, r := range rows {
			if err := enc.Encode(r); err != nil {
				log.Fatal(err)
			}
		}
		path = filepath.Join("..", path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			log.Fatal(err)
		}
	}
	if err := maxDigitModel(); err != nil {
		log.Fatal(err)
	}
}

// datasets returns all files by their path under examples.
func datasets() map[string][]row {
	out := map[string][]row{}
	twoDigitSums(out)
	carriedSums(out)
	oneDigitSums(out)
	cities(out)
	maxDigits(out)
	sumsForAlgorithms(out)
	guessedNumbers(out)
	frozenLakes(out)
	handedOn(out)
	products(out)
	programs(out)
	colours(out)
	return out
}

// twoDigitSums are the quickstart's: 200 questions to evaluate on that are in neither of the others, 2,000 to explore, and as many
// demonstrations as the warm-up reads.
func twoDigitSums(out map[string][]row) {
	var pairs [][2]int
	for a := 10; a < 100; a++ {
		for b := 10; b < 100; b++ {
			pairs = append(pairs, [2]int{a, b})
		}
	}
	rng := rand.New(rand.NewPCG(1, 0))
	rng.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
	const dir = "quickstart/data/"
	for i, p := range pairs {
		question, answer := fmt.Sprintf("%d+%d=?", p[0], p[1]), fmt.Sprint(p[0]+p[1])
		switch {
		case i < 200:
			out[dir+"eval.jsonl"] = append(out[dir+"eval.jsonl"], row{"question": question, "answer": answer})
			const heldOut = "sweep/data/held_out.jsonl"
			out[heldOut] = append(out[heldOut], row{"question": question, "response": scratchpad(p[0], p[1])})
		default:
			out[dir+"sft.jsonl"] = append(out[dir+"sft.jsonl"], row{"question": question, "response": scratchpad(p[0], p[1])})
		}
	}
	explore := append([][2]int(nil), pairs[200:]...)
	rng.Shuffle(len(explore), func(i, j int) { explore[i], explore[j] = explore[j], explore[i] })
	for _, p := range explore[:2000] {
		out[dir+"train.jsonl"] = append(out[dir+"train.jsonl"], row{"question": fmt.Sprintf("%d+%d=?", p[0], p[1]), "answer": fmt.Sprint(p[0] + p[1])})
	}
}

// scratchpad adds column by column from the right; the third addend is the carry: 47+38 is 7+8=15,4+3+1=8.
func scratchpad(a, b int) string {
	var columns []string
	carry := 0
	for x, y := a, b; x > 0 || y > 0; x, y = x/10, y/10 {
		sum := x%10 + y%10 + carry
		column := fmt.Sprintf("%d+%d", x%10, y%10)
		if carry > 0 {
			column += "+1"
		}
		columns = append(columns, fmt.Sprintf("%s=%d", column, sum))
		carry = sum / 10
	}
	return fmt.Sprintf("<think>%s</think><answer>%d</answer>", strings.Join(columns, ","), a+b)
}

// oneDigitSums ask an instruction-tuned model; 16 of the 81 sums are held out of training.
func oneDigitSums(out map[string][]row) {
	var pairs [][2]int
	for a := 1; a < 10; a++ {
		for b := 1; b < 10; b++ {
			pairs = append(pairs, [2]int{a, b})
		}
	}
	rng := rand.New(rand.NewPCG(2, 0))
	rng.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
	const dir = "grpo_arithmetic_smollm2/data/"
	for i, p := range pairs {
		name := dir + "train.jsonl"
		if i < 16 {
			name = dir + "held_out.jsonl"
		}
		question := fmt.Sprintf("What is %d+%d? Answer with just the number.", p[0], p[1])
		out[name] = append(out[name], row{"question": question, "answer": fmt.Sprint(p[0] + p[1])})
	}
}

// cities ask for a city's country as JSON; the second list is held out of training.
func cities(out map[string][]row) {
	train := []string{
		"Paris/France", "Berlin/Germany", "Madrid/Spain", "Rome/Italy", "Tokyo/Japan", "Beijing/China", "Moscow/Russia", "Cairo/Egypt",
		"Athens/Greece", "Vienna/Austria", "Lisbon/Portugal", "Dublin/Ireland", "Oslo/Norway", "Stockholm/Sweden", "Helsinki/Finland",
		"Warsaw/Poland", "Budapest/Hungary", "Prague/Czech Republic", "Ottawa/Canada", "Hanoi/Vietnam",
	}
	heldOut := []string{
		"London/United Kingdom", "Copenhagen/Denmark", "Brussels/Belgium", "Lima/Peru", "Nairobi/Kenya", "Bangkok/Thailand", "Seoul/South Korea",
		"Santiago/Chile", "Sofia/Bulgaria", "Bucharest/Romania",
	}
	for name, list := range map[string][]string{"train": train, "held_out": heldOut} {
		path := "grpo_json_smollm2/data/" + name + ".jsonl"
		for _, entry := range list {
			city, country, _ := strings.Cut(entry, "/")
			answer, err := json.Marshal(map[string]string{"city": city, "country": country})
			if err != nil {
				log.Fatal(err)
			}
			question := fmt.Sprintf(`Which country is %s in? Reply only with JSON like {"city": "...", "country": "..."}`, city)
			out[path] = append(out[path], row{"question": question, "answer": string(answer)})
		}
	}
}
