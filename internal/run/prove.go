package run

import (
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/place"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/weights"
)

// prove makes a follower prove each version that a sampler loads, if it can be proven.
func prove(s *stage, follower *weights.Follower, alone bool) {
	if p, ok := s.models.Sampler.(weights.Provable); ok && s.Synchronizer.Verify != "off" {
		follower.Prove(p, alone, settle.Digests(s.Settled), s.say)
	}
}

// samplesAlone reports whether nobody samples while an explorer's sampler loads a version: the step has
// ended, and no other explorer may use the same servers.
func samplesAlone(cfg *config.Settled) bool {
	_, of := cfg.Explorer.Part()
	return of == 1 && place.Handover(cfg) == weights.AtRendezvous
}
