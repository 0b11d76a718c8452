package pipeline

import (
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience"
)

// unsafeEntry is an entry of Info in a step that JSON cannot express.
type unsafeEntry struct {
	key   string
	first string // the first value, and the experience that has it
	in    int    // number of experiences
}

// clean removes values that JSON cannot express, such as NaN, from the Info of the experiences. It
// reports every such entry with its author. Thus training depends neither on the store nor on a
// restart.
func (p *Pipeline) clean(step int64, operator string, groups []trinity.Group) {
	var found []*unsafeEntry
	entries := map[string]*unsafeEntry{}
	for _, g := range groups {
		for _, e := range g {
			before := e.Info
			safe, changed := experience.JSONSafe(before)
			e.Info = safe
			for _, key := range changed {
				u := entries[key]
				if u == nil {
					u = &unsafeEntry{key: key, first: fmt.Sprintf("%.40s in experience %s", fmt.Sprint(before[key]), e.ID)}
					entries[key], found = u, append(found, u)
				}
				u.in++
			}
		}
	}
	for _, u := range found {
		p.Say(fmt.Sprintf("step %d: left out info.%s, wholly or in part, of %d of %d experiences, because JSON cannot express "+
			"it: first %s, set by %s",
			step, u.key, u.in, count(groups), u.first, operator))
	}
}
