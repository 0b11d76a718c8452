package served

import (
	"fmt"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/weights"
)

// Hasten makes a sampler look at failed servers without pauses worth mentioning.
func Hasten(s trinity.Sampler) trinity.Sampler {
	own := s.(*sampler)
	own.pool.pause = time.Millisecond
	if own.pool.servers.own != nil {
		own.pool.servers.own.pause = time.Millisecond
	}
	return s
}

// Share makes the servers of a sampler share GPUs with the trainer.
func Share(s trinity.Sampler) weights.Sleeper {
	s.(*sampler).pool.servers.shares = true
	return s.(*sampler)
}

// Limit sets the time of a phase, and the bytes that are sent at once.
func Limit(s trinity.Sampler, phase time.Duration, bucket int64) {
	s.(*sampler).loader.phase, s.(*sampler).loader.bucket = phase, bucket
}

// Why returns the last failure of one of a sampler's servers.
func Why(s trinity.Sampler, i int) string {
	l := s.(*sampler).pool.servers
	return fmt.Sprint(l.now(l.all[i]).why)
}
