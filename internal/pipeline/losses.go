package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience/ledger"
)

// losses notes the experiences of a step that each part of the pipeline dropped.
type losses struct {
	step       int64
	came, left ledger.IDs
	parts      []string // that dropped some, in order
	by         map[string]ledger.IDs
}

func newLosses(step int64, groups []trinity.Group) losses {
	came := ledger.Of(groups)
	return losses{step: step, came: came, left: came, by: map[string]ledger.IDs{}}
}

// note records the groups that a part left.
func (l *losses) note(part string, groups []trinity.Group) {
	left := ledger.Of(groups)
	if dropped := ledger.Missing(l.left, left); len(dropped) > 0 {
		if l.by[part] == nil {
			l.parts = append(l.parts, part)
		}
		l.by[part] = append(l.by[part], dropped...)
	}
	l.left = left
}

// starve reports whether fewer than half of the experiences are left.
func (l *losses) starve() bool { return 2*len(l.left) < len(l.came) }

// record returns the step's record.
func (l *losses) record() ledger.Step {
	s := ledger.Step{Step: l.step, Explored: l.came, Dropped: l.by}
	if len(l.by) > 0 || !slices.Equal(l.came, l.left) {
		s.Put = l.left
	}
	return s
}

func (l *losses) String() string {
	words := make([]string, len(l.parts))
	for i, part := range l.parts {
		words[i] = fmt.Sprintf("%s dropped %d", part, len(l.by[part]))
	}
	return fmt.Sprintf("step %d: the pipeline left the trainer %d of %d experiences: %s", l.step, len(l.left), len(l.came),
		strings.Join(words, ", "))
}
