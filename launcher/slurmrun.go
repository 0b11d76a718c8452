package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
)

var _ trinity.Scheduler = (*slurm)(nil)

// Script implements trinity.Scheduler. The driver runs on the job's first machine. It is told two
// minutes before the limit of time, so that it saves what it has.
func (s *slurm) Script(g trinity.ProcessGroup) (string, error) {
	var text strings.Builder
	text.WriteString(s.head(g, s.runLog("%j")) + "#SBATCH --signal=B:TERM@120\n")
	for _, name := range slices.Sorted(maps.Keys(g.Env)) {
		if !variableName.MatchString(name) {
			return "", fmt.Errorf("a script cannot set the variable %q: rename it", name)
		}
		fmt.Fprintf(&text, "export %s=%s\n", name, quote(g.Env[name]))
	}
	command := g.Command
	if command[0] == "trinity" {
		own, err := os.Executable()
		if err != nil {
			return "", err
		}
		command = append([]string{cmp.Or(s.Program, own)}, command[1:]...)
	}
	return text.String() + "exec " + quoteAll(command) + "\n", nil
}

// runLog returns the file with the output of a run.
func (s *slurm) runLog(id string) string { return filepath.Join(s.Folder, "run-"+id+".log") }

// Submit implements trinity.Scheduler. The job has the variables of this process.
func (s *slurm) Submit(ctx context.Context, g trinity.ProcessGroup) (string, error) {
	script, err := s.Script(g)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(s.Folder, 0o755); err != nil {
		return "", err
	}
	return submit(ctx, script)
}

// Status implements trinity.Scheduler.
func (*slurm) Status(ctx context.Context, id string) (string, bool, error) { return stateOf(ctx, id) }

// Logs implements trinity.Scheduler.
func (s *slurm) Logs(ctx context.Context, id string, follow bool, w io.Writer) error {
	var at int64
	for {
		_, ended, err := stateOf(ctx, id) // before the copy, which so has all of a run that has ended
		if follow && err != nil {
			return err
		}
		if at, err = copyFrom(w, s.runLog(id), at); err != nil {
			return err
		}
		if ended || !follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
}

// copyFrom copies what a file has from a place on, and returns the place where it ends. There may be
// no file yet.
func copyFrom(w io.Writer, path string, at int64) (int64, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return at, nil
	}
	if err != nil {
		return at, err
	}
	defer f.Close()
	if _, err := f.Seek(at, io.SeekStart); err != nil {
		return at, err
	}
	n, err := io.Copy(w, f)
	return at + n, err
}

// Down implements trinity.Scheduler. The driver gets a minute to end by itself.
func (*slurm) Down(ctx context.Context, id string) error {
	if _, ended, err := stateOf(ctx, id); ended || err != nil {
		return err
	}
	politely, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := tool(politely, nil, "scancel", "--batch", "--signal=TERM", id); err == nil {
		if _, err := awaitEnd(politely, id); err == nil {
			return nil
		}
	}
	if _, err := tool(ctx, nil, "scancel", id); err != nil {
		return err
	}
	_, err := awaitEnd(ctx, id)
	return err
}
