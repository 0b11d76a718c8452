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

// action is what is done at a place.
type action string

const (
	none  action = ""
	kill  action = "kill"  // ends the process
	sleep action = "sleep" // 20 ms, so that others come first
	force action = "force" // takes a rare case for given, at places that ask
	trace action = "trace" // says on standard error that the place was come to, and with which file
)

// errorOf are the actions that are errors: a full disk, a broken one, one that became read-only, a directory that may not be written.
var errorOf = map[action]error{"enospc": syscall.ENOSPC, "eio": syscall.EIO, "erofs": syscall.EROFS, "eacces": syscall.EACCES}

func (a action) now() {
	switch a {
	case kill:
		killMyself()
	case sleep:
		time.Sleep(20 * time.Millisecond)
	}
}

// everywhere is the name of all places together.
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

// Check says what is wrong with TRINITY_FAILPOINTS, such as the name of no place. It is called once all packages are initialized.
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

// parseRule reads name=action or name=action@number.
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
