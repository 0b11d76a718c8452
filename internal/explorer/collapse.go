package explorer

import (
	"math"
	"strings"

	"github.com/trinity-go/trinity"
)

// CollapsedShare is the metric with the share of the groups of a step that have collapsed onto one answer.
const CollapsedShare = "rollout/collapsed_group_share"

// leastGroups is the number of groups that may have one common answer by chance.
const leastGroups = 3

// collapsed returns the share of the groups whose rollouts have all given the same answer. Groups that have the
// highest reward of the run so far do not count, because they agree on what is right, unless nearly all answers of
// several groups are one, whatever their tasks. ok is false if no group has several answers to compare.
func (e *Explorer) collapsed(outcomes []*outcome) (share float64, ok bool) {
	groups, equal, right := 0, 0, 0
	given := map[string]int{} // answers, by text
	total, most := 0, 0
	for _, o := range outcomes {
		all, least := runs(o.group), math.Inf(1)
		texts, answers := make([]string, len(all)), map[string]bool{}
		for i, run := range all {
			texts[i] = answerOf(run)
			answers[texts[i]] = true
			if last := run[len(run)-1]; last.Reward.Valid {
				least, e.highest = min(least, last.Reward.Value), max(e.highest, last.Reward.Value)
			}
		}
		if len(all) < 2 || answers[""] {
			continue
		}
		groups++
		for _, answer := range texts {
			given[answer]++
			total, most = total+1, max(most, given[answer])
		}
		if len(answers) == 1 {
			equal++
			if least >= e.highest {
				right++
			}
		}
	}
	if groups == 0 {
		return 0, false
	}
	if groups <= leastGroups || most*10 < total*9 {
		equal -= right
	}
	return float64(equal) / float64(groups), true
}

// answerOf returns what the policy wrote in a rollout.
func answerOf(run trinity.Group) string {
	var text strings.Builder
	for _, x := range run {
		if x.Part == "" {
			text.WriteString(x.Response)
		}
	}
	return text.String()
}
