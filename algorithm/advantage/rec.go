package advantage

import (
	"cmp"
	"context"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// REC is the advantage of the REC family (Yao et al. 2025, "Group-relative REINFORCE is secretly an
// off-policy algorithm"):
//
//	A_i = R_i − mean_G, at every trained token of rollout i
//	with std_normalize: divided by std_G + ε, where std_G has the divisor n
//
// With drop balance (RED-Drop), a group with more rollouts below its mean than at or above it loses
// the surplus: as many of those below, chosen at random, get A = 0. Mean and std are then of the
// others. The choice depends only on the ids of the experiences, so the same batch gives the same
// choice in any order. A group of one has mean 0 and std 1. Only experiences with a valid reward
// count.
//
// Metrics: as for rloo, and with drop balance drop_balance (experiences that got A = 0).
//
// Unlike Trinity-RFT: a group of one is defined, because there it fails the whole batch.
type rec struct {
	Epsilon      float64 `yaml:"epsilon" range:"(0,)" doc:"added to the standard deviation"`
	STDNormalize bool    `yaml:"std_normalize" doc:"divide by the standard deviation of the group"`
	Drop         *string `yaml:"drop" enum:"balance" doc:"balance ignores surplus rollouts below the group's mean; null keeps all"`
}

func init() {
	registry.Advantages.Register("rec",
		"Advantage of the REC family (Yao et al. 2025): the reward less the group's mean, with std_normalize over its std "+
			"(over n), with drop balance without the surplus of "+
			"rollouts below the mean; a group of one has mean 0 and std 1. Drops rollouts without a valid reward.",
		func() trinity.Advantage { return &rec{Epsilon: 1e-6} })
}

// Needs implements trinity.Advantage.
func (*rec) Needs() trinity.Needs { return trinity.Needs{Group: true} }

// Advantages implements trinity.Advantage.
func (a *rec) Advantages(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	dropped := 0
	kept, metrics, err := perGroup(groups, func(g trinity.Group, rewards []float64) []float64 {
		out := map[int]bool{}
		if a.Drop != nil {
			out = surplus(g, rewards)
			dropped += len(out)
		}
		return a.score(rewards, out)
	})
	if err == nil && a.Drop != nil {
		metrics["drop_balance"] = float64(dropped)
	}
	return kept, metrics, err
}

// score returns A of each rollout, 0 for the surplus.
func (a *rec) score(rewards []float64, out map[int]bool) []float64 {
	var left []float64
	for i, r := range rewards {
		if !out[i] {
			left = append(left, r)
		}
	}
	center, scale := mean(left), 1.0
	if len(left) == 1 {
		center = 0
	}
	if a.STDNormalize {
		scale = populationStd(left, center) + a.Epsilon
	}
	scores := make([]float64, len(rewards))
	for i, r := range rewards {
		if !out[i] {
			scores[i] = (r - center) / scale
		}
	}
	return scores
}

// populationStd returns the standard deviation with divisor n; 1 for a single value.
func populationStd(x []float64, center float64) float64 {
	if len(x) == 1 {
		return 1
	}
	sum := 0.0
	for _, v := range x {
		sum += (v - center) * (v - center)
	}
	return math.Sqrt(sum / float64(len(x)))
}

// surplus chooses the surplus rollouts below the mean.
func surplus(g trinity.Group, rewards []float64) map[int]bool {
	var below []int
	center := mean(rewards)
	for i, r := range rewards {
		if r < center {
			below = append(below, i)
		}
	}
	lot := func(i int) uint64 {
		hash := fnv.New64a()
		hash.Write([]byte(g[i].ID.String()))
		return rand.New(rand.NewPCG(hash.Sum64(), 0)).Uint64()
	}
	slices.SortFunc(below, func(i, j int) int { return cmp.Compare(lot(i), lot(j)) })
	out := map[int]bool{}
	for _, i := range below[:max(0, 2*len(below)-len(rewards))] {
		out[i] = true
	}
	return out
}
