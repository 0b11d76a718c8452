//go:build unix

package launcher

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

var update = flag.Bool("update", false, "write the golden files")

// fakeKubectl is a directory with a program that writes down its calls and answers from files.
type fakeKubectl string

const kubectlScript = `#!/bin/sh
cd "$(dirname "$0")" || exit 1
echo "$*" >> calls
case "$*" in *"delete job"*) if [ -e stuck ]; then cat stuck >&2; exit 1; fi ;; esac
if [ -e refuse ]; then cat refuse >&2; exit 1; fi
case "$*" in
*"create -f -"*) cat >> created
	if [ -e second ]; then cat second >&2; exit 1; fi
	if [ -e failing ]; then mv failing second; fi
	touch done; if [ -e slow ]; then sleep 1; fi; echo uid-1 ;;
*"get job"*) if [ -e missing ]; then cat missing >&2; exit 1; fi; cat job ;;
*"get pods"*) cat pods ;;
*logs*) cat logs ;;
esac
`

func newFakeKubectl(t *testing.T) fakeKubectl {
	t.Helper()
	f := fakeKubectl(t.TempDir())
	if err := os.WriteFile(filepath.Join(string(f), "kubectl"), []byte(kubectlScript), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", string(f)+string(os.PathListSeparator)+os.Getenv("PATH"))
	f.write(t, "job", `{"status": {"active": 2}}`)
	f.write(t, "pods", `{"items": []}`)
	f.write(t, "logs", "[pod/x] begun\n")
	return f
}

// write replaces a file as a whole, because the program may read it at any time.
func (f fakeKubectl) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(string(f), name)
	if err := errors.Join(os.WriteFile(path+"~", []byte(text), 0o644), os.Rename(path+"~", path)); err != nil {
		t.Fatal(err)
	}
}

func (f fakeKubectl) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(string(f), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// cluster returns a launcher with a name that is always the same.
func cluster(t *testing.T, args map[string]any) *kubernetes {
	t.Helper()
	all := map[string]any{"image": "registry.example.org/trainer:1"}
	for name, value := range args {
		all[name] = value
	}
	built, err := Launchers.Build("kubernetes", all)
	if err != nil {
		t.Fatal(err)
	}
	k := built.(*kubernetes)
	k.run, k.every = "trinity-abcdefgh", time.Millisecond
	return k
}

var fullArgs = map[string]any{
	"namespace": "team", "context": "prod", "service_account": "trinity-driver", "volumes": map[string]any{"runs": "/runs"},
	"resources": map[string]any{"cpu": 8, "memory": "64Gi"}, "node_selector": map[string]any{"gpu": "h100"},
}

var podGroup = trinity.ProcessGroup{
	Name: "trainer", Nodes: 2, GPUs: 4, Command: []string{"python3", "-m", "trinity_worker.join"},
	Env: map[string]string{"TRINITY_JOIN": `{"command": ["$(host)"]}`}, Secret: map[string]string{"KEY": "a-secret"},
	Files: map[string][]byte{"trinity_worker/join.py": []byte("print()\n"), "model.bin": {0xff, 0xfe}},
}

func TestKubernetesManifests(t *testing.T) {
	k := cluster(t, fullArgs)
	group, err := k.Render(podGroup)
	if err != nil {
		t.Fatal(err)
	}
	driver, err := k.Script(trinity.ProcessGroup{Name: "arithmetic", Command: []string{"trinity", "run", "--config", "run.yaml"},
		Secret: map[string]string{"KEY": "a-secret"}, Files: map[string][]byte{"run.yaml": []byte("mode: both\n")}})
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{"group": group, "driver": driver} {
		path := filepath.Join("testdata", "kubernetes_"+name+".golden")
		if *update {
			if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(path, []byte(got), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: -update writes it again; got\n%s", path, got)
		}
	}
}

func TestKubernetesGroupIsAJob(t *testing.T) {
	f := newFakeKubectl(t)
	k := cluster(t, fullArgs)
	launched, err := k.Launch(t.Context(), podGroup)
	if err != nil {
		t.Fatal(err)
	}
	calls, created := f.read(t, "calls"), f.read(t, "created")
	if strings.Contains(calls, "a-secret") || !strings.HasPrefix(calls, "--context prod --namespace team create -f -") {
		t.Errorf("kubectl was called as %s", calls)
	}
	job := strings.Index(created, "kind: Job\nmetadata")
	secret := strings.Index(created, "KEY: a-secret")
	if job < 0 || secret < job || strings.Count(created, "uid: uid-1") != 3 {
		t.Errorf("want a Job, and then three objects that belong to it:\n%s", created)
	}
	f.write(t, "pods", `{"items": [{"metadata": {"name": "trainer-0"}, "status": {"phase": "Running"}},
		{"metadata": {"name": "trainer-1"}, "status": {"phase": "Pending", "conditions": [
			{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}],
			"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}}]}`)
	var logs bytes.Buffer
	want := "pod trainer-1 is Pending: Unschedulable 0/3 nodes are available ImagePullBackOff\n[pod/x] begun\n"
	if err := launched.Logs(t.Context(), &logs); err != nil || logs.String() != want {
		t.Errorf("%q, %v; want %q", &logs, err, want)
	}
	ended := make(chan error, 1)
	go func() { ended <- launched.Wait(t.Context()) }()
	f.write(t, "job", `{"status": {"conditions": [{"type": "Suspended", "status": "False"},
		{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "a pod failed"}]}}`)
	name := launched.(*launchedJob).p.job
	want = "the Job " + name + ": Failed: BackoffLimitExceeded: a pod failed"
	if err := <-ended; err == nil || err.Error() != want {
		t.Errorf("the Job failed: %v", err)
	}
	f.write(t, "job", `{"status": {"conditions": [{"type": "Complete", "status": "True"}]}}`)
	if err := errors.Join(launched.Wait(t.Context()), launched.Stop(t.Context())); err != nil {
		t.Error(err)
	}
	want = "delete job --selector trinity/group=" + name + " --cascade=foreground"
	if calls := f.read(t, "calls"); !strings.Contains(calls, want) {
		t.Errorf("kubectl was called as %s", calls)
	}
}

func TestKubernetesWaitEnds(t *testing.T) {
	f := newFakeKubectl(t)
	launched, err := cluster(t, nil).Launch(t.Context(), podGroup)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the test is over"))
	if err := launched.Wait(ctx); err == nil || !strings.Contains(err.Error(), "the test is over") {
		t.Errorf("waiting ended with %v", err)
	}
	f.write(t, "refuse", "Error from server (NotFound): jobs.batch \"x\" not found\n")
	if err := launched.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), ": deleted, or no longer kept") {
		t.Errorf("waiting for a Job that was deleted: %v", err)
	}
}

// A start that is interrupted has created all, and one that fails leaves no Job.
func TestKubernetesStartIsInterrupted(t *testing.T) {
	f := newFakeKubectl(t)
	k := cluster(t, nil)
	f.write(t, "slow", "")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(string(f), "done")); err == nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	launched, err := k.Launch(ctx, podGroup)
	if err != nil || ctx.Err() == nil {
		t.Fatalf("%v, %v; the Job is there, and nobody can end it", err, ctx.Err())
	}
	if created := f.read(t, "created"); strings.Count(created, "kind: ") < 4 {
		t.Errorf("created\n%s", created)
	}
	if err := launched.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(string(f), "slow")); err != nil {
		t.Fatal(err)
	}
	f.write(t, "failing", "Error from server (Forbidden): secrets is forbidden")
	calls := f.read(t, "calls")
	if _, err := k.Launch(t.Context(), podGroup); err == nil || !strings.Contains(err.Error(), "secrets is forbidden") {
		t.Error(err)
	}
	now := strings.TrimPrefix(f.read(t, "calls"), calls)
	if !strings.Contains(now, "delete job --selector trinity/group=trinity-abcdefgh-trainer-") {
		t.Errorf("kubectl was called as %s", now)
	}
}

// Kubernetes expands $(NAME) in commands and variables, and takes $$ for $.
func TestKubernetesLeavesWordsAlone(t *testing.T) {
	g := podGroup
	g.Command = []string{"sh", "-c", "echo $$ $(KEY) $HOME"}
	g.Env = map[string]string{"A": "$$(KEY) $"}
	text, err := cluster(t, nil).Render(g)
	if err != nil || !strings.Contains(text, "- echo $$$$ $$(KEY) $$HOME\n") || !strings.Contains(text, "value: $$$$(KEY) $$\n") {
		t.Errorf("%s, %v", text, err)
	}
}

// A run whose Job Kubernetes has deleted has ended, and what it has started can still be ended.
func TestKubernetesForgetsARun(t *testing.T) {
	f := newFakeKubectl(t)
	k := cluster(t, nil)
	f.write(t, "missing", "Error from server (NotFound): jobs.batch \"run-1\" not found\n")
	if state, ended, err := k.Status(t.Context(), "run-1"); state != "deleted, or no longer kept by Kubernetes" || !ended || err != nil {
		t.Errorf("%s, %t, %v", state, ended, err)
	}
	if err := k.Down(t.Context(), "run-1"); err != nil {
		t.Error(err)
	}
	if calls := f.read(t, "calls"); !strings.Contains(calls, "delete job --selector trinity/run=run-1") {
		t.Errorf("kubectl was called as %s", calls)
	}
}

func TestKubernetesRunsADriver(t *testing.T) {
	f := newFakeKubectl(t)
	k := cluster(t, fullArgs)
	id, err := k.Submit(t.Context(), trinity.ProcessGroup{Name: "run", Command: []string{"trinity", "run"}})
	if err != nil {
		t.Fatal(err)
	}
	created := f.read(t, "created")
	named := podRun + "\n                      value: " + id
	for _, want := range []string{"automountServiceAccountToken: true", "trinity/run: " + id, named} {
		if !strings.Contains(created, want) {
			t.Errorf("%s is not in\n%s", want, created)
		}
	}
	if state, ended, err := k.Status(t.Context(), id); state != "no pod yet" || ended || err != nil {
		t.Errorf("%s, %t, %v", state, ended, err)
	}
	f.write(t, "pods", `{"items": [{"metadata": {"name": "run-0"}, "status": {"phase": "Running"}}]}`)
	if state, ended, err := k.Status(t.Context(), id); state != "Running" || ended || err != nil {
		t.Errorf("%s, %t, %v", state, ended, err)
	}
	f.write(t, "job", `{"status": {"conditions": [{"type": "Complete", "status": "True"}]}}`)
	if state, ended, err := k.Status(t.Context(), id); state != "Complete" || !ended || err != nil {
		t.Errorf("%s, %t, %v", state, ended, err)
	}
	var logs bytes.Buffer
	if err := k.Logs(t.Context(), id, true, &logs); err != nil || logs.String() != "[pod/x] begun\n" {
		t.Errorf("%q, %v", &logs, err)
	}
	if err := k.Down(t.Context(), id); err != nil {
		t.Error(err)
	}
	calls := f.read(t, "calls")
	driver := strings.Index(calls, "delete job --selector trinity/group="+id)
	groups := strings.Index(calls, "delete job --selector trinity/run="+id)
	if driver < 0 || groups < driver || !strings.Contains(calls, "logs job/"+id+" --follow") {
		t.Errorf("kubectl was called as %s", calls)
	}
	t.Setenv(podRun, id) // in the driver
	if _, err := k.state(t.Context(), id); err != nil || strings.Contains(strings.TrimPrefix(f.read(t, "calls"), calls), "--context") {
		t.Errorf("a driver has no context: %v, %s", err, f.read(t, "calls"))
	}
}

func TestKubernetesThatRefuses(t *testing.T) {
	f := newFakeKubectl(t)
	k := cluster(t, nil)
	beside, named, large := podGroup, podGroup, podGroup
	beside.Beside = "trainer"
	named.Name = "Trainer_1"
	large.Files = map[string][]byte{"model.bin": bytes.Repeat([]byte{0xff}, 1<<20)}
	for want, g := range map[string]trinity.ProcessGroup{"mode colocate": beside, "no name of a Job": named, "put large files": large} {
		if _, err := k.Launch(t.Context(), g); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	f.write(t, "refuse", "Error from server (NotFound): namespaces \"team\" not found\n")
	want := `kubectl: exit status 1; it said: Error from server (NotFound): namespaces "team" not found`
	if _, err := k.Launch(t.Context(), podGroup); err == nil || err.Error() != want {
		t.Errorf("a namespace that is not there: %v", err)
	}
	logged := strings.Repeat("E1127 08:53:32.282268   25312 memcache.go:265] \"Unhandled Error\" err=\"couldn't get API group list\"\n", 5)
	f.write(t, "refuse", "error: failed to download openapi: dial tcp 127.0.0.1:1: connect: connection refused\n")
	f.write(t, "stuck", logged+"The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?")
	want = "kubectl: exit status 1; it said: error: failed to download openapi: dial tcp 127.0.0.1:1: connect: connection refused"
	if _, err := k.Launch(t.Context(), podGroup); err == nil || err.Error() != want {
		t.Errorf("a server that is not reached: %v", err)
	}
	want = "kubectl: exit status 1; it said: The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?"
	if err := k.Down(t.Context(), "run"); err == nil || err.Error() != want {
		t.Errorf("a server that is not reached: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := k.Launch(t.Context(), podGroup); err == nil || !strings.Contains(err.Error(), "kubectl is not on this machine") {
		t.Errorf("without kubectl: %v", err)
	}
}

func TestKubernetesArguments(t *testing.T) {
	for _, args := range []map[string]any{{}, {"image": "i", "keep": -1}, {"image": "i", "volumes": map[string]any{"runs": "runs"}}} {
		if _, err := Launchers.Build("kubernetes", args); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
	k := cluster(t, map[string]any{"host": "driver.example.org"})
	if k.Reach() != "driver.example.org" || cluster(t, nil).Reach() == "" {
		t.Error("no host")
	}
}
