package service_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/trinity-go/trinity/engine/torch"
	_ "github.com/trinity-go/trinity/launcher"

	"github.com/trinity-go/trinity/internal/run/service"
	"github.com/trinity-go/trinity/trinitytest"
)

// Environment of a process that is a service, and of its worker.
const (
	torchDir     = "TRINITY_TEST_TORCH_DIR"
	torchAddress = "TRINITY_TEST_TORCH_ADDRESS"
	torchMark    = "TRINITY_TEST_TORCH_MARK"
)

func TestMain(m *testing.M) {
	if model := os.Getenv(serverModel); model != "" {
		fmt.Fprintln(os.Stderr, actAsServer(model))
		os.Exit(1)
	}
	dir := os.Getenv(torchDir)
	if dir == "" {
		os.Exit(m.Run())
	}
	err := service.Run(context.Background(), service.Options{
		Dir: dir, Models: []service.Model{{Name: "tiny", Path: tiny}}, Trainer: "torch", Sampler: "cpu", Address: os.Getenv(torchAddress),
		TrainerArgs: map[string]any{"python": os.Getenv("TRINITY_TORCH_PYTHON"), "env": map[string]any{torchMark: dir}},
		MaxLen:      32, Alpha: 32, Gap: time.Minute, Keep: time.Hour, Say: func(line string) { fmt.Fprintln(os.Stderr, line) },
	})
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// torchService is a service whose models a worker of PyTorch trains.
type torchService struct {
	t            *testing.T
	dir, address string
	process      *exec.Cmd
}

func (s *torchService) start() {
	s.t.Helper()
	s.process = exec.Command(os.Args[0])
	s.process.Env = append(os.Environ(), torchDir+"="+s.dir, torchAddress+"="+s.address)
	s.process.Stderr = os.Stderr
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.kill)
}

func (s *torchService) kill() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

// killWorker kills the processes whose environment says that they are of the worker.
func (s *torchService) killWorker() {
	s.t.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	killed := 0
	for _, file := range files {
		environ, _ := os.ReadFile(file) // other users' are not read
		if !bytes.Contains(environ, []byte(torchMark+"="+s.dir)) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	if killed == 0 {
		s.t.Error("the worker has no process")
	}
}

// loop runs a loop of the SDK and returns what it has printed last. at does something after some steps.
func (s *torchService) loop(python string, at map[string]func()) string {
	s.t.Helper()
	script, err := filepath.Abs("testdata/loop.py")
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.CommandContext(s.t.Context(), python, script)
	cmd.Dir = s.t.TempDir()
	cmd.Env = append(os.Environ(), "TINKER_BASE_URL=http://"+s.address, "TINKER_API_KEY=tml-local", "HF_HUB_OFFLINE=1", "TINKER_TELEMETRY=0")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	lines, last := bufio.NewScanner(out), ""
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		last = lines.Text()
		if do := at[last]; do != nil {
			do()
		}
	}
	if err := cmd.Wait(); err != nil {
		s.t.Fatalf("%v: %s", err, errs.String())
	}
	return last
}

// A loop of the unmodified SDK trains with PyTorch. It gets the same bits if the worker is killed, and then the service.
func TestTorchTrainsForClients(t *testing.T) {
	trinitytest.TorchPython(t)
	python := os.Getenv("TRINITY_TINKER_PYTHON")
	if python == "" {
		t.Skip("TRINITY_TINKER_PYTHON names no Python that has tinker")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	s := &torchService{t: t, dir: t.TempDir(), address: address}
	s.start()
	want := s.loop(python, nil)
	s.kill()
	s = &torchService{t: t, dir: t.TempDir(), address: address}
	s.start()
	got := s.loop(python, map[string]func(){"step 3": s.killWorker, "step 8": func() {
		s.kill()
		s.start()
	}})
	if got != want || !strings.HasPrefix(want, "[[") {
		t.Errorf("with kills: %s; without: %s", got, want)
	}
}
