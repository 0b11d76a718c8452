package sweep

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/internal/rundir"
)

// LogFile is the file in a run's directory with what the run printed.
const LogFile = "sweep.log"

// start runs a run with settings as a child process, and waits for its end. It does not begin if the
// log says that the run has finished with these settings. The error has the line with which the run
// failed.
func (s *sweep) start(ctx context.Context, r *oneRun, settings []string) (began bool, err error) {
	cfg, err := s.Load(settings)
	if err != nil {
		return false, err
	}
	text, err := cfg.Differences()
	if err != nil {
		return false, err
	}
	finished := fmt.Sprintf("sweep: finished with settings %x\n", sha256.Sum256([]byte(text)))
	path := filepath.Join(r.dir, LogFile)
	before, err := os.ReadFile(path)
	if bytes.Contains(before, []byte(finished)) || err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	if err := durable.MkdirAll(r.dir, 0o755); err != nil {
		return false, err
	}
	if err := s.mark(r.dir); err != nil {
		return false, err
	}
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return false, err
	}
	defer log.Close()
	line, err := settingsLine(cfg)
	if err != nil {
		return false, err
	}
	if _, err := log.WriteString(line); err != nil {
		return false, err
	}
	if err := s.wait(ctx, log, settings); err != nil {
		all, readErr := os.ReadFile(path)
		return true, errors.Join(fmt.Errorf("%s (%s)", reason(string(all[min(len(before), len(all)):]), err), path), readErr)
	}
	_, err = log.WriteString(finished)
	return true, err
}

// mark writes of which sweep the run in a directory is, and what the sweep varies.
func (s *sweep) mark(dir string) error {
	of := rundir.Sweep{Name: s.base.Name}
	for _, v := range s.Varied {
		of.Varied = append(of.Varied, v.Key)
	}
	of.Varied = append(of.Varied, "seed")
	text, err := json.Marshal(of)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, rundir.SweepFile), append(text, '\n'))
}

// wait starts the child process and waits for its end. When ctx ends, the child gets the signal of
// Ctrl-C.
func (s *sweep) wait(ctx context.Context, log *os.File, settings []string) error {
	path, err := process.Self()
	if err != nil {
		return err
	}
	cmd := exec.Command(path, slices.Concat(s.Command, settings)...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdout, cmd.Stderr = log, log // a file: a pipe would break when this process is killed
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", max(1, runtime.GOMAXPROCS(0)/s.Parallel)))
	runtime.LockOSThread() // the child ends with the thread that started it
	defer runtime.UnlockOSThread()
	apart(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { stop(cmd) })()
	return cmd.Wait()
}

// reason returns the line that says why a run failed, of what it printed.
func reason(printed string, err error) string {
	lines := strings.Split(strings.TrimSpace(printed), "\n")
	for _, line := range lines {
		for _, begin := range []string{"trinity: ", "panic: ", "fatal error: "} {
			if rest, ok := strings.CutPrefix(line, begin); ok {
				return rest
			}
		}
	}
	return strings.TrimPrefix(lines[len(lines)-1]+": ", ": ") + err.Error()
}
