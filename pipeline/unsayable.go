package pipeline

import (
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/experience"
)

// unsayable is an entry of Info that no store has a form for, in a step.
type unsayable struct {
	key   string
	first string // where it was found first, and what was there
	in    int    // experiences
}

// clean leaves out of the experiences' Info what no store has a form for, such as numbers that are not finite, and says so of every entry, with who made it. So
// what is trained on depends neither on the store nor on a restart.
func (p *Pipeline) clean(step int64, by string, groups []trinity.Group) {
	var found []*unsayable
	entries := map[string]*unsayable{}
	for _, g := range groups {
		for _, e := range g {
			before := e.Info
			said, changed := experience.Sayable(before)
			e.Info = said
			for _, key := range changed {
				u := entries[key]
				if u == nil {
					u = &unsayable{key: key, first: fmt.Sprintf("%.40s in experience %s", fmt.Sprint(before[key]), e.ID)}
					entries[key], found = u, append(found, u)
				}
				u.in++
			}
		}
	}
	for _, u := range found {
		p.Say(fmt.Sprintf("step %d: info.%s, of %s, is left out, in whole or in part, of %d of %d experiences, because JSON has no form for it: first %s",
			step, u.key, by, u.in, count(groups), u.first))
	}
}
