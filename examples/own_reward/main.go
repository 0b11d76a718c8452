// Command own_reward is trinity with a reward function of its own.
package main

import (
	"context"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/command"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("share_reward",
		"The share of the reply's characters that are in `chars`. Part: share.",
		func() trinity.RewardFunc { return &Share{Chars: "0123456789"} })
}

// Share rewards replies that are written with few characters.
type Share struct {
	Chars string `yaml:"chars" required:"name the characters that count" doc:"characters that count"`
}

// Score implements trinity.RewardFunc.
func (s *Share) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	count, all := 0, 0
	for _, char := range in.Response {
		all++
		if strings.ContainsRune(s.Chars, char) {
			count++
		}
	}
	return trinity.NewReward(map[string]float64{"share": float64(count) / float64(max(1, all))}), nil
}

func main() { command.Main() }
