package service_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/run/service"
	"github.com/trinity-go/trinity/internal/wire/tinker"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
	"github.com/trinity-go/trinity/trinitytest/server"
)

// Environment of a process that acts as vLLM's server: the directory of its model, and the file of its process ids.
const (
	serverModel = "TRINITY_TEST_SERVER_MODEL"
	serverPIDs  = "TRINITY_TEST_SERVER_PIDS"
)

// program is the host of a server that is a process.
type program string

func (program) Helper()           {}
func (program) Cleanup(func())    {}
func (p program) TempDir() string { return string(p) }

// actAsServer is vLLM's server at --host and --port.
func actAsServer(model string) error {
	opener, err := registry.Samplers.Build("cpu")
	if err != nil {
		return err
	}
	s, err := opener.OpenSampler(context.Background(), engine.SamplerSpec{ModelPath: model, MaxSequences: 8, MaxModelLen: 512})
	if err != nil {
		return err
	}
	fake := server.VLLM(program(filepath.Dir(os.Getenv(serverPIDs))), s, server.Options{Vocab: bytesOf, MaxLen: 512, LoRA: true, MaxRank: 32})
	to, err := url.Parse(fake.URL)
	if err != nil {
		return err
	}
	pids, err := os.OpenFile(os.Getenv(serverPIDs), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	fmt.Fprintln(pids, os.Getpid(), strings.Join(os.Args[1:], " "))
	argument := func(name string) string { return os.Args[slices.Index(os.Args, name)+1] }
	return http.ListenAndServe(argument("--host")+":"+argument("--port"), httputil.NewSingleHostReverseProxy(to))
}

// A service starts the server that it samples on, beside its trainer, starts it again when it has been killed, and ends it.
func TestAServiceStartsItsServers(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	model := quickstart(t, "")
	t.Run("cpu", func(t *testing.T) { startsItsServers(t, python, model, "cpu", nil) })
	t.Run("torch", func(t *testing.T) {
		startsItsServers(t, python, model, "torch", map[string]any{"python": trinitytest.TorchPython(t)})
	})
}

// modules writes the modules of vLLM that the start of a server looks for, and returns their directory.
func modules(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	module := filepath.Join(dir, "vllm", "entrypoints", "openai", "api_server.py")
	if err := os.MkdirAll(filepath.Dir(module), 0o755); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("import os, sys\nos.execv(%q, [%[1]q, *sys.argv[1:]])\n", os.Args[0])
	for file, text := range map[string]string{module: script, filepath.Join(dir, "vllm", "__init__.py"): ""} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func startsItsServers(t *testing.T, python, model, trainer string, args map[string]any) {
	dir := modules(t)
	pids := filepath.Join(dir, "pids")
	started := func() []string {
		text, _ := os.ReadFile(pids)
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	pid := func(n int) int {
		id, err := strconv.Atoi(strings.Fields(started()[n])[0])
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	t.Run("", func(t *testing.T) { // the service ends with it
		t.Setenv("TINKER_API_KEY", "tml-local")
		address := running(t, t.TempDir(), func(o *service.Options) {
			o.Trainer, o.TrainerArgs, o.Sampler, o.Models = trainer, args, "vllm", []service.Model{{Name: "own/tiny", Path: model}}
			o.SamplerArgs = map[string]any{"python": python, "env": map[string]any{
				"PYTHONPATH": dir, serverModel: model, serverPIDs: pids,
			}}
		})
		c, err := tinker.Open(t.Context(), address, time.Minute, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		s := &onServer{t: t, client: c}
		m := s.train(false)
		from, err := s.save(m, "w")
		if err != nil {
			t.Fatal(err)
		}
		s.sameAsTrained(m, from, "a server that the service has started")
		if flags := "--enable-lora --max-loras 10 --max-lora-rank 32"; !strings.Contains(started()[0], flags) {
			t.Errorf("it was started with %s, want %s", started()[0], flags)
		}
		if err := syscall.Kill(pid(0), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		s.sameAsTrained(m, from, "after a kill of the server")
		if n := len(started()); n != 2 {
			t.Errorf("the server was started %d times", n)
		}
	})
	if err := syscall.Kill(pid(len(started())-1), 0); err == nil {
		t.Error("the server lives on")
	}
}
