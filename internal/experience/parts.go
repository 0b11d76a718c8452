package experience

import (
	"strings"

	"github.com/trinity-go/trinity"
)

// ByPart makes each part (Experience.Part) of a group a group of its own, in the order in which the parts begin. has reports
// whether a group has several.
func ByPart(groups []trinity.Group) (apart []trinity.Group, has bool) {
	for _, g := range groups {
		var names []string
		parts := map[string]trinity.Group{}
		for _, e := range g {
			if parts[e.Part] == nil {
				names = append(names, e.Part)
			}
			parts[e.Part] = append(parts[e.Part], e)
		}
		if len(names) < 2 {
			apart = append(apart, g)
			continue
		}
		has = true
		for _, name := range names {
			apart = append(apart, parts[name])
		}
	}
	return apart, has
}

// MetricOf returns the name of a metric of one part: critic/score is critic/judge_score for the part judge. Replies have the plain
// names.
func MetricOf(part, name string) string {
	if part == "" {
		return name
	}
	at := strings.LastIndex(name, "/") + 1
	return name[:at] + part + "_" + strings.TrimPrefix(name[at:], part+"_")
}
