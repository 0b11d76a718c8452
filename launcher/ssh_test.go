//go:build unix

package launcher_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/cluster"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/launcher"
	"github.com/trinity-go/trinity/trinitytest"
)

// serveSSH starts sshd on 127.0.0.1 and 127.0.0.2, and returns the options with which ssh reaches
// it.
func serveSSH(t *testing.T) []any {
	t.Helper()
	sshd := trinitytest.Command(t, "sshd", "no sshd: install openssh-server")
	keygen := trinitytest.Command(t, "ssh-keygen", "no ssh-keygen: install openssh-client")
	dir := t.TempDir()
	for _, name := range []string{"host", "user"} {
		if out, err := exec.CommandContext(t.Context(), keygen, "-q", "-t", "ed25519", "-N", "", "-f",
			filepath.Join(dir, name)).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v: %s", err, out)
		}
	}
	if os.Getuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // sshd of root wants it
			t.Fatal(err)
		}
	}
	port := strconv.Itoa(freePort(t))
	settings := fmt.Sprintf("Port %s\nListenAddress 127.0.0.1\nListenAddress 127.0.0.2\nHostKey %s\nAuthorizedKeysFile %s\nPidFile none\n"+
		"UsePAM no\nStrictModes no\nPasswordAuthentication no\n", port, filepath.Join(dir, "host"), filepath.Join(dir, "user.pub"))
	file := filepath.Join(dir, "sshd_config")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	var said process.Ends
	server := exec.CommandContext(t.Context(), sshd, "-D", "-e", "-f", file)
	server.Stderr = &said
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Wait() }) // after the end of the context
	answers(t, "127.0.0.2:"+port, &said)
	return []any{"-p", port, "-i", filepath.Join(dir, "user"), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
		"-o", "LogLevel=ERROR", "-F", "none"}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// answers waits until a server accepts connections.
func answers(t *testing.T, address string, said fmt.Stringer) {
	t.Helper()
	within(t, func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}, func() string { return "no server at " + address + ": " + said.String() })
}

// within waits until something is so.
func within(t *testing.T, is func() bool, what func() string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what())
		}
	}
}

// launcherFor builds a launcher for a cluster.
func launcherFor(t *testing.T, name string, args map[string]any, c config.Cluster) launcher.Launcher {
	t.Helper()
	l, err := launcher.Launchers.Build(name, args)
	if err != nil {
		t.Fatal(err)
	}
	if r, ok := l.(config.ClusterReader); ok {
		if err := r.ReadCluster(&c); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// onHosts is the launcher for two hosts.
func onHosts(t *testing.T, options []any) launcher.Launcher {
	t.Helper()
	return launcherFor(t, "ssh", map[string]any{"options": options}, config.Cluster{Hosts: []string{"127.0.0.1", "127.0.0.2"}, GPUPerNode: 4})
}

// reports is a command that reports what it has into files, and then waits.
func reports(dir string) []string {
	return []string{"sh", "-c", `for f in a/*; do text="$text $f=$(cat "$f")"; done
echo "$text|$OPEN|$HIDDEN|$CUDA_VISIBLE_DEVICES|$(pwd)|$$" >"$0/new.$$" && mv "$0/new.$$" "$0/node.$$"
echo started >&2
exec sleep 3600`, dir}
}

// nodes waits for the reports of the nodes of a group, and returns their fields. The last two are
// the directory and the process.
func nodes(t *testing.T, dir string, n int) (reported []string, places []string, pids []int) {
	t.Helper()
	var files []string
	within(t, func() bool {
		files, _ = filepath.Glob(filepath.Join(dir, "node.*"))
		return len(files) == n
	}, func() string { return fmt.Sprintf("%d of %d nodes have reported", len(files), n) })
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Split(strings.TrimSpace(string(data)), "|")
		pid, err := strconv.Atoi(fields[len(fields)-1])
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		reported = append(reported, strings.Join(fields[:len(fields)-2], "|"))
		places, pids = append(places, fields[len(fields)-2]), append(pids, pid)
	}
	return reported, places, pids
}

// nothingIsLeft waits until processes and directories are gone.
func nothingIsLeft(t *testing.T, places []string, pids []int) {
	t.Helper()
	within(t, func() bool {
		return !slices.ContainsFunc(pids, func(pid int) bool { return syscall.Kill(pid, 0) == nil }) &&
			!slices.ContainsFunc(places, func(dir string) bool { _, err := os.Stat(dir); return err == nil })
	}, func() string { return fmt.Sprintf("processes %v, or their directories %v, are left", pids, places) })
}

// theGroup is a group with files, variables and a secret that a shell would take for something else.
func theGroup(t *testing.T, nodes, gpus int) (trinity.ProcessGroup, string) {
	dir := t.TempDir()
	return trinity.ProcessGroup{
		Name: "g", Nodes: nodes, GPUs: gpus, Command: reports(dir), Env: map[string]string{"OPEN": "two words"},
		Secret: map[string]string{"HIDDEN": "it's $HOME `id`\""}, Files: map[string][]byte{"a/b.txt": []byte("END"), "a/c": []byte("\x00\xff")},
	}, dir
}

func theNode(gpus string) string {
	return "a/b.txt=END a/c=\xff|two words|it's $HOME `id`\"|" + gpus
}

// The nodes of a group get its files, variables, secrets and GPUs. No argument shows a secret.
func TestSSHStartsGroups(t *testing.T) {
	l := onHosts(t, serveSSH(t))
	for _, gpus := range []string{"0,1,2", ""} {
		g, dir := theGroup(t, 2, len(strings.Split(gpus, ","))*min(1, len(gpus)))
		x, err := l.Launch(t.Context(), g)
		if err != nil {
			t.Fatal(err)
		}
		got, places, pids := nodes(t, dir, 2)
		for _, text := range got {
			if text != theNode(gpus) {
				t.Errorf("a node has %q, want %q", text, theNode(gpus))
			}
		}
		if places[0] == places[1] {
			t.Errorf("both nodes are in %s", places[0])
		}
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range files {
			if data, _ := os.ReadFile(file); bytes.Contains(data, []byte("$HOME `id`")) {
				t.Errorf("%s shows the secret: %q", file, data)
			}
		}
		if gpus != "" {
			second := g
			second.Name, second.GPUs = "h", 2
			if _, err := l.Launch(t.Context(), second); err == nil || !strings.Contains(err.Error(), "127.0.0.2 (4 GPUs)") {
				t.Errorf("a second group, which wants GPUs of the first: %v", err)
			}
		}
		var log strings.Builder
		within(t, func() bool {
			log.Reset()
			return x.Logs(t.Context(), &log) == nil && strings.Count(log.String(), "started") == 2
		}, func() string { return "the log is " + log.String() })
		if err := x.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		nothingIsLeft(t, places, pids)
		if err := x.Wait(t.Context()); err != nil && !strings.Contains(err.Error(), "exit status 143") {
			t.Error(err)
		}
	}
}

// insteadOfSSH makes a script the program ssh of a test, and returns its folder.
func insteadOfSSH(t *testing.T, script string) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// endsByItself starts a group on each of some hosts, and waits for its end.
func endsByItself(t *testing.T, hosts []string, command ...string) {
	t.Helper()
	l := launcherFor(t, "ssh", nil, config.Cluster{Hosts: hosts})
	x, err := l.Launch(t.Context(), trinity.ProcessGroup{Name: "g", Nodes: len(hosts), Command: command})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := x.Wait(ctx); err != nil {
		t.Error(err)
	}
	if err := x.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// A connection may bring the script line by line, to a shell that reads as much as there is or no more
// than it needs.
func TestSSHScriptArrivesSlowly(t *testing.T) {
	for _, shell := range []string{"dash", "bash"} {
		t.Run(shell, func(t *testing.T) {
			dir := insteadOfSSH(t, `mkfifo "$0.$$"
exec 3<&0
while IFS= read -r line; do printf '%s\n' "$line"; sleep 0.02; done <&3 >"$0.$$" 2>/dev/null &
exec `+trinitytest.Command(t, shell, "no "+shell)+` -s <"$0.$$" 3<&-
`)
			endsByItself(t, []string{"a", "b"}, "sh", "-c", `pwd >"$0/$$"`, dir)
			if ran, _ := filepath.Glob(filepath.Join(dir, "[0-9]*")); len(ran) != 2 {
				t.Errorf("the program ran %d times", len(ran))
			}
		})
	}
}

// A program that ends at once ends its connection, also before the watch on the connection has begun.
func TestSSHProgramEndsAtOnce(t *testing.T) {
	insteadOfSSH(t, `mkfifo "$0.$$"
exec 3<&0 4<>"$0.$$" # its input has no end
cat <&3 >&4 &
sh -s <&4 | cat # which ends with the last process that can write
`)
	hosts := make([]string, 50)
	for i := range hosts {
		hosts[i] = "h" + strconv.Itoa(i)
	}
	endsByItself(t, hosts, "true")
}

// A host that does not answer is named, and the other node of the group ends.
func TestSSHNamesTheHost(t *testing.T) {
	options := serveSSH(t)
	l := launcherFor(t, "ssh", map[string]any{"options": options}, config.Cluster{Hosts: []string{"127.0.0.1", "127.0.0.3"}})
	g, dir := theGroup(t, 2, 0)
	x, err := l.Launch(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	_, places, pids := nodes(t, dir, 1)
	if err := x.Wait(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "127.0.0.3: ") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v", err)
	}
	nothingIsLeft(t, places, pids)
	if err := x.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// With a killed connection, shell, program or driver, nothing is left on the hosts.
func TestSSHLeavesNothing(t *testing.T) {
	trinitytest.Long(t, "waits for connections to end", "launcher", "internal/cluster", "internal/process")
	options := serveSSH(t)
	for _, killed := range []string{"ssh", "program", "shell"} {
		t.Run(killed, func(t *testing.T) {
			if killed != "ssh" { // its victim may be of any launcher
				t.Parallel()
			}
			g, dir := theGroup(t, 2, 0)
			x, err := onHosts(t, options).Launch(t.Context(), g)
			if err != nil {
				t.Fatal(err)
			}
			_, places, pids := nodes(t, dir, 2)
			victim := pids[0]
			switch killed {
			case "shell": // its directory stays
				left := places[0]
				t.Cleanup(func() { _ = os.RemoveAll(left) })
				victim, places = parent(t, victim), places[1:]
			case "ssh":
				victim = find(t, "ssh\x00-T\x00", options[1].(string))
			}
			if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if err := x.Wait(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "127.0.0.") {
				t.Errorf("got %v", err)
			}
			nothingIsLeft(t, places, pids)
			if err := x.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("driver", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestDriver$", "-test.timeout=5m")
		cmd.Env = append(os.Environ(), "TRINITY_TEST_DRIVER="+dir, "TRINITY_TEST_OPTIONS="+joined(options))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_, places, pids := nodes(t, dir, 2)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		nothingIsLeft(t, places, pids)
	})
}

func joined(options []any) string {
	var words []string
	for _, o := range options {
		words = append(words, o.(string))
	}
	return strings.Join(words, "\n")
}

// TestDriver is the driver that TestSSHLeavesNothing kills.
func TestDriver(t *testing.T) {
	dir := os.Getenv("TRINITY_TEST_DRIVER")
	if dir == "" {
		t.Skip("started by TestSSHLeavesNothing")
	}
	var options []any
	for word := range strings.SplitSeq(os.Getenv("TRINITY_TEST_OPTIONS"), "\n") {
		options = append(options, word)
	}
	g, _ := theGroup(t, 2, 0)
	g.Command = reports(dir)
	x, err := onHosts(t, options).Launch(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	t.Fatal(x.Wait(t.Context()))
}

// parent returns the parent of a process.
func parent(t *testing.T, pid int) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Skip("there is no /proc")
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	id, err := strconv.Atoi(fields[1])
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// find returns a process whose command begins with one text and has another.
func find(t *testing.T, begin, has string) int {
	t.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if data, _ := os.ReadFile(file); strings.HasPrefix(string(data), begin) && strings.Contains(string(data), has) {
			pid, err := strconv.Atoi(strings.Split(file, "/")[2])
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Skip("there is no /proc, or the process is not in it")
	return 0
}

// A program joins from two hosts, and ends with its connection.
func TestSSHMembersJoin(t *testing.T) {
	python := trinitytest.Command(t, "python3", "no python3")
	c := &cluster.Cluster{Launcher: onHosts(t, serveSSH(t)), Patience: time.Minute}
	defer c.Close()
	p := engine.Program{Name: "p", Nodes: 2, Python: python, Answers: "/",
		Command: []string{python, "-m", "http.server", "{port}", "--bind", "{host}"}}
	x, err := c.Start(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", x.Address()); err == nil {
		conn.Close()
		t.Errorf("the program at %s is left", x.Address())
	}
	p.Python, p.Name = "/no/python", "q"
	if _, err := c.Start(t.Context(), p); err == nil || !strings.Contains(err.Error(), "starting q: q: 127.0.0.") ||
		!strings.Contains(err.Error(), "/no/python") {
		t.Error(err)
	}
}

// The launcher refuses hosts that it cannot use.
func TestSSHWantsHosts(t *testing.T) {
	for want, c := range map[string]config.Cluster{
		"ssh needs cluster.hosts":                        {},
		"cluster.node_num is 2, and cluster.hosts has 1": {Hosts: []string{"a"}, NodeNum: 2},
		`"a" is not the name of another host`:            {Hosts: []string{"a", "a"}},
		`"-oProxyCommand=x" is not`:                      {Hosts: []string{"-oProxyCommand=x"}},
	} {
		l, err := launcher.Launchers.Build("ssh")
		if err != nil {
			t.Fatal(err)
		}
		if err := l.(config.ClusterReader).ReadCluster(&c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %s", c, err, want)
		}
	}
	l := launcherFor(t, "ssh", map[string]any{"options": []any{"-p", "22"}, "host": "driver"}, config.Cluster{Hosts: []string{"a", "b"}})
	text, err := l.Render(trinity.ProcessGroup{Name: "g", Nodes: 2, Command: []string{"python3", "a b"}})
	if want := "-p 22 "; err != nil || l.Reach() != "driver" || strings.Count(text, want) != 2 || !strings.Contains(text, "python3 'a b'") {
		t.Errorf("%s, %v", text, err)
	}
}
