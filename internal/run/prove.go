package run

import (
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/weights"
)

// probeOf returns how versions of a model's weights are proven, nil if they are not.
func probeOf(cfg *Settled) (*weights.Probe, error) {
	if cfg.Synchronizer.Verify == "off" {
		return nil, nil
	}
	m, err := model.ReadConfig(cfg.modelPath)
	if err != nil {
		return nil, err
	}
	return &weights.Probe{Vocab: m.VocabSize, Length: config.Value(m.MaxPositions, cfg.Model.MaxModelLen), Digests: digests(cfg)}, nil
}

// prove makes a follower prove each version that a sampler loads, if it can be proven.
func prove(s *stage, follower *weights.Follower, alone bool) {
	if p, ok := s.sampler.(weights.Provable); ok && s.Synchronizer.Verify != "off" {
		follower.Prove(p, alone, digests(s.Settled), s.say)
	}
}

// digests returns the versions between two comparisons of the digests of servers, 0 for none.
func digests(cfg *Settled) int {
	if cfg.Synchronizer.Verify != "full" {
		return 0
	}
	return cfg.Synchronizer.VerifyInterval
}

// samplesAlone reports whether nobody samples while an explorer's sampler loads a version: the step has
// ended, and no other explorer may use the same servers.
func samplesAlone(cfg *Settled) bool {
	_, of := cfg.Explorer.Part()
	return of == 1 && handovers[cfg.Synchronizer.SyncStyle] == weights.AtRendezvous
}
