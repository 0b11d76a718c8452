package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	_ "github.com/trinity-go/trinity/workflow"
)

// handedOn are packs of three lakes whose four directions are unknown. A player writes down the
// direction that led to the goal, else one that it has not tried, and goes where its hints say. One
// time in four it does anything.
func handedOn(out map[string][]row) {
	const dir, lakes = "connect_the_dots/data/", 3
	w, err := registry.Workflows.Build("cod_frozenlake_obscure_workflow", map[string]any{
		"mapping_mode": "per_pack", "desc": []string{"SG"}, "agent_max_steps": 2, "cod": map[string]any{"hint_prompt": "H"},
		"environment_args": map[string]any{"ask": "{map}", "tell": "{map}", "unread": "?"},
	})
	if err != nil {
		log.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(18, 0))
	for i := range 300 {
		player := &player{rng: rng}
		pack := &trinity.Task{ID: fmt.Sprint("pack/", i)}
		for range lakes {
			pack.Pack = append(pack.Pack, &trinity.Task{Row: map[string]any{}})
		}
		m := &trinity.Model{Sampler: player, Renderer: player}
		if _, err := w.Run(context.Background(), &trinity.Rollout{Task: pack, Seed: rng.Uint64(), Model: m}); err != nil {
			log.Fatal(err)
		}
		out[dir+"warmup.jsonl"] = append(out[dir+"warmup.jsonl"], player.rows...)
	}
	for i := range 384 {
		out[dir+"train.jsonl"] = append(out[dir+"train.jsonl"], row{"lake": i})
	}
	for i := range 96 {
		out[dir+"eval.jsonl"] = append(out[dir+"eval.jsonl"], row{"lake": i})
	}
}

// player is a policy, and the renderer that shows it a chat.
type player struct {
	trinity.Renderer
	rng  *rand.Rand
	chat []trinity.Message
	said string
	rows []row
}

// Render implements [trinity.Renderer].
func (p *player) Render(messages []trinity.Message, _ json.RawMessage, _ bool) ([]int32, error) {
	p.chat = messages
	return []int32{0}, nil
}

// Bridge implements [trinity.Renderer].
func (p *player) Bridge(history, more []trinity.Message, _ json.RawMessage, _ bool) ([]int32, error) {
	p.chat = slices.Concat(history, more)
	return []int32{0}, nil
}

// Read implements [trinity.Renderer].
func (p *player) Read([]int32, json.RawMessage) (trinity.Message, []trinity.ToolCall, error) {
	return trinity.Message{Role: "assistant", Content: p.said}, nil, nil
}

// Decode implements [trinity.Renderer].
func (p *player) Decode([]int32) string { return p.said }

// StopTokens implements [trinity.Renderer].
func (p *player) StopTokens() []int32 { return []int32{1} }

var (
	triedPattern = regexp.MustCompile(`Direction (\d)`)
	hintPattern  = regexp.MustCompile(`(?s)Hints that you wrote.*\n(\d)`)
)

// Sample implements [trinity.Sampler]. It replies to the chat.
func (p *player) Sample(context.Context, trinity.Prompt, trinity.SamplingParams) ([]trinity.Completion, error) {
	text := ""
	for _, m := range p.chat {
		text += m.Content + "\n"
	}
	var tried []string
	for _, m := range triedPattern.FindAllStringSubmatch(text, -1) {
		tried = append(tried, m[1])
	}
	left := slices.DeleteFunc([]string{"1", "2", "3", "4"}, func(d string) bool { return slices.Contains(tried, d) })
	way := left[p.rng.IntN(len(left))]
	careless := fmt.Sprint(p.rng.IntN(4) + 1)
	hint := hintPattern.FindStringSubmatch(text)
	switch {
	case p.rng.IntN(4) == 0:
		way = careless
	case strings.Contains(text, "Reward: 1"):
		way = tried[len(tried)-1]
	case hint != nil && len(tried) == 0:
		way = hint[1]
	}
	if p.said = "Direction " + way; p.chat[0].Content == "H" {
		p.said = "<hints>" + way + "</hints>"
	}
	var messages []row
	for _, m := range p.chat {
		messages = append(messages, row{"role": m.Role, "content": m.Content})
	}
	p.rows = append(p.rows, row{"messages": append(messages, row{"role": "assistant", "content": p.said})})
	return []trinity.Completion{{Tokens: []int32{1}, Logprobs: []float32{0}, FinishReason: "stop"}}, nil
}
