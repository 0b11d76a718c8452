// Package failpoint breaks the process at a named place, on purpose: tests see what a kill, a full disk or a broken one leaves behind there.
//
// The environment variable TRINITY_FAILPOINTS, which is read once, when the process starts, says where and how:
//
//	TRINITY_FAILPOINTS="durable.file.rename=kill@3; durable.log.record=enospc"
//
// A rule is the name of a place, or * for all of them together, an action, and the number of the hit from which on it acts; 1 is the first. Where
// nothing is set a place costs a comparison.
package failpoint

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync/atomic"
)

// Point is a place.
type Point struct {
	name string
	hits atomic.Int64
}

// points are all places by name: they register while packages are initialized, and are read after that.
var points = map[string]*Point{}

// New names a place, once in a program: it is for package variables.
func New(name string) *Point {
	if points[name] != nil {
		panic("failpoint " + name + " is named twice")
	}
	p := &Point{name: name}
	points[name] = p
	return p
}

// Names are those of all places, sorted.
func Names() []string { return slices.Sorted(maps.Keys(points)) }

// Hits counts how often each place was come to; nothing is counted unless TRINITY_FAILPOINTS is set.
func Hits() map[string]int64 {
	out := map[string]int64{}
	for name, p := range points {
		out[name] = p.hits.Load()
	}
	return out
}

// Hit is called at a place. The error is one of the operating system, of what is done to path there; "" where it is no file.
func (p *Point) Hit(path string) error {
	if !on {
		return nil
	}
	return p.hit(path)
}

func (p *Point) hit(path string) error { return p.fail(path, p.act(path, func() {})) }

// Write writes data to w, which is the file of that path. A process that is killed here has written half of it, and so has one that gets an error.
func (p *Point) Write(w io.Writer, path string, data []byte) (int, error) {
	if !on {
		return w.Write(data)
	}
	written := 0
	half := func() { written, _ = w.Write(data[:len(data)/2]) } // it fails in any case
	if err := p.fail(path, p.act(path, half)); err != nil {
		return written, err
	}
	return w.Write(data)
}

// Forced says whether the rare case of a place is to be taken for given.
func (p *Point) Forced() bool { return on && p.act("", func() {}) == force }

// act does what the rules have for this hit, after before, and returns the action; "" is none.
func (p *Point) act(path string, before func()) (did action) {
	p.hits.Add(1)
	for _, r := range rules {
		switch {
		case r.name != p.name && r.name != everywhere || r.hits.Add(1) < r.from:
		case r.action == trace:
			fmt.Fprintln(os.Stderr, "failpoint", p.name, path)
		default:
			did = cmp.Or(did, r.action)
		}
	}
	if did != none && did != force && did != sleep {
		before()
	}
	did.now()
	return did
}

func (p *Point) fail(path string, did action) error {
	err, ok := errorOf[did]
	switch {
	case !ok:
		return nil
	case path == "":
		return fmt.Errorf("failpoint %s: %w", p.name, err)
	}
	return &fs.PathError{Op: "failpoint " + p.name, Path: path, Err: err}
}

// killMyself ends the process as SIGKILL does: nothing deferred runs, nothing is flushed.
func killMyself() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		panic(fmt.Sprintf("failpoint: %v", err))
	}
	select {} // until the signal comes
}
