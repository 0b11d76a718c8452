package trinitytest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trinity-go/trinity/internal/process"
)

// Slurm starts Slurm with two machines, n1 and n2, of four CPUs and four GPUs each. Both are this
// one. The programs of Slurm find it by SLURM_CONF, which is set for the test. The test is long.
func Slurm(t testing.TB) {
	t.Helper()
	Long(t, "starts Slurm", "launcher", "internal/cluster")
	const how = "no Slurm: install slurm-wlm and munge"
	munged, controller, node := Command(t, "munged", how), Command(t, "slurmctld", how), Command(t, "slurmd", how)
	if os.Getuid() != 0 {
		Missing(t, "Slurm's daemons want to be root")
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ = strings.Cut(host, ".")
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	var ports []any
	for range 3 {
		ports = append(ports, openPort(t))
	}
	for name, text := range map[string]string{
		"key":       strings.Repeat("0123456789abcdef", 8),
		"gres.conf": "NodeName=n[1-2] Name=gpu Count=4 File=/dev/tty[0-3]\n",
		"slurm.conf": fmt.Sprintf(`ClusterName=test
SlurmctldHost=%[1]s(127.0.0.1)
SlurmctldPort=%[3]d
SlurmctldPidFile=%[2]s/slurmctld.pid
SlurmdPidFile=%[2]s/%%n.pid
SlurmdSpoolDir=%[2]s/%%n
StateSaveLocation=%[2]s/state
SlurmUser=root
AuthInfo=socket=%[2]s/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
SwitchType=switch/none
GresTypes=gpu
KillWait=2
NodeName=n1 NodeHostname=%[1]s NodeAddr=127.0.0.1 Port=%[4]d CPUs=4 Gres=gpu:4
NodeName=n2 NodeHostname=%[1]s NodeAddr=127.0.0.1 Port=%[5]d CPUs=4 Gres=gpu:4
PartitionName=all Nodes=n1,n2 Default=YES State=UP
`, append([]any{host, dir}, ports...)...),
	} {
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SLURM_CONF", at("slurm.conf"))
	var said process.Ends
	daemons, end := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = exec.CommandContext(daemons, "scancel", "--partition=all").Run()
		ended := func() bool {
			out, err := exec.CommandContext(daemons, "squeue", "--noheader").Output()
			return err != nil || len(out) == 0
		}
		if !within(ended) {
			t.Errorf("Slurm's jobs do not end; it said: %s", &said)
		}
		end()
		all.Wait()
	})
	for _, command := range [][]string{
		{munged, "--foreground", "--force", "--socket=" + at("munge"), "--key-file=" + at("key"), "--pid-file=" + at("munged.pid"),
			"--log-file=" + at("munged.log"), "--seed-file=" + at("seed")},
		{controller, "-D", "-c"}, {node, "-D", "-N", "n1"}, {node, "-D", "-N", "n2"},
	} {
		cmd := exec.CommandContext(daemons, command[0], command[1:]...)
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all.Go(func() { _ = cmd.Wait() })
		if command[0] == munged {
			if !within(func() bool { _, err := os.Stat(at("munge")); return err == nil }) {
				Missing(t, "munged does not begin on this machine; it said: "+said.String())
			}
		}
	}
	begun := func() bool {
		out, _ := exec.CommandContext(t.Context(), "sinfo", "--noheader", "--Node", "--format=%t").Output()
		return strings.Count(string(out), "idle") == 2
	}
	if !within(begun) {
		Missing(t, "Slurm does not begin on this machine; it said: "+said.String())
	}
}

func openPort(t testing.TB) int {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// within waits until something is so, for a minute at most, and reports whether it is.
func within(is func() bool) bool {
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
