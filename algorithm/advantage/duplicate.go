package advantage

import (
	"hash/fnv"
	"io"
	"math/rand/v2"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience"
)

// duplicates returns n copies of groups: every group once, in shuffled order, before any group a
// second time. The seed of the shuffle is a hash of the ids in the groups. It returns nil if there
// is nothing to copy.
func duplicates(groups []trinity.Group, n int) []trinity.Group {
	if len(groups) == 0 {
		return nil
	}
	hash := fnv.New64a()
	for _, g := range groups {
		for _, e := range g {
			io.WriteString(hash, e.ID.String()+"\n")
		}
	}
	random := rand.New(rand.NewPCG(hash.Sum64(), 0))
	var out []trinity.Group
	for round := 1; len(out) < n; round++ {
		for _, i := range random.Perm(len(groups))[:min(len(groups), n-len(out))] {
			out = append(out, duplicate(groups[i], round))
		}
	}
	return out
}

// duplicate returns a copy of a group that shares nothing that is edited. Its run numbers continue
// after the group's own, so ids stay unique.
func duplicate(g trinity.Group, round int) trinity.Group {
	runs := experience.Runs(g)
	out := make(trinity.Group, len(g))
	for i, e := range g {
		out[i] = experience.Copy(e, round*runs)
	}
	return out
}
