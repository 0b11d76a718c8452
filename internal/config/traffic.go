package config

import "fmt"

// Records reports whether mode serve records real traffic for a trainer.
func (s *Settled) Records() bool { return s.Mode == "serve" && s.Explorer.PendingExpiry > 0 }

// traffic checks that the algorithm can learn from real traffic.
func (r *rules) traffic() {
	const key = "explorer.pending_expiry"
	if !r.Records() {
		return
	}
	if r.Synchronizer.SyncStyle != "fully_async" {
		r.fail("synchronizer.sync_style", fmt.Sprintf("is %s, but real traffic waits for no version of the weights", r.Synchronizer.SyncStyle),
			"set it to fully_async, for the trainer too")
	}
	if r.Method.Needs.GreedyReward || r.Method.Distils {
		r.fail(key, fmt.Sprintf("records traffic, and %s needs more than its replies and rewards", r.Algorithm.AlgorithmType),
			"choose an algorithm without greedy rollouts and teachers")
	}
}
