//go:build unix

package launcher_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// inSlurm builds the launcher, in an allocation of both machines with three GPUs each or on a login
// node.
func inSlurm(t *testing.T, allocated bool) (l launcher.Launcher, folder string) {
	t.Helper()
	c := config.Cluster{NodeNum: 2, GPUPerNode: 3}
	if allocated {
		out, err := exec.CommandContext(t.Context(), "sbatch", "--parsable", "--nodes=2", "--gpus-per-node=3", "--output=/dev/null",
			"--wrap=sleep 3600").CombinedOutput()
		id := strings.TrimSpace(string(out))
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		within(t, func() bool {
			out, _ := exec.CommandContext(t.Context(), "scontrol", "show", "job", "-o", id).Output()
			return strings.Contains(string(out), "JobState=RUNNING")
		}, func() string { return "job " + id + " does not begin" })
		t.Cleanup(func() { _ = exec.CommandContext(context.Background(), "scancel", id).Run() })
		t.Setenv("SLURM_JOB_ID", id)
		t.Setenv("SLURM_JOB_NODELIST", "n[1-2]")
		t.Setenv("SLURM_GPUS_ON_NODE", "3")
		c.GPUPerNode = 0
	}
	folder = t.TempDir()
	return launcherFor(t, "slurm", map[string]any{"folder": folder, "host": "127.0.0.1"}, c), folder
}

// Groups are steps of an allocation, or jobs. Their nodes get files, variables, secrets and GPUs.
func TestSlurmStartsGroups(t *testing.T) {
	trinitytest.Slurm(t)
	for name, allocated := range map[string]bool{"steps": true, "jobs": false} {
		t.Run(name, func(t *testing.T) {
			l, folder := inSlurm(t, allocated)
			g, dir := theGroup(t, 2, 2)
			x, err := l.Launch(t.Context(), g)
			if err != nil {
				t.Fatal(err)
			}
			got, places, pids := nodes(t, dir, 2)
			for _, text := range got {
				if text != theNode("0,1") {
					t.Errorf("a node has %q, want %q", text, theNode("0,1"))
				}
			}
			files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, file := range files {
				if data, _ := os.ReadFile(file); strings.Contains(string(data), "$HOME `id`") {
					t.Errorf("%s shows the secret: %q", file, data)
				}
			}
			var log strings.Builder
			within(t, func() bool {
				log.Reset()
				return x.Logs(t.Context(), &log) == nil && strings.Count(log.String(), "started") == 2
			}, func() string { return "the log is " + log.String() })
			beside := g
			beside.Name, beside.GPUs, beside.Beside = "h", 1, "g"
			if allocated {
				beside.Command = []string{"true"}
				y, err := l.Launch(t.Context(), beside)
				if err != nil {
					t.Fatal(err)
				}
				if err := y.Wait(t.Context()); err != nil {
					t.Errorf("the group beside: %v", err)
				}
				if err := y.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			} else if _, err := l.Launch(t.Context(), beside); err == nil || !strings.Contains(err.Error(), "trinity cluster submit") {
				t.Errorf("a group beside: %v", err)
			}
			if err := x.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			nothingIsLeft(t, places, pids)
			if left, _ := os.ReadDir(folder); len(left) > 0 {
				t.Errorf("%v is left in the folder", left)
			}
		})
	}
}

// With a killed step, program or driver's connection, the whole group ends.
func TestSlurmLeavesNothing(t *testing.T) {
	trinitytest.Slurm(t)
	l, _ := inSlurm(t, true)
	for _, killed := range []string{"srun", "program"} {
		g, dir := theGroup(t, 2, 1)
		x, err := l.Launch(t.Context(), g)
		if err != nil {
			t.Fatal(err)
		}
		_, places, pids := nodes(t, dir, 2)
		victim := pids[0]
		if killed == "srun" { // Slurm kills the step, also the shell that would remove the directory
			victim = find(t, "srun\x00--overlap", "n2")
			t.Cleanup(func() {
				for _, dir := range places {
					_ = os.RemoveAll(dir)
				}
			})
		}
		if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := x.Wait(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "n") {
			t.Errorf("%s: got %v", killed, err)
		}
		if err := x.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if killed == "srun" {
			places = nil
		}
		nothingIsLeft(t, places, pids)
	}
}

// A program joins from the machines of an allocation, and from those of a job.
func TestSlurmMembersJoin(t *testing.T) {
	trinitytest.Slurm(t)
	python := trinitytest.Command(t, "python3", "no python3")
	for name, allocated := range map[string]bool{"steps": true, "jobs": false} {
		t.Run(name, func(t *testing.T) {
			l, _ := inSlurm(t, allocated)
			c := &cluster.Cluster{Launcher: l, Patience: time.Minute}
			defer c.Close()
			x, err := c.Start(t.Context(), engine.Program{Name: "p", Nodes: 2, Python: python, Answers: "/",
				Command: []string{python, "-m", "http.server", "{port}", "--bind", "{host}"}})
			if err != nil {
				t.Fatal(err)
			}
			if err := x.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A run is a job, which ends by itself or is ended.
func TestSlurmRunsDrivers(t *testing.T) {
	trinitytest.Slurm(t)
	l, _ := inSlurm(t, false)
	s := l.(launcher.Scheduler)
	driver := func(command ...string) string {
		t.Helper()
		id, err := s.Submit(t.Context(), trinity.ProcessGroup{Name: "run", Nodes: 2, GPUs: 1, Command: command,
			Env: map[string]string{"A": "b c"}})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	var log strings.Builder
	id := driver("sh", "-c", `echo "$A on $SLURM_JOB_NUM_NODES"; sleep 2; echo ends; exit 3`)
	if err := s.Logs(t.Context(), id, true, &log); err != nil || log.String() != "b c on 2\nends\n" {
		t.Errorf("the log is %q, %v", log.String(), err)
	}
	if state, ended, err := s.Status(t.Context(), id); state != "FAILED, exit code 3:0" || !ended || err != nil {
		t.Errorf("got %s, %v, %v", state, ended, err)
	}
	id = driver("sh", "-c", `trap 'echo told; exit 0' TERM; echo begun; while :; do sleep 0.1; done`)
	within(t, func() bool {
		log.Reset()
		return s.Logs(t.Context(), id, false, &log) == nil && log.String() == "begun\n"
	}, func() string { return "the log is " + log.String() })
	if state, ended, err := s.Status(t.Context(), id); state != "RUNNING" || ended || err != nil {
		t.Errorf("got %s, %v, %v", state, ended, err)
	}
	if err := s.Down(t.Context(), id); err != nil {
		t.Error(err)
	}
	log.Reset()
	if err := s.Logs(t.Context(), id, false, &log); err != nil || !strings.HasSuffix(log.String(), "\ntold\n") {
		t.Errorf("the log is %q, %v", log.String(), err)
	}
	if state, ended, err := s.Status(t.Context(), "99999"); !ended || err != nil {
		t.Errorf("an unknown job: %s, %v, %v", state, ended, err)
	}
	wrong := launcherFor(t, "slurm", map[string]any{"partition": "none", "folder": t.TempDir()}, config.Cluster{}).(launcher.Scheduler)
	_, err := wrong.Submit(t.Context(), trinity.ProcessGroup{Name: "run", Nodes: 1, Command: []string{"true"}})
	if err == nil || !strings.Contains(err.Error(), "invalid partition specified: none") || strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
}

// An answer that Slurm does not give is no end of a run.
func TestSlurmFollowsThroughFailures(t *testing.T) {
	dir, folder := t.TempDir(), t.TempDir()
	script := `#!/bin/sh
cd "$(dirname "$0")" || exit 1
if [ ! -e asked ]; then touch asked; echo "JobId=7 JobState=RUNNING Reason=None ExitCode=0:0"; exit; fi
if [ ! -e failed ]; then touch failed; echo "Unable to contact slurm controller" >&2; exit 1; fi
echo "the end" >>"$FOLDER/run-7.log"
echo "JobId=7 JobState=COMPLETED Reason=None ExitCode=0:0"
`
	if err := os.WriteFile(filepath.Join(dir, "scontrol"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("FOLDER", folder)
	t.Setenv("SLURM_JOB_ID", "")
	l := launcherFor(t, "slurm", map[string]any{"folder": folder}, config.Cluster{})
	var log strings.Builder
	if err := l.(launcher.Scheduler).Logs(t.Context(), "7", true, &log); err != nil || log.String() != "the end\n" {
		t.Errorf("%q, %v", log.String(), err)
	}
}

// Scripts have the wanted options, and no secrets.
func TestSlurmScripts(t *testing.T) {
	t.Setenv("SLURM_JOB_ID", "")
	t.Setenv("PATH", t.TempDir())
	l := launcherFor(t, "slurm", map[string]any{"folder": "/shared", "program": "/shared/trinity",
		"partition": "gpu", "account": "rl", "qos": "high", "time": "1:00:00",
		"cpus_per_task": 8, "mem": "9G", "options": []any{"--constraint=a100"}}, config.Cluster{NodeNum: 2, GPUPerNode: 4})
	g := trinity.ProcessGroup{Name: "run", Nodes: 2, GPUs: 4, Command: []string{"trinity", "run", "a b.yaml"},
		Env: map[string]string{"A": "b c"}, Secret: map[string]string{"KEY": "hidden"}}
	script, err := l.(launcher.Scheduler).Script(g)
	if want := []string{"#!/bin/sh", "--job-name=trinity-run", "--nodes=2", "--ntasks-per-node=1", "--output=/shared/run-%j.log",
		"--gpus-per-node=4", "--cpus-per-task=8", "--mem=9G", "--partition=gpu", "--account=rl", "--qos=high", "--time=1:00:00",
		"--constraint=a100", "--signal=B:TERM@120", "export A='b c'", "exec /shared/trinity run 'a b.yaml'", ""}; err != nil ||
		!slices.Equal(strings.Split(strings.ReplaceAll(script, "#SBATCH ", ""), "\n"), want) {
		t.Errorf("got %s, %v", script, err)
	}
	text, err := l.Render(g)
	if err != nil || !strings.Contains(text, "srun --nodes=2 --ntasks=2 ") || !strings.Contains(text, "--gpus-per-node=4") ||
		strings.Contains(text+script, "hidden") {
		t.Errorf("got %s, %v", text, err)
	}
	if _, err := l.Launch(t.Context(), g); err == nil || !strings.Contains(err.Error(), "sbatch is not on this machine") {
		t.Errorf("without Slurm: %v", err)
	}
	g.Command = []string{"python3", "-c", "import os\nreboot"}
	text, err = l.Render(g)
	if err != nil || strings.Contains(text, "\nreboot") || !strings.Contains(text, "# python3 -c 'import os reboot'\n") {
		t.Errorf("a command of two lines: %s, %v", text, err)
	}
	g.Env["a-b"] = ""
	if _, err := l.(launcher.Scheduler).Script(g); err == nil || !strings.Contains(err.Error(), `cannot set the variable "a-b"`) {
		t.Error(err)
	}
}
