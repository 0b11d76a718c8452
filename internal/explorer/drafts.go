package explorer

import (
	"time"

	"github.com/trinity-go/trinity"
)

// drafts is what the sampler's draft tokens have brought so far.
type drafts struct {
	verified, accepted int64
	saved              time.Duration
}

const (
	acceptedMetric = "rollout/draft_accept_rate"
	savedMetric    = "perf/draft_saved_time"
)

// measureDrafts adds the metrics of the drafts since the step before: those of rollouts, and of evaluations
// between the steps.
func (e *Explorer) measureDrafts(m trinity.Metrics) {
	if e.opts.Drafts == nil {
		return
	}
	before := e.drafts
	e.drafts.verified, e.drafts.accepted, e.drafts.saved = e.opts.Drafts()
	if n := e.drafts.verified - before.verified; n > 0 {
		m[acceptedMetric] = float64(e.drafts.accepted-before.accepted) / float64(n)
		m[savedMetric] = (e.drafts.saved - before.saved).Seconds()
	}
}
