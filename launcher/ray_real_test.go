//go:build linux

package launcher_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/cluster"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/launcher"
	"github.com/trinity-go/trinity/trinitytest"
)

// realRay starts a head and a second node on this machine, each with 2 CPUs and a GPU by name only,
// and returns the dashboard's address. The cluster asks for a token.
func realRay(t *testing.T) (python, address string) {
	t.Helper()
	python = trinitytest.Python(t, "TRINITY_RAY_PYTHON", "ray", "torch")
	t.Setenv("RAY_AUTH_MODE", "token")
	t.Setenv("RAY_AUTH_TOKEN", "0123456789abcdef0123456789abcdef")
	t.Setenv("RAY_raylet_start_wait_time_s", "240")
	t.Setenv("RAY_memory_monitor_refresh_ms", "0") // other programs may fill this machine
	dir, err := os.MkdirTemp("", "ray")            // a short path, because Ray has sockets below it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	port, web := strconv.Itoa(freePort(t)), strconv.Itoa(freePort(t))
	address = "http://127.0.0.1:" + web
	startRay(t, python, "--head", "--port", port, "--dashboard-port", web, "--temp-dir", dir)
	await(t, "the dashboard", func() error {
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/api/version", nil)
		request.Header.Set("Authorization", "Bearer "+os.Getenv("RAY_AUTH_TOKEN"))
		reply, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer reply.Body.Close()
		if reply.StatusCode != http.StatusOK {
			return errors.New(reply.Status)
		}
		return nil
	})
	startRay(t, python, "--address", "127.0.0.1:"+port, "--temp-dir", filepath.Join(dir, "2")) // files of its own, as on another machine
	return python, address
}

// startRay starts a node, which ends with the test.
func startRay(t *testing.T, python string, args ...string) {
	t.Helper()
	args = append([]string{"-m", "ray.scripts.scripts", "start", "--block", "--num-cpus", "2", "--num-gpus", "1",
		"--disable-usage-stats", "--object-store-memory", "100000000"}, args...)
	cmd := exec.Command(python, args...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if t.Failed() {
			t.Logf("ray %s: %s", args, &said)
		}
	})
}

// await tries until there is no error.
func await(t *testing.T, what string, try func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatalf("waiting for %s: %v", what, err)
}

// summing adds the ranks + 1 of a group with gloo, and serves the sum, its GPUs and its secret.
const summing = `
import datetime, http.server, os, sys
import torch, torch.distributed as dist
host, port, rank, nodes, master = sys.argv[1:]
dist.init_process_group("gloo", init_method="tcp://" + master, rank=int(rank), world_size=int(nodes),
    timeout=datetime.timedelta(minutes=5))
x = torch.tensor([int(rank) + 1])
dist.all_reduce(x)
text = f"{x.item()} {os.environ['CUDA_VISIBLE_DEVICES']} {os.environ['KEY']}".encode()
with open(os.environ["PIDS"] + rank, "w") as f:
    f.write(str(os.getpid()))
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(text)
    def log_message(self, *a): pass
print("rank", rank, "answers", flush=True)
http.server.HTTPServer((host, int(port)), H).serve_forever()
`

func TestRealRay(t *testing.T) {
	python, address := realRay(t)
	built, err := launcher.Launchers.Build("ray", map[string]any{"python": python})
	if err != nil {
		t.Fatal(err)
	}
	if err := built.(config.ClusterReader).ReadCluster(&config.Cluster{RayAddress: address}); err != nil {
		t.Fatal(err)
	}
	await(t, "two nodes with a GPU", func() error {
		if n, err := built.GPUs(); n != 1 {
			return fmt.Errorf("GPUs: %d, %w", n, err)
		}
		return nil
	})
	c := &cluster.Cluster{Launcher: built, Patience: 8 * time.Minute, LogDir: filepath.Join(t.TempDir(), "log")}
	defer c.Close()
	program := func(name string) engine.Program {
		return engine.Program{
			Name: name, Nodes: 2, GPUs: 1, Python: python, Modules: []string{"torch"}, Answers: "/",
			Command: []string{python, "-c", summing, "{host}", "{port}", "{rank}", "{nodes}", "{master}:{master_port}"},
			Env:     map[string]string{"PIDS": filepath.Join(t.TempDir(), "pid")}, Secret: map[string]string{"KEY": "the-secret-of-" + name},
		}
	}
	trainer, server := program("trainer"), program("server0")
	server.Nodes, server.Beside = 1, "trainer"
	for _, p := range []engine.Program{trainer, server} {
		running, err := c.Start(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if p.Name == "server0" { // it starts again
			if err := running.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			if running, err = c.Start(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		want := map[string]string{"trainer": "3 0 the-secret-of-trainer", "server0": "1 0 the-secret-of-server0"}[p.Name]
		if got := get(t, "http://"+running.Address()); got != want {
			t.Errorf("%s answers %q, want %q", p.Name, got, want)
		}
		defer func() {
			if err := running.Stop(context.Background()); err != nil {
				t.Error(err)
			}
			for rank := range p.Nodes {
				if pid := pidOf(t, p.Env["PIDS"]+strconv.Itoa(rank)); syscall.Kill(pid, 0) == nil {
					t.Errorf("process %d of %s is left", pid, p.Name)
				}
			}
		}()
	}
	if all := get(t, address+"/api/jobs/"); !strings.Contains(all, "trainer") || strings.Contains(all, "the-secret") {
		t.Errorf("Ray shows %s", all)
	}
	waitsInVain(t, built)
	submitted(t, built.(launcher.Scheduler))
}

// waitsInVain starts a group for which the cluster has too few nodes, and nobody ends it.
func waitsInVain(t *testing.T, l launcher.Launcher) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	launched, err := l.Launch(ctx, trinity.ProcessGroup{Name: "large", Nodes: 5, Command: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	var logs bytes.Buffer
	if err := launched.Wait(t.Context()); err == nil {
		t.Error("five nodes were found")
	}
	err = launched.Logs(t.Context(), &logs)
	if err != nil || !strings.Contains(logs.String(), "5 nodes with {'CPU': 1} on each are not free") {
		t.Errorf("%s, %v", &logs, err)
	}
}

// submitted starts a run that does nothing, and ends it.
func submitted(t *testing.T, s launcher.Scheduler) {
	t.Helper()
	id, err := s.Submit(t.Context(), trinity.ProcessGroup{
		Name: "run", Command: []string{"sh", "-c", "cat file; echo $KEY at $RAY_ADDRESS of $TRINITY_RAY_RUN; exec sleep 600"},
		Secret: map[string]string{"KEY": "the-secret"}, Files: map[string][]byte{"file": []byte("text ")},
	})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the driver", func() error {
		var logs bytes.Buffer
		if err := s.Logs(t.Context(), id, false, &logs); err != nil {
			return err
		}
		if !strings.Contains(logs.String(), "text the-secret at http://") || !strings.Contains(logs.String(), "of "+id) {
			return errors.New(logs.String())
		}
		return nil
	})
	if state, ended, err := s.Status(t.Context(), id); err != nil || ended || !strings.HasPrefix(state, "RUNNING") {
		t.Errorf("%s, %t, %v; want a job that runs", state, ended, err)
	}
	if err := s.Down(t.Context(), id); err != nil {
		t.Error(err)
	}
	if state, ended, err := s.Status(t.Context(), id); err != nil || !ended {
		t.Errorf("%s, %t, %v; want a job that has ended", state, ended, err)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("RAY_AUTH_TOKEN"))
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func pidOf(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}
