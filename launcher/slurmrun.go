package launcher

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
)

var _ Scheduler = (*slurm)(nil)

// Script implements Scheduler. The driver runs on the job's first machine. It is told two
// minutes before the limit of time, so that it saves what it has.
func (s *slurm) Script(g trinity.ProcessGroup) (string, error) {
	var text strings.Builder
	text.WriteString(s.head(g, s.runLog("%j")) + "#SBATCH --signal=B:TERM@120\n")
	if err := export(&text, g.Env); err != nil {
		return "", err
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

// Submit implements Scheduler. The job has the variables of this process.
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

// Status implements Scheduler.
func (*slurm) Status(ctx context.Context, id string) (string, bool, error) {
	state, err := stateOf(ctx, id)
	return state.words, state.ended, err
}

// Logs implements Scheduler.
func (s *slurm) Logs(ctx context.Context, id string, follow bool, w io.Writer) error {
	var at int64
	more := func() (err error) {
		at, err = copyFrom(w, s.runLog(id), at)
		return err
	}
	if !follow {
		return more()
	}
	return watchJob(id).follow(ctx, more)
}

// copyFrom copies what a file has from a place on, and returns the place where it ends. There may be
// no file yet.
func copyFrom(w io.Writer, path string, offset int64) (int64, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return offset, nil
	}
	if err != nil {
		return offset, err
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return offset, err
	}
	n, err := io.Copy(w, f)
	return offset + n, err
}

// Down implements Scheduler. The driver gets a minute to end by itself.
func (*slurm) Down(ctx context.Context, id string) error {
	if state, err := stateOf(ctx, id); state.ended || err != nil {
		return err
	}
	politely, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := tool(politely, nil, "scancel", "--batch", "--signal=TERM", id); err == nil {
		if _, err := watchJob(id).end(politely, nil); err == nil {
			return nil
		}
	}
	if _, err := tool(ctx, nil, "scancel", id); err != nil {
		return err
	}
	_, err := watchJob(id).end(ctx, nil)
	return err
}
