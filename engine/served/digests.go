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

// agreed are the digests of the version whose digests were compared last.
type agreed struct {
	version int64
	by      map[string]serverDigests // by the names of the tensors
}

// serverDigests are the digests of the first server with tensors of some names.
type serverDigests struct {
	server  *server
	digests map[string]string
}

// compareDigests compares the digests of servers that have loaded the same version. Servers with tensors
// of the same names must have the same digests.
func (p *proofs) compareDigests(ctx context.Context, v version, servers []*server) error {
	p.loads++
	if p.proving.Digests == 0 || (p.loads-1)%p.proving.Digests != 0 || p.servers.adapter { // digests of the base say nothing
		return nil
	}
	p.agreed = agreed{v.number, map[string]serverDigests{}}
	least := 1.0
	for _, s := range servers {
		covered, err := p.agree(ctx, s)
		if err != nil {
			return err
		}
		least = min(least, covered)
	}
	if p.loads == 1 && least < 1 {
		p.servers.say(fmt.Sprintf("the servers' digests cover %.0f %% of their tensors: the probe alone proves the others", 100*least))
	}
	p.proving.Covered(least)
	return nil
}

// agree compares the digests of a server with those of the servers before it, and returns the share of its
// tensors that they cover.
func (p *proofs) agree(ctx context.Context, s *server) (covered float64, err error) {
	all, err := p.digestsOf(ctx, s)
	if retry.IsTemporary(err) && ctx.Err() == nil { // it may have ended since, which the next request finds
		p.servers.say(fmt.Sprintf("%s: digests of version %d are not compared: %v", s.name(), p.agreed.version, err))
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("%s: digests of version %d: %w", s.name(), p.agreed.version, err)
	}
	names := slices.Sorted(maps.Keys(all))
	layout := strings.Join(names, "\n")
	one, ok := p.agreed.by[layout]
	if !ok {
		p.agreed.by[layout] = serverDigests{s, all}
	}
	for _, name := range names {
		if ok && all[name] != one.digests[name] {
			return 0, fmt.Errorf("%s: tensor %s of version %d differs from that of %s: start both anew",
				s.name(), name, p.agreed.version, one.server.name())
		}
	}
	return float64(len(names)-nothings(all)) / float64(max(1, len(names))), nil
}

// digestsOf returns the digests of a server, nil if it has none. It says that once.
func (p *proofs) digestsOf(ctx context.Context, s *server) (map[string]string, error) {
	d, ok := s.endpoint.(digester)
	if ok {
		all, err := d.digests(ctx)
		if statusOf(err) != 404 {
			return all, err
		}
	}
	if !s.mute {
		s.mute = true
		p.servers.say(s.name() + " tells no digests of its weights: synchronizer.verify full checks no more of it than probe")
	}
	return nil, nil
}
