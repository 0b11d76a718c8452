package failpoint

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Variable is the environment variable with the rules.
const Variable = "TRINITY_FAILPOINTS"

// action is what a rule does at a place.
type action string

const (
	none  action = ""
	kill  action = "kill"  // kills the process
	sleep action = "sleep" // sleeps 20 ms, so that other goroutines run first
	force action = "force" // makes places that call Forced behave as in a rare case
	trace action = "trace" // prints the name of the place and the file on standard error
)

// errorOf lists the actions that are errors: a full disk, a broken disk, a read-only disk, and a
// directory without permission to write.
var errorOf = map[action]error{"enospc": syscall.ENOSPC, "eio": syscall.EIO, "erofs": syscall.EROFS, "eacces": syscall.EACCES}

func (a action) now() {
	switch a {
	case kill:
		killMyself()
	case sleep:
		time.Sleep(20 * time.Millisecond)
	}
}

// everywhere stands for all places together.
const everywhere = "*"

// rule is a part of TRINITY_FAILPOINTS.
type rule struct {
	name   string
	action action
	from   int64 // number of the hit
	hits   atomic.Int64
}

var (
	on           = os.Getenv(Variable) != ""
	rules, wrong = parse(os.Getenv(Variable))
)

// Check returns an error if TRINITY_FAILPOINTS is wrong, for example if it names an unknown place.
// Call it after all packages are initialized.
func Check() error {
	if wrong != nil {
		return wrong
	}
	for _, r := range rules {
		if r.name != everywhere && points[r.name] == nil {
			return fmt.Errorf("%s: there is no failpoint %s: the names are %s", Variable, r.name, strings.Join(Names(), ", "))
		}
	}
	return nil
}

func parse(text string) (rules []*rule, err error) {
	for part := range strings.SplitSeq(text, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		r, err := parseRule(part)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", Variable, part, err)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// parseRule parses name=action or name=action@number.
func parseRule(text string) (*rule, error) {
	name, what, ok := strings.Cut(text, "=")
	if !ok {
		return nil, fmt.Errorf("want name=action or name=action@number")
	}
	what, number, numbered := strings.Cut(what, "@")
	r := &rule{name: name, action: action(what), from: 1}
	known := append(slices.Sorted(maps.Keys(errorOf)), force, kill, sleep, trace)
	if !slices.Contains(known, r.action) {
		return nil, fmt.Errorf("action %q is none of %s", what, known)
	}
	if !numbered {
		return r, nil
	}
	var err error
	if r.from, err = strconv.ParseInt(number, 10, 64); err != nil || r.from < 1 {
		return nil, fmt.Errorf("hit %q: want a number from 1 on", number)
	}
	return r, nil
}
