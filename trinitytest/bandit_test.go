package trinitytest

import (
	"testing"

	"github.com/trinity-go/trinity"
)

func TestBanditIsASampler(t *testing.T) {
	Sampler(t, SamplerOptions{Vocab: 8, OneToken: true}, func(*testing.T) trinity.Sampler { return NewBandit(8) })
}

func TestBanditIsAnEngine(t *testing.T) {
	Engine(t, func(*testing.T) Trained {
		b := NewBandit(8)
		return Trained{Engine: b, Sampler: b, Targets: true}
	})
}

func TestCriticIsAnEngine(t *testing.T) {
	Engine(t, func(*testing.T) Trained {
		c := NewCritic(8)
		for v := range c.Weights {
			c.Weights[v] = 0.1 * float64(v+1)
		}
		return Trained{Engine: c, Value: true}
	})
}
