package launcher

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
)

// fakeRay is the Jobs API of Ray 2.60. A job runs until it is stopped or finish ends it.
type fakeRay struct {
	*httptest.Server
	mu       sync.Mutex
	packages map[string][]byte
	jobs     map[string]*rayStatus
	bodies   map[string]string // of the submissions
	logs     map[string]string
	order    []string // of the jobs
	lose     int      // answers to submissions
	silent   int      // requests for logs without an answer

	interrupt context.CancelFunc // called before the answer to a submission, if there is one
	stops     []string           // in their order
}

const fakeToken = "token-of-the-cluster"

// newFakeRay serves the API to those who know the token.
func newFakeRay(t *testing.T) *fakeRay {
	f := &fakeRay{packages: map[string][]byte{}, jobs: map[string]*rayStatus{}, bodies: map[string]string{}, logs: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /api/packages/gcs/{name}", func(_ http.ResponseWriter, r *http.Request) {
		f.packages[r.PathValue("name")], _ = io.ReadAll(r.Body)
	})
	mux.HandleFunc("POST /api/jobs/{$}", f.submit)
	mux.HandleFunc("GET /api/jobs/{$}", func(w http.ResponseWriter, _ *http.Request) {
		all := []*rayStatus{}
		for _, s := range f.jobs {
			all = append(all, s)
		}
		_ = json.NewEncoder(w).Encode(all)
	})
	mux.HandleFunc("GET /api/jobs/{id}", f.job(func(s *rayStatus) any { return s }))
	mux.HandleFunc("GET /api/jobs/{id}/logs", f.job(func(s *rayStatus) any {
		if f.silent > 0 {
			f.silent--
			panic(http.ErrAbortHandler)
		}
		return map[string]string{"logs": f.logs[s.ID]}
	}))
	mux.HandleFunc("POST /api/jobs/{id}/stop", f.job(func(s *rayStatus) any {
		f.stops = append(f.stops, s.ID)
		s.Status = "STOPPED"
		return map[string]bool{"stopped": true}
	}))
	mux.HandleFunc("GET /api/v0/nodes", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data": {"result": {"result": [{"state": "ALIVE", "resources_total": {"CPU": 4.0}},
			{"state": "ALIVE", "resources_total": {"GPU": 8.0}}, {"state": "ALIVE", "resources_total": {"GPU": 4.0}},
			{"state": "DEAD", "resources_total": {"GPU": 2.0}}]}}}`)
	})
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer "+fakeToken {
			http.Error(w, "no token", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

// submit starts a job. It refuses a name that exists as Ray does.
func (f *fakeRay) submit(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var job rayJob
	if err := json.Unmarshal(body, &job); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if f.jobs[job.ID] != nil {
		http.Error(w, "Traceback: Request failed with status code 400: the job "+job.ID+" already exists", http.StatusInternalServerError)
		return
	}
	f.jobs[job.ID] = &rayStatus{ID: job.ID, Status: "RUNNING", Metadata: job.Metadata}
	f.bodies[job.ID], f.logs[job.ID] = string(body), "begun\n"
	f.order = append(f.order, job.ID)
	if f.interrupt != nil {
		f.interrupt()
		<-time.After(50 * time.Millisecond) // the client may go
	}
	if f.lose > 0 {
		f.lose--
		panic(http.ErrAbortHandler)
	}
	fmt.Fprintf(w, `{"job_id": %q, "submission_id": %[1]q}`, job.ID)
}

// job answers about a job.
func (f *fakeRay) job(answer func(*rayStatus) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s := f.jobs[r.PathValue("id")]
		if s == nil {
			http.Error(w, "no such job", http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(answer(s))
	}
}

// finish ends a job by itself.
func (f *fakeRay) finish(id, status, message string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs[id].Status, f.jobs[id].Message = status, message
	f.logs[id] += "the last line\n"
}

// jobOf returns the job of a run's group that was started last.
func (f *fakeRay) jobOf(t *testing.T, run, group string) string {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range slices.Backward(f.order) {
		if strings.HasPrefix(id, run+"-"+group+"-") {
			return id
		}
	}
	t.Fatalf("%s has no job of %s", run, group)
	return ""
}

// launcher returns a launcher of this cluster that waits for nothing.
func (f *fakeRay) launcher(t *testing.T, args map[string]any) *rayCluster {
	t.Helper()
	t.Setenv(rayToken, fakeToken)
	built, err := Launchers.Build("ray", args)
	if err != nil {
		t.Fatal(err)
	}
	r := built.(*rayCluster)
	if err := r.ReadCluster(&config.Cluster{RayAddress: f.URL + "/"}); err != nil {
		t.Fatal(err)
	}
	r.jobs.every, r.jobs.client.Pause = time.Millisecond, time.Millisecond
	return r
}

var aGroup = trinity.ProcessGroup{
	Name: "trainer", Nodes: 2, GPUs: 4, Command: []string{"/env/bin/python", "-m", "trinity_worker.join"},
	Env: map[string]string{"PLAIN": "1"}, Secret: map[string]string{"KEY": "a-secret"},
	Files: map[string][]byte{"config.yaml": []byte("mode: both")},
}

func TestRayGroupIsAJob(t *testing.T) {
	f := newFakeRay(t)
	r := f.launcher(t, map[string]any{"python": "python3.11", "cpus": 2, "resources": map[string]any{"disk": 1}})
	launched, err := r.Launch(t.Context(), aGroup)
	if err != nil {
		t.Fatal(err)
	}
	id := f.jobOf(t, r.run, "trainer")
	body := f.bodies[id]
	for _, want := range []string{
		`"entrypoint":"python3.11 -m trinity_worker.ray_group"`, `"trinity_run":"` + r.run, `"RAY_JOB_STOP_WAIT_TIME_S":"30"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the job %s lacks %s", body, want)
		}
	}
	if strings.Contains(body, "a-secret") || strings.Contains(body, "KEY") {
		t.Errorf("the job shows a secret: %s", body)
	}
	group := f.group(t, body)
	if group.secret["KEY"] != "a-secret" || group.Resources["GPU"] != 4 || group.Resources["CPU"] != 2 || group.Resources["disk"] != 1 ||
		group.Nodes != 2 || group.Driver || group.Run != r.run ||
		group.Name != id || group.Patience != rayWait.Seconds() || !slices.Equal(group.Command, aGroup.Command) {
		t.Errorf("the group is %+v", group)
	}
	server := trinity.ProcessGroup{Nodes: 1, GPUs: 2, Beside: "trainer"}
	for slot, name := range []string{"server0", "server1"} {
		server.Name = name
		if _, err := r.Launch(t.Context(), server); err != nil {
			t.Fatal(err)
		}
		if x := f.group(t, f.bodies[f.jobOf(t, r.run, name)]); x.Beside != id || x.OfNodes != 2 || x.Slot != slot {
			t.Errorf("%s is %+v", name, x)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- launched.Wait(t.Context()) }()
	f.finish(id, "FAILED", "Job entrypoint command failed with exit code 1,\nlast available logs: out of memory")
	want := "the job " + id + " of Ray: FAILED: Job entrypoint command failed with exit code 1, last"
	if err := <-ended; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the job failed: %v", err)
	}
	var logs bytes.Buffer
	if err := launched.Logs(t.Context(), &logs); err != nil || logs.String() != "begun\nthe last line\n" {
		t.Errorf("%q, %v", &logs, err)
	}
}

// group reads what trinity_worker.ray_group does.
func (f *fakeRay) group(t *testing.T, body string) (x rayGroup) {
	t.Helper()
	var job rayJob
	if err := json.Unmarshal([]byte(body), &job); err != nil {
		t.Fatal(err)
	}
	data := f.packages[strings.TrimPrefix(job.Runtime.Dir, "gcs://")]
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"trinity_worker/ray_group.py", "trinity_worker/join.py"} {
		if _, err := z.Open(name); err != nil {
			t.Error(err)
		}
	}
	in, err := z.Open(rayFile)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(in)
	if err != nil || strings.Contains(string(text), "a-secret") {
		t.Errorf("%s, %v", text, err)
	}
	secrets := f.packages[strings.TrimPrefix(job.Runtime.Env[raySecrets], "gcs://")]
	if err := errors.Join(json.Unmarshal(text, &x), json.Unmarshal(secrets, &x.secret)); err != nil {
		t.Fatal(err)
	}
	return x
}

func TestRayGroupIsStopped(t *testing.T) {
	f := newFakeRay(t)
	r := f.launcher(t, nil)
	f.lose = 1 // the client asks again, and Ray says that the job exists
	launched, err := r.Launch(t.Context(), aGroup)
	if err != nil {
		t.Fatal(err)
	}
	if err := launched.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := launched.Wait(t.Context()); err != nil {
		t.Errorf("waiting for a job that was stopped: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	f.finish(f.jobOf(t, r.run, "trainer"), "RUNNING", "")
	cancel(errors.New("the test is over"))
	if err := launched.Wait(ctx); err == nil || !strings.Contains(err.Error(), "the test is over") {
		t.Errorf("waiting ended with %v", err)
	}
}

// A group that starts again is another job.
func TestRayGroupStartsAgain(t *testing.T) {
	f := newFakeRay(t)
	r := f.launcher(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 2 {
		launched, err := r.Launch(ctx, aGroup)
		if err != nil {
			t.Fatal(err)
		}
		id := f.jobOf(t, r.run, "trainer")
		if state, err := r.jobs.state(t.Context(), id); state.ended || err != nil {
			t.Errorf("%+v, %v", state, err)
		}
		if x := f.group(t, f.bodies[id]); x.Patience <= 0 || x.Patience > 60 {
			t.Errorf("it waits %g seconds for its nodes", x.Patience)
		}
		f.finish(id, "FAILED", "killed")
		if err := launched.Wait(t.Context()); err == nil {
			t.Error("the job has not failed")
		}
		if err := launched.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if len(f.jobs) != 2 {
		t.Errorf("jobs: %d, want 2", len(f.jobs))
	}
}

// A start that is interrupted, or whose answers are lost, leaves no job behind.
func TestRayStartIsInterrupted(t *testing.T) {
	f := newFakeRay(t)
	r := f.launcher(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	f.interrupt = cancel
	launched, err := r.Launch(ctx, aGroup)
	if err != nil {
		t.Fatalf("the job has begun, and nobody can end it: %v", err)
	}
	if err := launched.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	r.jobs.client.Retries = 0
	f.lose = 1
	if _, err := r.Launch(t.Context(), aGroup); err == nil {
		t.Error("the answer was lost")
	}
	for id, s := range f.jobs {
		if !s.ended() {
			t.Errorf("%s is left", id)
		}
	}
}

func TestRayRunsADriver(t *testing.T) {
	f := newFakeRay(t)
	r := f.launcher(t, nil)
	id, err := r.Submit(t.Context(), trinity.ProcessGroup{Name: "run", Command: []string{"trinity", "run"}})
	if err != nil {
		t.Fatal(err)
	}
	group := f.group(t, f.bodies[id])
	if !group.Driver || group.Env[rayRun] != id || group.secret[rayToken] != fakeToken || strings.Contains(f.bodies[id], fakeToken) {
		t.Errorf("the driver is %+v", group)
	}
	t.Setenv(rayRun, id)
	inside := f.launcher(t, nil) // that of the driver
	if _, err := inside.Launch(t.Context(), aGroup); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Launch(t.Context(), aGroup); err != nil { // of another run
		t.Fatal(err)
	}
	if state, ended, err := r.Status(t.Context(), id); state != "RUNNING" || ended || err != nil {
		t.Errorf("%s, %t, %v", state, ended, err)
	}
	out, in := io.Pipe()
	go func() { in.CloseWithError(r.Logs(t.Context(), id, true, in)) }()
	if _, err := io.ReadFull(out, make([]byte, len("begun\n"))); err != nil {
		t.Fatal(err)
	}
	f.finish(id, "RUNNING", "")
	f.mu.Lock()
	f.silent = 2 * (1 + r.jobs.client.Retries) // two failures of the client
	f.mu.Unlock()
	if err := r.Down(t.Context(), id); err != nil {
		t.Error(err)
	}
	if rest, err := io.ReadAll(out); err != nil || string(rest) != "the last line\n" {
		t.Errorf("the logs end with %q, %v", rest, err)
	}
	if want := []string{id, f.jobOf(t, id, "trainer")}; !slices.Equal(f.stops, want) {
		t.Errorf("stopped %v, want %v", f.stops, want)
	}
}

// All of a log comes with each request, so a long one is asked for less often.
func TestRayLogPause(t *testing.T) {
	j := rayJobs{every: time.Second}
	for bytes, want := range map[int]time.Duration{0: 1, 1000: 1, 1 << 20: 5, 1 << 30: 30} {
		if got := j.logPause(bytes); got != want*time.Second {
			t.Errorf("%d bytes: %v", bytes, got)
		}
	}
}

func TestRayThatRefuses(t *testing.T) {
	f := newFakeRay(t)
	r := f.launcher(t, nil)
	if n, err := r.GPUs(); n != 4 || err != nil {
		t.Errorf("GPUs: %d, %v, want those of the node that has fewest", n, err)
	}
	if state, ended, err := r.Status(t.Context(), "other"); state != "no longer known to Ray" || !ended || err != nil {
		t.Errorf("a run that is not there: %s, %t, %v", state, ended, err)
	}
	if err := r.Down(t.Context(), "other"); err != nil {
		t.Errorf("ending a run that is not there: %v", err)
	}
	r.jobs.token = ""
	if _, err := r.Launch(t.Context(), aGroup); err == nil || !strings.Contains(err.Error(), "set RAY_AUTH_TOKEN") {
		t.Errorf("without the token: %v", err)
	}
	f.Close()
	if n, err := r.GPUs(); err == nil || !strings.Contains(err.Error(), f.URL) {
		t.Errorf("GPUs of no cluster: %d, %v", n, err)
	}
	if _, err := r.Launch(t.Context(), aGroup); err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), f.URL) {
		t.Errorf("without a cluster: %v", err)
	}
}

func TestRayAddress(t *testing.T) {
	for _, c := range []struct{ key, env, want string }{
		{"auto", "", "http://127.0.0.1:8265"},
		{"auto", "http://head:9000", "http://head:9000"},
		{"auto", "10.0.0.1:6379", "http://10.0.0.1:8265"},
		{"auto", "auto", "http://127.0.0.1:8265"},
		{"https://ray.example.org/", "http://head:9000", "https://ray.example.org"},
		{"ray://head:10001", "", "http://head:8265"},
		{"head", "", "error"},
		{"ftp://head", "", "error"},
	} {
		t.Setenv("RAY_ADDRESS", c.env)
		t.Setenv("RAY_API_SERVER_ADDRESS", "")
		r := newRay().(*rayCluster)
		got := "error"
		if err := r.ReadCluster(&config.Cluster{RayAddress: c.key}); err == nil {
			got = r.jobs.address
		}
		if got != c.want {
			t.Errorf("ray_address %q, RAY_ADDRESS %q: %s, want %s", c.key, c.env, got, c.want)
		}
	}
}

func TestRayReach(t *testing.T) {
	f := newFakeRay(t)
	if host := f.launcher(t, map[string]any{"host": "driver.example.org"}).Reach(); host != "driver.example.org" {
		t.Error(host)
	}
	if host := f.launcher(t, nil).Reach(); net.ParseIP(host) == nil {
		t.Errorf("%q is no address of this machine", host)
	}
}

func TestRayArguments(t *testing.T) {
	for _, args := range []map[string]any{{"python": ""}, {"cpus": -1}, {"resources": map[string]any{"GPU": 1}}} {
		if _, err := Launchers.Build("ray", args); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

func TestRayRenders(t *testing.T) {
	r := newFakeRay(t).launcher(t, nil)
	text, err := r.Render(aGroup)
	if err != nil || !strings.Contains(text, "2 × {CPU 1, GPU 4}, STRICT_SPREAD") || strings.Contains(text, "a-secret") {
		t.Errorf("%s, %v", text, err)
	}
	beside := aGroup
	beside.Name, beside.Beside = "server0", "trainer"
	if text, err = r.Render(beside); err != nil || !strings.Contains(text, "the nodes and GPUs of trainer") {
		t.Errorf("%s, %v", text, err)
	}
	if text, err = r.Script(aGroup); err != nil || !strings.Contains(text, "head node") || strings.Contains(text, "a-secret") {
		t.Errorf("%s, %v", text, err)
	}
	driver := trinity.ProcessGroup{Name: "run", Command: []string{"trinity", "run", "--config", "run.yaml"}}
	for program, want := range map[string]string{"": "command: trinity run", "/opt/trinity": "command: /opt/trinity run"} {
		text, err := newFakeRay(t).launcher(t, map[string]any{"program": program}).Script(driver)
		if err != nil || !strings.Contains(text, want+" --config run.yaml") {
			t.Errorf("program %q: %s, %v", program, text, err)
		}
	}
}
