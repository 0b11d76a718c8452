// Package failpoint makes a process fail at a named place on purpose. Tests see what a kill, a full
// disk or a broken disk leaves behind there.
//
// The environment variable TRINITY_FAILPOINTS says where and how; it is read once, at the start:
//
//	TRINITY_FAILPOINTS="durable.file.rename=kill@3; durable.log.record=enospc"
//
// A rule is the name of a place, or * for all places together, an action, and the number of the hit
// from which on it acts; 1 is the first. Without rules a place costs one comparison.
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
	"time"
)

// Point is a named place in the program.
type Point struct {
	name string
	hits atomic.Int64
}

// points holds all places by name. It is written only while packages are initialized.
var points = map[string]*Point{}

// New declares a place. Call it from package variables: each name may be declared once.
func New(name string) *Point {
	if points[name] != nil {
		panic("failpoint " + name + " is named twice")
	}
	p := &Point{name: name}
	points[name] = p
	return p
}

// Names returns the names of all places, sorted.
func Names() []string { return slices.Sorted(maps.Keys(points)) }

// Hits returns how often the process reached each place, all 0 unless TRINITY_FAILPOINTS is set.
func Hits() map[string]int64 {
	out := map[string]int64{}
	for name, p := range points {
		out[name] = p.hits.Load()
	}
	return out
}

// Hit marks that the process has reached the place. It returns the error of the operating system
// that a rule asks for, as an error of path; path is "" if the place uses no file.
func (p *Point) Hit(path string) error {
	if !on {
		return nil
	}
	return p.hit(path)
}

func (p *Point) hit(path string) error { return p.fail(path, p.act(path, func() {})) }

// Write writes data to w, the file at path. If a rule kills the process or asks for an error, it
// writes half of data first.
func (p *Point) Write(w io.Writer, path string, data []byte) (int, error) {
	if !on {
		return w.Write(data)
	}
	written := 0
	half := func() { written, _ = w.Write(data[:len(data)/2]) } // an error of this write does not matter: the place fails anyway
	if err := p.fail(path, p.act(path, half)); err != nil {
		return written, err
	}
	return w.Write(data)
}

// Forced reports whether a rule asks the place to behave as in its rare case.
func (p *Point) Forced() bool { return on && p.act("", func() {}) == force }

// act calls before and then does what the rules ask for at this hit. It returns the action; "" is
// none.
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

// killMyself ends the process like SIGKILL: no deferred function runs and nothing is flushed.
func killMyself() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		panic(fmt.Sprintf("failpoint: %v", err))
	}
	for { // until the signal comes: a process without other goroutines would end by itself in a select
		time.Sleep(time.Hour)
	}
}
