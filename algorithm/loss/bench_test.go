package loss

import (
	"testing"

	"github.com/trinity-go/trinity"
)

// BenchmarkComposite is PPO with k2 and entropy over 64 sequences of 256 trained tokens.
func BenchmarkComposite(b *testing.B) {
	policy, _ := PolicyLosses.Build("ppo")
	kl, _ := KLs.Build("k2")
	bonus, _ := Entropies.Build("default")
	l := NewComposite(policy, kl, bonus)
	var batch []*trinity.Experience
	var now []trinity.TokenStats
	for range 64 {
		lp := make([]float32, 256)
		batch = append(batch, seq(1, lp, lp))
		now = append(now, at(lp...))
	}
	for b.Loop() {
		if _, _, err := l.Loss(whole(batch...), now); err != nil {
			b.Fatal(err)
		}
	}
}
