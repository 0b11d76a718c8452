package torch

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

// rankProcess returns the process of a rank of the worker.
func rankProcess(t *testing.T, w *worker, rank int) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		environ, _ := os.ReadFile(file) // other users' are not read
		local := []byte("\x00LOCAL_RANK=" + strconv.Itoa(rank) + "\x00")
		if bytes.Contains(environ, []byte("TRINITY_WORKER_TOKEN="+w.token)) && bytes.Contains(environ, local) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatalf("rank %d has no process", rank)
	return 0
}

// A rank that is killed ends the worker. The error names the rank and the verb in one line, and says
// that a new worker can take over.
func TestKilledRank(t *testing.T) {
	for _, rank := range []int{0, 1} {
		p, spec := realPlugin(t, nil), trained("llama")
		spec.Place = here(t, 2)
		e := opened(t, p, spec)
		if err := syscall.Kill(rankProcess(t, p.worker, rank), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_, err := e.Forward(t.Context(), randomBatch(64), trinity.Streams{})
		var lost *trinity.LostError
		if !errors.As(err, &lost) {
			t.Fatalf("%v; want the loss of the worker", err)
		}
		for _, want := range []string{"forward of ", "rank " + strconv.Itoa(rank) + " "} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("rank %d: %v; want %q", rank, err, want)
			}
		}
		if strings.Contains(err.Error(), "\n") || len(err.Error()) > 600 {
			t.Errorf("the error is no short line: %v", err)
		}
	}
}

// A rank that stands still is named when the time for a request is over, with the request and its
// micro-batch.
func TestStoppedRank(t *testing.T) {
	for rank, want := range map[int][]string{
		0: {"backward of ", "timeout = 8 s: rank 0 gives no sign of life"},
		1: {"backward of ", "timeout = 8 s (micro-batch 2 of the step): rank 1 on ", " has given no sign of life for "},
	} {
		t.Run(strconv.Itoa(rank), func(t *testing.T) {
			t.Parallel()
			p, spec := realPlugin(t, nil), trained("llama")
			spec.Place = here(t, 2)
			e := opened(t, p, spec)
			stop := func() {}
			for range 2 {
				p.worker.timeout = 8 * time.Second
				_, err := e.ForwardBackward(t.Context(), randomBatch(64), meanwhile{happens: stop})
				if stop = func() { _ = syscall.Kill(rankProcess(t, p.worker, rank), syscall.SIGSTOP) }; err == nil {
					continue
				}
				var lost *trinity.LostError
				if !errors.As(err, &lost) || strings.Contains(err.Error(), "\n") {
					t.Errorf("rank %d: %v; want the loss of the worker in one line", rank, err)
				}
				for _, part := range want {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("rank %d: %v; want %q", rank, err, part)
					}
				}
				stop = nil
			}
			if stop != nil {
				t.Errorf("rank %d was stopped, and the request succeeded", rank)
			}
		})
	}
}
