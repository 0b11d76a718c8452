package served

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/retry"
)

// digester is an endpoint whose server tells the digests of its tensors.
type digester interface {
	// digests returns the digests by the tensors' names. The error of a server that has none has status
	// 404.
	digests(ctx context.Context) (map[string]string, error)
}

// ofNothing begins the SHA-256 of no bytes. A server whose matrices are packed has it for them.
const ofNothing = "e3b0c44298fc1c149afbf4c8996fb924"

// compareDigests compares the digests of servers that have loaded the same version. Servers with tensors
// of the same names must have the same digests.
func (s *Sampler) compareDigests(ctx context.Context, v version, servers []*server) error {
	s.loads++
	if s.proving.Digests == 0 || (s.loads-1)%s.proving.Digests != 0 || s.adapter { // digests of the base say nothing
		return nil
	}
	type told struct {
		by      *server
		digests map[string]string
	}
	first := map[string]told{} // by the names of the tensors
	least := 1.0
	for _, at := range servers {
		all, err := s.digestsOf(ctx, at)
		if retry.IsTemporary(err) && ctx.Err() == nil { // it may have ended since, which the next request finds
			s.pool.say(fmt.Sprintf("%s: digests of version %d are not compared: %v", at.name(), v.number, err))
			all = nil
		} else if err != nil {
			return fmt.Errorf("%s: digests of version %d: %w", at.name(), v.number, err)
		}
		if all == nil {
			least = 0
			continue
		}
		names := slices.Sorted(maps.Keys(all))
		covered := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.HasPrefix(all[name], ofNothing) })
		least = min(least, float64(len(covered))/float64(max(1, len(names))))
		layout := strings.Join(names, "\n")
		one, ok := first[layout]
		if !ok {
			first[layout] = told{at, all}
			continue
		}
		for _, name := range names {
			if all[name] != one.digests[name] {
				return fmt.Errorf("%s: tensor %s of version %d differs from that of %s: start both anew", at.name(), name, v.number, one.by.name())
			}
		}
	}
	if s.loads == 1 && least < 1 {
		s.pool.say(fmt.Sprintf("the servers' digests cover %.0f %% of their tensors: the probe alone proves the others", 100*least))
	}
	s.proving.Covered(least)
	return nil
}

// digestsOf returns the digests of a server, nil if it has none. It says that once.
func (s *Sampler) digestsOf(ctx context.Context, at *server) (map[string]string, error) {
	d, ok := at.endpoint.(digester)
	if ok {
		all, err := d.digests(ctx)
		if statusOf(err) != 404 {
			return all, err
		}
	}
	if !at.mute {
		at.mute = true
		s.pool.say(at.name() + " tells no digests of its weights: synchronizer.verify full checks no more of it than probe")
	}
	return nil, nil
}

// digests implements digester.
func (s *vllmServer) digests(ctx context.Context) (map[string]string, error) {
	var reply struct{ Checksums map[string]string }
	err := s.client.Call(ctx, "/weight_checker", map[string]string{"action": "checksum"}, &reply)
	return reply.Checksums, err
}

// digests implements digester.
func (s *sglangServer) digests(ctx context.Context) (map[string]string, error) {
	var reply struct {
		Success bool
		Message string
		Ranks   []struct{ Checksums map[string]string }
	}
	if err := s.client.Call(ctx, "/weights_checker", map[string]string{"action": "checksum"}, &reply); err != nil {
		return nil, err
	}
	if !reply.Success {
		return nil, fmt.Errorf("weights_checker: %s", reply.Message)
	}
	all := map[string]string{}
	for rank, of := range reply.Ranks {
		for name, digest := range of.Checksums {
			all[fmt.Sprintf("rank %d: %s", rank, name)] = digest
		}
	}
	return all, nil
}
