package environment

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Environments.Register("blackjack",
		"The policy plays a hand of blackjack against a dealer, who draws below 17. Rules are Gymnasium's Blackjack-v1, with its draws for "+
			"equal seeds: cards come from a deck without end, and a reply that is neither hit nor stick loses. Reward: 1 won, 0 drawn, -1 lost. "+
			"Words of the messages: {cards}, {sum}, {ace}, {dealer}. Metrics: success; valid, 1 unless a reply named no action.",
		func() trinity.EnvironmentOpener {
			return &blackjack{SuttonAndBarto: true,
				Ask: "You play blackjack. Hit to take another card, stick to stop; above 21 you lose. Aces count 1 or 11, face cards 10. " +
					"Think first, then write Hit or Stick between ``` and ```, such as ```Hit```.\n\n" + whatIsDealt,
				Tell: whatIsDealt}
		})
}

const whatIsDealt = "Your cards: {cards}, sum {sum}{ace}. The dealer shows {dealer}."

// blackjack is the game.
type blackjack struct {
	Ask            string `yaml:"ask" doc:"first message to the policy; {words} stand for the cards"`
	Tell           string `yaml:"tell" doc:"message after a hit, with the same words"`
	SuttonAndBarto bool   `yaml:"sab" doc:"an ace and a ten win over any other hand, as in the book of Sutton and Barto"`
	Natural        bool   `yaml:"natural" doc:"without sab: an ace and a ten that win earn 1.5"`
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (b *blackjack) OpenEnvironment(context.Context, *trinity.Task) (trinity.Environment, error) {
	return &hand{args: b}, nil
}

// hand is one episode.
type hand struct {
	inMemory
	args           *blackjack
	random         *numpyRandom
	player, dealer cards
}

type cards []int

// sum returns the best sum of the cards, and whether an ace counts 11 in it.
func (c cards) sum() (sum int, ace bool) {
	for _, card := range c {
		sum += card
	}
	if slices.Contains(c, 1) && sum+10 <= 21 {
		return sum + 10, true
	}
	return sum, false
}

// score returns the sum, or 0 if it is too high.
func (c cards) score() int {
	if sum, _ := c.sum(); sum <= 21 {
		return sum
	}
	return 0
}

// natural reports whether the cards are an ace and a ten.
func (c cards) natural() bool { return len(c) == 2 && c.score() == 21 }

func (h *hand) card() int { return min(h.random.below(13)+1, 10) }

// Reset implements [trinity.Environment].
func (h *hand) Reset(_ context.Context, seed uint64) (trinity.Observation, error) {
	h.random = newNumpyRandom(seed)
	h.dealer = cards{h.card(), h.card()}
	h.player = cards{h.card(), h.card()}
	h.random.below(4) // the suit and the picture of the dealer's card
	if h.dealer[0] == 10 {
		h.random.below(3)
	}
	return h.says(h.args.Ask), nil
}

// says returns what the policy reads.
func (h *hand) says(text string) trinity.Observation {
	sum, usable := h.player.sum()
	ace := ""
	if usable {
		ace = " with an ace as 11"
	}
	held := strings.Trim(strings.ReplaceAll(fmt.Sprint([]int(h.player)), " ", ", "), "[]")
	return says(text, fmt.Sprintf("sum %d dealer %d ace %v", sum, h.dealer[0], usable),
		"{cards}", held, "{sum}", strconv.Itoa(sum), "{ace}", ace, "{dealer}", strconv.Itoa(h.dealer[0]))
}

// Step implements [trinity.Environment].
func (h *hand) Step(_ context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	reward, valid := 0.0, 1.0
	switch chosen(a.Text, []string{"Stick", "Hit"}) {
	case 0:
		reward, out.Done = h.stick(), true
	case 1:
		h.player = append(h.player, h.card())
		if out.Done = h.player.score() == 0; out.Done {
			reward = -1
		}
	default:
		reward, valid, out.Done = -1, 0, true
	}
	out.Observation, out.Reward = h.says(h.args.Tell), &reward
	out.Metrics = map[string]float64{"success": asNumber(reward > 0), "valid": valid}
	return out, nil
}

// stick lets the dealer draw and returns the reward.
func (h *hand) stick() float64 {
	for sum, _ := h.dealer.sum(); sum < 17; sum, _ = h.dealer.sum() {
		h.dealer = append(h.dealer, h.card())
	}
	own, other := h.player.score(), h.dealer.score()
	switch {
	case h.args.SuttonAndBarto && h.player.natural() && !h.dealer.natural():
		return 1
	case own < other:
		return -1
	case own == other:
		return 0
	case !h.args.SuttonAndBarto && h.args.Natural && h.player.natural():
		return 1.5
	default:
		return 1
	}
}
