package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

// A script is run by a process of this very program: its interpreter does not count memory, and Go cannot refuse memory to a part of a process.

// scriptProcess is the name of such a process, by which it knows itself.
const scriptProcess = "trinity script"

// order is what the process is told first. Groups follow.
type order struct {
	Name, Text string
	MaxSteps   uint64
	MaxMemory  int  // MiB
	Trace      bool // say each line before it is run
}

// word is one thing that the process says.
type word struct {
	Print *string `json:",omitempty"`
	Line  int32   `json:",omitempty"`
	Kept  *string `json:",omitempty"` // of the next group, JSON objects; the first is empty: the script is loaded
	Error string  `json:",omitempty"`
}

// heard is what the process has said.
type heard struct {
	loaded bool
	kept   []string
	line   int32 // the last one that was begun
}

// death is the error of a process that has ended without an error of its own.
type death struct{ at, why string }

func (d *death) Error() string { return d.at + ": " + d.why }

// perform has the script edit the groups. When its process dies another one goes the same way, slowly, and tells the line.
func (o order) perform(ctx context.Context, asked []question) (heard, error) {
	h, err := o.start(ctx, asked)
	if died := new(death); errors.As(err, &died) {
		o.Trace = true
		left := asked[len(h.kept):]
		if again, err := o.start(ctx, left[:min(1, len(left))]); errors.As(err, new(*death)) && again.line > 0 {
			died.at = fmt.Sprintf("%s:%d", o.Name, again.line)
		}
	}
	return h, err
}

// start starts the process and hears it to its end.
func (o order) start(ctx context.Context, asked []question) (heard, error) {
	var input bytes.Buffer
	if err := json.NewEncoder(&input).Encode(o); err != nil {
		return heard{}, err
	}
	for _, q := range asked {
		input.WriteString(q.group)
	}
	program, err := thisProgram()
	if err != nil {
		return heard{}, err
	}
	out, said := &bounded{}, &ends{}
	cmd := exec.CommandContext(ctx, program)
	cmd.Args = []string{scriptProcess}
	cmd.Env = append(os.Environ(), "GOTRACEBACK=none", "GOMAXPROCS=2") // no stacks where it dies; the memory that it needs is not for the machine to say
	err = feed(cmd, input.Bytes(), out, said)
	h, failed := o.hear(out.text.Bytes())
	ended := new(exec.ExitError)
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case out.full:
		err = fmt.Errorf("%s: returned and printed more than %d MiB in one step", o.Name, maxAnswer>>20)
	case failed != nil:
		err = failed
	case errors.As(err, &ended):
		err = &death{o.Name, o.cause(ended, said.String())}
	case err != nil:
		err = fmt.Errorf("%s: its process: %w", o.Name, err)
	case !h.loaded || len(h.kept) < len(asked):
		err = fmt.Errorf("%s: its process ended without an answer: does a package of this program write to standard output as it begins?", o.Name)
	}
	return h, err
}

// hear reads what the process has said up to its error, and passes on what is printed.
func (o order) hear(said []byte) (h heard, failed error) {
	for d := json.NewDecoder(bytes.NewReader(said)); ; {
		var w word
		if d.Decode(&w) != nil { // there is no more, or it died over a word
			return h, nil
		}
		switch {
		case w.Error != "":
			return h, errors.New(w.Error)
		case w.Line > 0:
			h.line = w.Line
		case w.Kept != nil && h.loaded:
			h.kept = append(h.kept, *w.Kept)
		case w.Kept != nil:
			h.loaded = true
		case w.Print != nil && !o.Trace: // it was printed before
			fmt.Fprintln(os.Stderr, *w.Print)
		}
	}
}

// noMemory matches the panics of Go where a length is asked for that no memory has, and what its race detector says when it is refused memory.
var noMemory = regexp.MustCompile(`(len|cap) out of range|length overflow|too large|failed to allocate`)

// cause says why the process has died. Go that is refused memory dies of this or that, with status 2.
func (o order) cause(end *exec.ExitError, said string) string {
	switch {
	case noMemory.MatchString(said), end.ExitCode() == 2 && !strings.HasPrefix(said, "panic: "):
		return fmt.Sprintf("the script needs more memory than max_memory_mb = %d MiB: raise it, or make the script keep less", o.MaxMemory)
	case said == "":
		return fmt.Sprintf("the script's process was ended (%v), as by a system that is out of memory", end)
	}
	return fmt.Sprintf("the script's process ended with %v; it said: %s", end, said)
}
