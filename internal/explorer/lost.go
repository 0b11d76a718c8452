package explorer

import (
	"maps"

	"github.com/trinity-go/trinity"
)

// lostTokens counts sampled tokens that no experience of a delivered group has, by the reason. Tokens that
// a workflow leaves out of its experiences are counted by countUntrained.
type lostTokens struct {
	failed    int // in attempts that failed
	cancelled int // in calls that gave no answer, and in rollouts that the step did not wait for
	dropped   int // in rollouts that succeeded, of a group that is not delivered, or that only gave a baseline
}

// count takes the tokens of one attempt. ended says that the step did not wait for it.
func (l *lostTokens) count(attempt ran, failed error, ended bool) {
	if attempt.model == nil { // it did not begin
		return
	}
	l.cancelled += attempt.model.LostTokens()
	sampled := attempt.model.SampledTokens()
	switch {
	case failed != nil && ended:
		l.cancelled += sampled
	case failed != nil:
		l.failed += sampled
	case len(attempt.exps) == 0:
		l.dropped += sampled
	}
}

// drop takes the tokens of rollouts that are not delivered, as far as they are not counted.
func (l *lostTokens) drop(rollouts ...ran) {
	for _, r := range rollouts {
		if len(r.exps) > 0 {
			l.dropped += r.model.SampledTokens()
		}
	}
}

func (l *lostTokens) add(more lostTokens) {
	l.failed += more.failed
	l.cancelled += more.cancelled
	l.dropped += more.dropped
}

// metrics returns the counts that are not 0.
func (l *lostTokens) metrics() trinity.Metrics {
	m := trinity.Metrics{
		"failed_token_count": float64(l.failed), "cancelled_token_count": float64(l.cancelled), "dropped_token_count": float64(l.dropped),
	}
	maps.DeleteFunc(m, func(_ string, v float64) bool { return v == 0 })
	return m
}

// countUntrained writes how many of the sampled tokens are in no experience, as a metric of the
// rollout's first experience.
func countUntrained(exps []*trinity.Experience, sampled int) {
	for _, e := range exps {
		sampled -= e.TrainedTokens()
	}
	if sampled <= 0 || len(exps) == 0 {
		return
	}
	m := map[string]float64{"untrained_token_count": float64(sampled)}
	maps.Copy(m, exps[0].Metrics)
	exps[0].Metrics = m
}
