package trinitytest

import (
	"testing"

	"github.com/trinity-go/trinity"
)

func TestBanditIsASampler(t *testing.T) {
	Sampler(t, SamplerOptions{Vocab: 8, OneToken: true}, func(*testing.T) trinity.Sampler { return NewBandit(8) })
}
