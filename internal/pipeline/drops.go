package pipeline

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
)

// maxTold bounds the dropped answers of a step that a tracer is told of.
const maxTold = 8

// drops are the answers of a step that the pipeline dropped, one of each rollout: the last.
type drops struct {
	step int64
	all  []drop
	at   map[trinity.ExperienceID]int // the place of a rollout
}

type drop struct {
	*trinity.Experience
	part string // that dropped it
}

// note keeps the experiences of before that are not among the groups that a part left. What an operator
// took from another step belongs to no rollout of this one.
func (d *drops) note(part string, before trinity.Group, groups []trinity.Group) {
	if d.at == nil {
		d.at = map[trinity.ExperienceID]int{}
	}
	left := map[trinity.ExperienceID]bool{}
	for _, g := range groups {
		for _, e := range g {
			left[e.ID] = true
		}
	}
	for _, e := range before {
		if left[e.ID] || e.ID.Step != d.step {
			continue
		}
		rollout := rolloutOf(e)
		if i, ok := d.at[rollout]; !ok {
			d.at[rollout] = len(d.all)
			d.all = append(d.all, drop{e, part})
		} else if e.ID.Follows(d.all[i].ID) {
			d.all[i] = drop{e, part}
		}
	}
}

// rolloutOf returns the ID that the span of an experience's rollout has.
func rolloutOf(e *trinity.Experience) trinity.ExperienceID {
	id := e.ID
	id.Turn = 0
	return id
}

// tell tells the tracer of the first maxTold, those without a valid reward before the others.
func (d *drops) tell(tracer trinity.Tracer) {
	var invalid, valid []drop
	for _, x := range d.all {
		if x.Reward.Valid {
			valid = append(valid, x)
		} else {
			invalid = append(invalid, x)
		}
	}
	all := slices.Concat(invalid, valid)
	for _, x := range all[:min(maxTold, len(all))] {
		why := fmt.Sprintf("with reward %g", x.Reward.Value)
		if !x.Reward.Valid {
			why = "no valid reward: " + cmp.Or(x.Reward.Reason, "the workflow gave none")
		}
		prompt := min(max(x.PromptLen, 0), len(x.Tokens)) // a plug-in may say anything
		tracer.Failed(trinity.FailedRollout{
			ID: rolloutOf(x.Experience), Role: trinity.RoleExplorer, Kind: trinity.DroppedAnswer, Reason: "dropped by " + x.part + ", " + why,
			Prompt: slices.Clone(x.Tokens[:prompt]), Sampled: slices.Clone(x.Tokens[prompt:]), Question: x.Prompt, Truth: x.Truth, Time: time.Now(),
		})
	}
}
