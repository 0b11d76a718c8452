package plan

import (
	"fmt"
	"strings"

	"github.com/trinity-go/trinity/internal/simulation"
)

// Who bounds a step.
const (
	byExplorer = "explorer" // the trainer waits for it
	byTrainer  = "trainer"
	byTurns    = "turns" // one works while the other waits
)

// Advice says what bounds a step, and which settings change that.
type Advice struct {
	Bound    string   `json:"bound"`          // now
	Then     string   `json:"then"`           // with the recommended settings
	Gain     float64  `json:"gain"`           // by which share these train more rollouts an hour; 0 if nobody could measure it
	Settings string   `json:"settings"`       // the recommended ones, as YAML
	Keys     []string `json:"keys"`           // settings that then bound the slower side
	Staler   bool     `json:"more_staleness"` // a larger bound on staleness could let both work at the same time
}

// turns is the share of the time in which only one of two sides works, from which on they take turns.
const turns = 0.9

// boundOf returns who bounds a step.
func boundOf(r *simulation.Report) string {
	switch {
	case r.ExplorerIdle+r.TrainerIdle >= turns && min(r.ExplorerIdle, r.TrainerIdle) > alike:
		return byTurns
	case r.TrainerIdle > r.ExplorerIdle:
		return byExplorer
	}
	return byTrainer
}

// advise compares the recommended choice with the current one. rollouts is how many a step has, and
// inFlight how many an explorer samples at once.
func (p *Planned) advise(rollouts, inFlight int) {
	now, then := p.Current.Report, p.Recommended.Report
	a := &Advice{Bound: boundOf(now), Then: boundOf(then), Settings: p.settings()}
	if gain := then.RolloutsPerHour/now.RolloutsPerHour - 1; gain > alike {
		a.Gain = gain
	}
	if a.Gain == 0 {
		a.Then = a.Bound
	}
	explores := []string{"explorer.share", "model.max_response_tokens"}
	if inFlight < rollouts {
		explores = append([]string{"explorer.runner_per_model"}, explores...)
	} else if p.Rates.Lengths.Spread > longTail {
		explores = append([]string{"buffer.batch_size"}, explores...)
	}
	trains := []string{"algorithm.repeat_times", "trainer.trainer_config.actor_rollout_ref.actor.ppo_mini_batch_size"}
	switch {
	case a.Then == byExplorer, a.Then == byTurns && p.Rates.Explore > p.Rates.Train:
		a.Keys = explores
	default:
		a.Keys = trains
	}
	a.Staler = a.Then == byTurns
	p.Advice = a
}

// longTail is the spread of response lengths from which on a few long responses hold up a step.
const longTail = 0.5

// settings returns the recommended settings as lines of YAML.
func (p *Planned) settings() string {
	var b strings.Builder
	section := ""
	for _, set := range p.Recommended.Set {
		key, value, _ := strings.Cut(set, "=")
		dot := strings.LastIndexByte(key, '.')
		if key[:dot] != section {
			section = key[:dot]
			name, of, _ := strings.Cut(section, ".")
			if name == "stages" {
				fmt.Fprintf(&b, "%s: # in stage %s\n", of[strings.LastIndexByte(of, '.')+1:], p.Stage)
			} else {
				fmt.Fprintf(&b, "%s:\n", name)
			}
		}
		fmt.Fprintf(&b, "  %s: %s\n", key[dot+1:], value)
	}
	return b.String()
}

// what the keys of an advice are for.
var help = map[string]string{
	"explorer.runner_per_model": "more workflows at once",
	"explorer.share":            "more explorers, each on its own machine",
	"model.max_response_tokens": "shorter responses",
	"buffer.batch_size":         "a larger batch, in which one long response holds up fewer others",
	"algorithm.repeat_times":    "fewer answers to a task",
	"trainer.trainer_config.actor_rollout_ref.actor.ppo_mini_batch_size": "fewer optimizer steps, each with more rollouts",
}

// String returns the advice as lines.
func (a *Advice) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "now %s\n", bounds[a.Bound])
	if a.Gain > 0 {
		fmt.Fprintf(&b, "the recommended settings train %.0f %% more rollouts an hour; then %s\n", 100*a.Gain, bounds[a.Then])
	} else {
		b.WriteString("no setting of the synchronizer trains more rollouts an hour\n")
	}
	if a.Staler {
		b.WriteString("a larger --max-staleness may let both work at the same time\n")
	}
	b.WriteString("what else shortens a step:\n")
	for _, key := range a.Keys {
		fmt.Fprintf(&b, "  %s: %s\n", key, help[key])
	}
	return b.String()
}

// bounds says who bounds a step.
var bounds = map[string]string{
	byExplorer: "the explorer bounds a step: the trainer waits for it",
	byTrainer:  "the trainer bounds a step: the explorer waits for it",
	byTurns:    "explorer and trainer take turns: a step takes the time of both",
}
