package served

import (
	"fmt"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/weights"
)

// Hasten makes a sampler look at failed servers without pauses worth mentioning.
func Hasten(s trinity.Sampler) trinity.Sampler {
	own := s.(*Sampler)
	own.pool.pause = time.Millisecond
	if own.own != nil {
		own.own.pause = time.Millisecond
	}
	return s
}

// Share makes the servers of a sampler share GPUs with the trainer.
func Share(s trinity.Sampler) weights.Sleeper {
	s.(*Sampler).shares = true
	return s.(*Sampler)
}

// Limit sets the time of a phase, and the bytes that are sent at once.
func Limit(s trinity.Sampler, phase time.Duration, bucket int64) {
	s.(*Sampler).phase, s.(*Sampler).bucket = phase, bucket
}

// Why returns the last failure of one of a sampler's servers.
func Why(s trinity.Sampler, i int) string {
	p := s.(*Sampler).pool
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprint(p.servers[i].why)
}
