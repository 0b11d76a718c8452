package buffer

import (
	"fmt"
	"strings"

	"github.com/trinity-go/trinity"
)

// sharedStatus is what a wait knows of a buffer that explorers and the trainer reach from processes of their own.
type sharedStatus struct {
	put       int64 // experiences, in all
	rollouts  int64 // not taken
	explorers []sharedExplorer
}

type sharedExplorer struct {
	name   string
	paused int64
	closed bool
}

// barred says that nobody puts anything before a version after published.
func (s sharedStatus) barred(published int64) bool {
	return s.all(func(e sharedExplorer) bool { return e.closed || e.paused > published })
}

// closed says that nobody puts anything any more.
func (s sharedStatus) closed() bool { return s.all(func(e sharedExplorer) bool { return e.closed }) }

func (s sharedStatus) all(holds func(sharedExplorer) bool) bool {
	for _, e := range s.explorers {
		if !holds(e) {
			return false
		}
	}
	return len(s.explorers) > 0
}

// String says what the buffer holds, and who puts into it.
func (s sharedStatus) String() string {
	text := fmt.Sprintf("%d rollouts", s.rollouts)
	var names []string
	for _, e := range s.explorers {
		switch {
		case e.closed && e.name == trinity.YetToJoin:
		case e.closed:
			names = append(names, e.name+" has closed")
		case e.paused > 0:
			names = append(names, fmt.Sprintf("%s waits for version %d", e.name, e.paused))
		default:
			names = append(names, e.name+" may put more")
		}
	}
	if len(names) > 0 {
		text += " (" + strings.Join(names, ", ") + ")"
	}
	return text
}
