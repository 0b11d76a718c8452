//go:build unix

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/launcher"
	_ "github.com/trinity-go/trinity/launcher"
	"github.com/trinity-go/trinity/python"
	"github.com/trinity-go/trinity/trinitytest"
)

// answering is a program that serves HTTP and then does what its second argument says.
const answering = `
import http.server, os, sys, threading, time
print("node", sys.argv[3], "of", sys.argv[4], "first", sys.argv[5], flush=True)
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(401); self.end_headers()
    def log_message(self, *a): pass
s = http.server.HTTPServer((sys.argv[1], int(sys.argv[2])), H)
threading.Thread(target=s.serve_forever, daemon=True).start()
open(os.environ["PIDS"] + sys.argv[3], "w").write(str(os.getpid()))
time.sleep(3600)
`

// interpreter returns a Python.
func interpreter(t *testing.T) string {
	t.Helper()
	return trinitytest.Command(t, "python3", "there is no python3")
}

// here is a cluster of this machine, and a program for it that writes its process ids into files.
func here(t *testing.T) (*Cluster, engine.Program) {
	t.Helper()
	python := interpreter(t)
	local, err := launcher.Launchers.Build("local")
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{Launcher: local, Patience: time.Minute, LogDir: filepath.Join(t.TempDir(), "log")}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, engine.Program{
		Name: "p", Python: python, Answers: "/",
		Command: []string{python, "-c", answering, "{host}", "{port}", "{rank}", "{nodes}", "{master}:{master_port}"},
		Env:     map[string]string{"PIDS": filepath.Join(t.TempDir(), "pid")},
	}
}

// gone waits until the program of a rank is no longer there.
func gone(t *testing.T, p engine.Program, rank int) {
	t.Helper()
	pid := pidOf(t, p, rank)
	for end := time.Now().Add(30 * time.Second); syscall.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d is left", pid)
		}
	}
}

func pidOf(t *testing.T, p engine.Program, rank int) int {
	t.Helper()
	text, err := os.ReadFile(p.Env["PIDS"] + strconv.Itoa(rank))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestProgramOnTwoMachines(t *testing.T) {
	c, p := here(t)
	p.Nodes = 2
	running, err := c.Start(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Start(t.Context(), p); err == nil || !strings.Contains(err.Error(), "runs already") {
		t.Errorf("the same group again: %v", err)
	}
	reply, err := http.Get("http://" + running.Address())
	if err != nil || reply.StatusCode != http.StatusUnauthorized {
		t.Errorf("%v, %v; want the answer of the program", reply, err)
	}
	// The second member may not have begun when the first one answers.
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(p.Env["PIDS"] + "1"); err == nil {
			break
		}
	}
	if err := running.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	gone(t, p, 0)
	gone(t, p, 1)
	log, err := os.ReadFile(filepath.Join(c.LogDir, "p-0.log"))
	if err != nil || !bytes.HasPrefix(log, []byte("node 0 of 2 first 127.0.0.1:")) {
		t.Errorf("the log has %q, %v", log, err)
	}
	<-running.Gone()
	if err := running.Err(); err == nil || !strings.Contains(err.Error(), "p: stopped by the driver") {
		t.Error(err)
	}
}

func TestProgramsThatDoNotStart(t *testing.T) {
	for want, change := range map[string]func(c *Cluster, p *engine.Program){
		"ended with status 3; it said: no CUDA": func(_ *Cluster, p *engine.Program) {
			p.Command = []string{p.Python, "-c", "import sys; print('no CUDA', file=sys.stderr); sys.exit(3)"}
		},
		"ended with status 0": func(_ *Cluster, p *engine.Program) { p.Command = []string{p.Python, "-c", ""} },
		"has no no_such_module, nor_this: install them": func(_ *Cluster, p *engine.Program) {
			p.Modules, p.Hint = []string{"sys", "no_such_module", "nor_this"}, "install them"
		},
		"does not answer; it said: I am slow: cluster.start_timeout of 8s has passed": func(c *Cluster, p *engine.Program) {
			c.Patience = 8 * time.Second
			p.Command = []string{p.Python, "-c", "import time; print('I am slow', flush=True); time.sleep(60)"}
		},
		"none of its 1 members has announced itself: cluster.start_timeout of 1s has passed": func(c *Cluster, p *engine.Program) {
			c.Patience = time.Second
			p.Env["PYTHONSTARTUP"], p.Python = "", sleeping(t)
		},
		`"/no/python"`: func(_ *Cluster, p *engine.Program) { p.Python = "/no/python" },
	} {
		t.Run(want, func(t *testing.T) {
			c, p := here(t)
			change(c, &p)
			_, err := c.Start(t.Context(), p)
			if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "starting p: ") {
				t.Errorf("%v; want %q", err, want)
			}
		})
	}
}

// sleeping is an interpreter that does nothing.
func sleeping(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nsleep 60\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// If a program ends, or the process that watches it is killed, the error quotes its last output, and
// no process of the group is left.
func TestProgramsThatEnd(t *testing.T) {
	for name, c := range map[string]struct {
		kill func(pid int) error
		want string
	}{
		"program": {func(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }, "has ended with status -9"},
		"member":  {killParent, "exit status"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, p := here(t)
			running, err := cluster.Start(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.kill(pidOf(t, p, 0)); err != nil {
				t.Fatal(err)
			}
			select {
			case <-running.Gone():
			case <-time.After(time.Minute):
				t.Fatal("nobody has noticed")
			}
			if err := running.Err(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
			if err := running.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			gone(t, p, 0)
		})
	}
}

// killParent kills the process that watches a program.
func killParent(pid int) error {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	parent, err := strconv.Atoi(fields[1])
	return errors.Join(err, syscall.Kill(parent, syscall.SIGKILL))
}

// A member ends its program when the driver has been silent for the lease, and when it is told to.
func TestMemberEndsWithItsDriver(t *testing.T) {
	for name, stop := range map[string]bool{"silence": false, "told": true} {
		t.Run(name, func(t *testing.T) {
			_, p := here(t)
			silent, answered := false, make(chan struct{}, 100)
			driver := fakeDriver(t, func(w http.ResponseWriter, body []byte) {
				switch {
				case silent:
					panic(http.ErrAbortHandler)
				case bytes.Contains(body, []byte(`"address"`)):
					silent = !stop
					answered <- struct{}{}
					fmt.Fprintf(w, `{"stop": %v}`, stop)
				default:
					fmt.Fprint(w, `{}`)
				}
			})
			cmd, said := joins(t, p, driver.URL, "1")
			err := cmd.Wait()
			out := said.Bytes()
			if len(answered) == 0 {
				t.Fatalf("the program has not answered: %v: %s", err, out)
			}
			if said := bytes.Contains(out, []byte("has been silent for 1 s")); said == stop || (err == nil) != stop {
				t.Errorf("%v: %s", err, out)
			}
			gone(t, p, 0)
		})
	}
}

// joins starts a process that joins a group of a program, with a lease.
func joins(t *testing.T, p engine.Program, driver, lease string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	request, err := Request(p, driver, "token")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, request.Command[0], request.Command[1:]...)
	cmd.Dir = filepath.Join("..", "..", "python", "trinity_worker")
	join := strings.Replace(request.Env["TRINITY_JOIN"], `"lease":60`, `"lease":`+lease, 1)
	cmd.Env = append(os.Environ(), "TRINITY_JOIN="+join, "TRINITY_JOIN_TOKEN=token", "PIDS="+p.Env["PIDS"])
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, &said
}

// fakeDriver answers members of a group of one, and calls come with the bodies of their messages.
func fakeDriver(t *testing.T, come func(w http.ResponseWriter, body []byte)) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.HasSuffix(r.URL.Path, "/members") {
			fmt.Fprint(w, `{"rank": 0, "nodes": 1, "master": "127.0.0.1", "master_port": 1}`)
			return
		}
		come(w, body)
	}))
	t.Cleanup(s.Close)
	return s
}

// A signal ends a member at once, also while its driver is silent, and a killed member takes its program
// along, even one that ignores SIGTERM.
func TestMemberIsEnded(t *testing.T) {
	for name, c := range map[string]struct {
		sign syscall.Signal
		deaf bool // the program ignores SIGTERM
	}{
		"asked": {syscall.SIGTERM, false}, "asked, deaf program": {syscall.SIGTERM, true}, "killed": {syscall.SIGKILL, false},
		"killed, deaf program": {syscall.SIGKILL, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, p := here(t)
			if c.deaf {
				p.Command[2] = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + p.Command[2]
			}
			silent, over := make(chan struct{}, 100), make(chan struct{})
			driver := fakeDriver(t, func(w http.ResponseWriter, body []byte) {
				if !bytes.Contains(body, []byte(`"address"`)) {
					fmt.Fprint(w, `{}`)
					return
				}
				silent <- struct{}{}
				<-over
			})
			defer close(over)
			cmd, said := joins(t, p, driver.URL, "3600")
			select {
			case <-silent:
			case <-time.After(time.Minute):
				_ = cmd.Process.Kill()
				t.Fatalf("the program does not answer: %v: %s", cmd.Wait(), said)
			}
			if err := cmd.Process.Signal(c.sign); err != nil {
				t.Fatal(err)
			}
			gone(t, p, 0)
			err := cmd.Wait()
			if c.sign == syscall.SIGTERM && (err != nil || strings.Contains(said.String(), "Traceback")) {
				t.Errorf("%v: %s", err, said)
			}
		})
	}
}

// What keeps a member from starting its program is told in one line: to the driver if it can be
// reached.
func TestMemberThatCannotStart(t *testing.T) {
	_, p := here(t)
	told := make(chan string, 100)
	driver := fakeDriver(t, func(w http.ResponseWriter, body []byte) {
		told <- string(body)
		fmt.Fprint(w, `{}`)
	})
	p.Command = []string{"/no/program"}
	cmd, said := joins(t, p, driver.URL, "60")
	if err := cmd.Wait(); err == nil || said.Len() > 0 || len(told) != 1 {
		t.Fatalf("%v: %s", err, said)
	}
	if text := <-told; !strings.Contains(text, `"ended": 127`) || !strings.Contains(text, "No such file or directory: '/no/program'") {
		t.Errorf("the driver was told %s", text)
	}
	cmd, said = joins(t, p, "http://no-such-host.invalid:1", "60")
	if err := cmd.Wait(); err == nil || !strings.HasPrefix(said.String(), "trinity_worker.join: ") || strings.Count(said.String(), "\n") != 1 {
		t.Errorf("%v: %s", err, said)
	}
}

// The ranks of a machine divide its own cores, unless it says otherwise.
func TestThreadsOfMembers(t *testing.T) {
	const threads = "OMP_NUM_THREADS"
	for _, c := range []struct {
		ranks     int
		own, want string
	}{
		{0, "", "None"}, {1, "", strconv.Itoa(runtime.NumCPU())}, {2, "", strconv.Itoa(max(1, runtime.NumCPU()/2))},
		{1 << 20, "", "1"}, {2, "7", "7"},
	} {
		t.Setenv(threads, c.own)
		if c.own == "" {
			_ = os.Unsetenv(threads)
		}
		_, p := here(t)
		p.Ranks, p.Command = c.ranks, []string{p.Python, "-c", "import os; print('threads', os.environ.get('OMP_NUM_THREADS'))"}
		var told bytes.Buffer
		driver := fakeDriver(t, func(w http.ResponseWriter, body []byte) {
			told.Write(body)
			fmt.Fprint(w, `{}`)
		})
		cmd, said := joins(t, p, driver.URL, "60")
		_ = cmd.Wait() // a program that ends is an error
		driver.Close()
		if want := "threads " + c.want + `\n`; !strings.Contains(told.String(), want) {
			t.Errorf("%d ranks, own %q: %s%s; want %s", c.ranks, c.own, &told, said, want)
		}
	}
}

// Only members with the token are heard, and only of groups that there are.
func TestDoor(t *testing.T) {
	d, err := openDoor("")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.close(); err != nil {
			t.Error(err)
		}
	}()
	g, err := d.expect(engine.Program{Name: "g", Nodes: 1}, "")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(path, token, body string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url("")+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(reply.Body)
		return reply.StatusCode, string(text)
	}
	joins := func(id string) string { return fmt.Sprintf(`{"id": %q, "protocol": %d}`, id, python.Protocol) }
	for _, c := range []struct {
		path, token, body string
		status            int
	}{
		{"/v1/groups/g/members", "wrong", joins("a"), http.StatusUnauthorized},
		{"/v1/groups/h/members", d.token, joins("a"), http.StatusGone},
		{"/v1/groups/g/members", d.token, `{`, http.StatusBadRequest},
		{"/v1/groups/g/alive", d.token, `{"id": "a"}`, http.StatusConflict},
		{"/v1/groups/g/members", d.token, joins("a"), http.StatusOK},
		{"/v1/groups/g/members", d.token, joins("a"), http.StatusOK}, // its answer was lost
		{"/v1/groups/g/members", d.token, joins("b"), http.StatusConflict},
		{"/v1/groups/g/alive", d.token, `{"id": "a"}`, http.StatusOK},
		{"/v1/groups/g/members", d.token, `{"id": "c", "protocol": 99, "machine": "m"}`, http.StatusConflict},
		{"/v1/groups/g/alive", d.token, `{"id": "a"}`, http.StatusOK},
	} {
		if status, text := ask(c.path, c.token, c.body); status != c.status {
			t.Errorf("%s with %s: %d %s, want %d", c.path, c.body, status, text, c.status)
		}
	}
	<-g.Gone()
	if err := g.Err(); err == nil || !strings.Contains(err.Error(), "trinity_worker of m speaks protocol 99, this program ") {
		t.Error(err)
	}
}

// A program that starts slowly is told with the place of its log, and then with its last line.
func TestProgressOfAStart(t *testing.T) {
	c, p := here(t)
	said := make(chan string, 1000)
	c.Every, c.Say = 10*time.Millisecond, func(line string) { said <- line }
	answers := filepath.Join(t.TempDir(), "now")
	p.Command = append([]string{p.Python, "-c", "import os, time\nprint('loading shards', flush=True)\nwhile not os.path.exists(" +
		strconv.Quote(answers) + "): time.sleep(.01)\n" + answering}, p.Command[3:]...)
	begun := make(chan error, 1)
	go func() {
		_, err := c.Start(t.Context(), p)
		begun <- err
	}()
	if line, want := <-said, "p starts; its output: "+filepath.Join(c.LogDir, "p-0.log"); line != want {
		t.Errorf("%q, want %q", line, want)
	}
	for _, want := range []string{
		`^p: 0 of 1 machines have announced themselves after \d+s$`, `^p has not answered for \d+s; its last line: loading shards$`,
	} {
		for found, late := false, time.After(30*time.Second); !found; {
			select {
			case line := <-said:
				found = regexp.MustCompile(want).MatchString(line)
			case <-late:
				t.Fatalf("nobody said %s", want)
			}
		}
	}
	if err := os.WriteFile(answers, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-begun; err != nil {
		t.Error(err)
	}
}
