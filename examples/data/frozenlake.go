package main

import (
	"context"
	"log"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	_ "github.com/trinity-go/trinity/environment"
	"github.com/trinity-go/trinity/registry"
)

// frozenLakes are walks over lakes of 4 × 4 cells: 500 over Gymnasium's, where the player reads the
// number of its cell, and 500 over random ones, where it reads the map. Each time the player knows
// the way one time in two, and else goes anywhere. No random map to evaluate on is among the others.
func frozenLakes(out map[string][]row) {
	const dir = "frozen_lake/data/"
	rng := rand.New(rand.NewPCG(14, 0))
	seen := map[string]bool{}
	for range 500 {
		positions, _ := walk(rng, row{"map_name": "4x4"}, 12)
		out[dir+"walks.jsonl"] = append(out[dir+"walks.jsonl"], row{"messages": positions})
	}
	for range 64 {
		out[dir+"train.jsonl"] = append(out[dir+"train.jsonl"], row{})
	}
	out[dir+"eval.jsonl"] = []row{{}}
	for seed := 0; len(out[dir+"maps_train.jsonl"]) < 2000; seed++ {
		lake := row{"size": 4, "p": 0.8, "seed": seed}
		_, maps := walk(rng, lake, 8)
		first := maps[0]["content"].(string)
		switch {
		case len(out[dir+"maps_eval.jsonl"]) < 200 && !seen[first]:
			out[dir+"maps_eval.jsonl"] = append(out[dir+"maps_eval.jsonl"], lake)
			seen[first] = true
		case seen[first]:
		case len(out[dir+"maps_walks.jsonl"]) < 500:
			out[dir+"maps_walks.jsonl"] = append(out[dir+"maps_walks.jsonl"], row{"messages": maps})
		default:
			out[dir+"maps_train.jsonl"] = append(out[dir+"maps_train.jsonl"], lake)
		}
	}
}

// walk walks over a lake. It returns the chat in which the player reads the number of its cell, and
// the one in which it reads the map.
func walk(rng *rand.Rand, lake row, steps int) (positions, maps []row) {
	opener, err := registry.Environments.Build("frozen_lake", map[string]any{
		"is_slippery": false, "max_steps": steps, "ask": "{position}\n{map}", "tell": "{position}\n{map}",
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	episode, err := opener.OpenEnvironment(ctx, &trinity.Task{Row: lake})
	if err != nil {
		log.Fatal(err)
	}
	seen, err := episode.Reset(ctx, 0)
	for done := false; !done; {
		if err != nil {
			log.Fatal(err)
		}
		position, drawn, _ := strings.Cut(seen.Messages[0].Content, "\n")
		ways := "LDRU"
		if rng.IntN(2) == 0 {
			ways = toGoal(position, drawn)
		}
		way := row{"role": "assistant", "content": string(ways[rng.IntN(len(ways))])}
		positions = append(positions, row{"role": "user", "content": position}, way)
		maps = append(maps, row{"role": "user", "content": drawn}, way)
		var next trinity.Outcome
		next, err = episode.Step(ctx, trinity.Action{Text: way["content"].(string)})
		seen, done = next.Observation, next.Done || next.Truncated
	}
	return positions, maps
}

// toGoal returns the first letters of the shortest ways to the goal of a map.
func toGoal(position, drawn string) (ways string) {
	cells := strings.Join(strings.Fields(drawn), "")
	beside := func(cell int) [4]int { // Left, Down, Right, Up
		return [4]int{max(cell-1, cell/4*4), min(cell+4, cell%4+12), min(cell+1, cell/4*4+3), max(cell-4, cell%4)}
	}
	far := slices.Repeat([]int{len(cells)}, len(cells))
	goal := strings.IndexByte(cells, 'G')
	far[goal] = 0
	for queue := []int{goal}; len(queue) > 0; queue = queue[1:] {
		for _, to := range beside(queue[0]) {
			if cells[to] != 'O' && far[to] > far[queue[0]]+1 {
				far[to] = far[queue[0]] + 1
				queue = append(queue, to)
			}
		}
	}
	cell, err := strconv.Atoi(position)
	if err != nil {
		log.Fatal(err)
	}
	for i, to := range beside(cell) {
		if far[to] < far[cell] {
			ways += "LDRU"[i : i+1]
		}
	}
	return ways
}
