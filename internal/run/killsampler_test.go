//go:build unix

package run_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trinity-go/trinity/internal/failpoint"
	"github.com/trinity-go/trinity/trinitytest/server"
)

// Variables of a process that is a vLLM server of a run. The Python package vllm of the test starts it.
const (
	childServer     = "TRINITY_TEST_VLLM"         // arguments of vLLM
	childProject    = "TRINITY_TEST_VLLM_PROJECT" // directory of the project
	childServerPids = "TRINITY_TEST_VLLM_PIDS"    // file to which it appends its process id
)

// noWeights starts servers of a model without weights, which the run brings.
const noWeights = "explorer.rollout_model.extra_engine_args={load_format: dummy}"

// serveAsVLLM is a server until it is killed.
func serveAsVLLM(t *testing.T) {
	args := strings.Fields(os.Getenv(childServer))
	argument := func(name string) string { return args[slices.Index(args, name)+1] }
	p := project{dir: os.Getenv(childProject)}
	fake := server.VLLM(t, p.inServer(t, 99), server.Options{
		Vocab: servedVocab, MaxLen: servedLen, Develops: true, Fetches: true, CPU: true,
	})
	fake.Open = p.scoring(0, func() {})
	to, err := url.Parse(fake.URL)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(argument("--host"), argument("--port")))
	if err != nil {
		t.Fatal(err)
	}
	pids, err := os.OpenFile(os.Getenv(childServerPids), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err == nil {
		_, err = fmt.Fprintln(pids, os.Getpid())
	}
	if err = errors.Join(err, pids.Close()); err != nil {
		t.Fatal(err)
	}
	t.Fatal(http.Serve(l, httputil.NewSingleHostReverseProxy(to)))
}

// vllmPackage writes a Python package whose server is this program.
func vllmPackage(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, of := range []string{"vllm", "vllm/entrypoints", "vllm/entrypoints/openai"} {
		write(t, filepath.Join(dir, of, "__init__.py"), "")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "vllm/entrypoints/openai/api_server.py"), fmt.Sprintf(
		"import os, sys\nos.environ[%q] = ' '.join(sys.argv[1:])\nos.execv(%q, [%[2]q])\n", childServer, program))
	return dir
}

// killer kills the newest server as soon as the run says that it has reached a failpoint.
type killer struct {
	pids string // file

	mu     sync.Mutex
	output bytes.Buffer
	killed int
}

// Write implements io.Writer for the run's standard error.
func (k *killer) Write(data []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.output.Write(data)
	if k.killed > 0 || !strings.Contains(k.output.String(), "failpoint ") {
		return len(data), nil
	}
	if all := k.all(); len(all) > 0 && syscall.Kill(all[len(all)-1], syscall.SIGKILL) == nil {
		k.killed++
	}
	return len(data), nil
}

// all returns the process ids of the servers that have been started.
func (k *killer) all() (pids []int) {
	text, _ := os.ReadFile(k.pids)
	for line := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(line); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// A server that the run has started is killed at each point of a delivery, and while it samples. The run
// starts it again, delivers the version again and goes on: no experience is lost or comes twice, and no
// process is left.
func TestServerIsKilledInADelivery(t *testing.T) {
	if os.Getenv(childServer) != "" {
		serveAsVLLM(t)
	}
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3, which starts the programs of a run: it is not installed")
	}
	s := newKilling(t, scenario{"with servers of its own", []string{"synchronizer.sync_offset=1"}, (*killing).eachOnce}, 420)
	s.overrides = append(s.overrides, "explorer.rollout_model.engine_type=vllm", "explorer.rollout_model.engine_num=1", noWeights)
	points := []string{"served.file", "synchronizer.offer", "served.load", "served.loaded", "synchronizer.adopt", "explorer.weights"}
	if testing.Short() {
		points = points[:1]
	}
	packages := vllmPackage(t)
	for _, point := range points {
		k := &killer{pids: filepath.Join(t.TempDir(), "pids")}
		env := fmt.Sprintf("explorer.rollout_model.engine_args={python: %s, env: {PYTHONPATH: %s, TMPDIR: %s, %s: %s, %s: %s}}",
			python, packages, t.TempDir(), childProject, s.p.dir, childServerPids, k.pids)
		rules := fmt.Sprintf("%s=trace@3; %[1]s=sleep@3", point) // the kill comes before the run goes on
		run := s.p.startAs(t, func(c *exec.Cmd) { c.Stderr = k }, []string{failpoint.Variable + "=" + rules}, append(s.settings(s.p), env)...)
		if err := <-run.done; err != nil {
			t.Fatalf("%s: %v\n%s", point, err, &k.output)
		}
		s.done(t)
		if pids := k.all(); k.killed != 1 || len(pids) != 2 {
			t.Errorf("%s: %d kills, servers %v were started", point, k.killed, pids)
		}
		for _, pid := range k.all() {
			for syscall.Kill(pid, 0) == nil { // until its parent has seen its end
				time.Sleep(time.Millisecond)
			}
		}
	}
}
