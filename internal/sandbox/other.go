//go:build !linux

package sandbox

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"strings"

	"github.com/trinity-go/trinity/internal/process"
)

// Layers returns no layer that works.
func Layers() (all []Layer) {
	for _, name := range []string{namespaces, landlocked, filtered, limited, grouped} {
		all = append(all, Layer{Name: name, Gives: "only on Linux", Note: "not on " + runtime.GOOS})
	}
	return all
}

// run runs the program as this user.
func (s *Sandbox) run(parent context.Context, p *Program) (r Result, err error) {
	if len(p.Folders) > 0 {
		return r, errNoFolders
	}
	ctx, stop := context.WithCancelCause(parent)
	defer stop(nil)
	place, err := newFolder()
	if err != nil {
		return r, err
	}
	defer place.remove()
	work := place.work()
	if err := writeFiles(work, p.Files); err != nil {
		return r, err
	}
	of := process.Program{Command: p.Command, Dir: work, Alone: true, Env: map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": work, "TMPDIR": work, "TMP": work, "TEMP": work, "SYSTEMROOT": os.Getenv("SYSTEMROOT"),
	}}
	for _, v := range p.Env {
		name, value, _ := strings.Cut(v, "=")
		of.Env[name] = value
	}
	cmd, killRest, err := of.Cmd(ctx)
	if err != nil {
		return r, err
	}
	defer killRest()
	cmd.Stdin = bytes.NewReader(p.Stdin)
	return watch(ctx, stop, cmd, p.Limits, func() error { return nil })
}
