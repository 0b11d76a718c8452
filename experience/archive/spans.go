package archive

import (
	"fmt"
	"strings"
)

// spans are steps in ascending order: first and last of those that follow one another. A step of which nothing was left is in none.
type spans [][2]int64

// and is the spans with a step more, which is not before the last one.
func (s spans) and(step int64) spans {
	if n := len(s); n > 0 && step <= s[n-1][1]+1 {
		s[n-1][1] = max(step, s[n-1][1])
		return s
	}
	return append(s, [2]int64{step, step})
}

// those are the steps that pass.
func (s spans) those(pass func(step int64) bool) (out spans) {
	for _, of := range s {
		for step := of[0]; step <= of[1]; step++ {
			if pass(step) {
				out = out.and(step)
			}
		}
	}
	return out
}

// said are how many spans a line has room for.
const said = 5

func (s spans) String() string {
	var names []string
	for _, of := range s[:min(len(s), said)] {
		if of[0] == of[1] {
			names = append(names, fmt.Sprint(of[0]))
		} else {
			names = append(names, fmt.Sprintf("%d to %d", of[0], of[1]))
		}
	}
	if len(s) > said {
		names = append(names, fmt.Sprintf("others up to %d", s[len(s)-1][1]))
	}
	return strings.Join(names, ", ")
}
