package pipeline

import (
	"fmt"
	"strings"
)

// losses counts the experiences of a step that each part of the pipeline dropped.
type losses struct {
	step       int64
	came, left int
	by         []string
}

// note records the number of experiences that a part left.
func (l *losses) note(part string, left int) {
	if left < l.left {
		l.by = append(l.by, fmt.Sprintf("%s dropped %d", part, l.left-left))
	}
	l.left = left
}

// starve reports whether fewer than half of the experiences are left.
func (l *losses) starve() bool { return 2*l.left < l.came }

func (l *losses) String() string {
	return fmt.Sprintf("step %d: the pipeline left the trainer %d of %d experiences: %s", l.step, l.left, l.came, strings.Join(l.by, ", "))
}
