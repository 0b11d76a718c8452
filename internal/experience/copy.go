package experience

import (
	"maps"
	"slices"

	"github.com/trinity-go/trinity"
)

// Copy returns a copy of an experience that shares nothing that is edited, with a number added to
// that of its run, so that ids stay unique.
func Copy(e *trinity.Experience, runs int) *trinity.Experience {
	c := *e
	c.ID.Run += runs
	c.Tokens, c.Mask = slices.Clone(e.Tokens), slices.Clone(e.Mask)
	c.Logprobs, c.Advantages, c.Returns = slices.Clone(e.Logprobs), slices.Clone(e.Advantages), slices.Clone(e.Returns)
	c.RefLogprobs, c.TeacherLogprobs = slices.Clone(e.RefLogprobs), slices.Clone(e.TeacherLogprobs)
	c.Images = slices.Clone(e.Images)
	c.Metrics, c.Info, c.Reward.Parts = maps.Clone(e.Metrics), maps.Clone(e.Info), maps.Clone(e.Reward.Parts)
	return &c
}

// Runs returns a number above those of the runs of a group.
func Runs(g trinity.Group) (runs int) {
	for _, e := range g {
		runs = max(runs, e.ID.Run+1)
	}
	return runs
}
