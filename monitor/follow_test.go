package monitor

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
)

// points are what a service has: how often it counts each value of a metric at a step.
type points map[string]int

func (p points) add(name string, step int64, v float64) { p[fmt.Sprintf("%s %d %g", name, step, v)]++ }

// service stands in for the service of a sink.
type service struct {
	args   map[string]any
	points func() points
	status func() Status
	logs   func() points       // log records; nil if it takes none
	named  func(string) string // names of metrics there; nil keeps them
	local  bool                // it is files, which have no faults
}

// services makes the service of each sink that has one. faults fails some requests first.
var services = map[string]func(t *testing.T, dir string, faults *faults) service{
	"mlflow": newMLflow, "trackio": newTrackio, "trackio server": newTrackioServer, "wandb": newWandb,
	"wandb server": newWandbServer, "swanlab": newSwanLab, "swanlab server": newSwanLabServer,
	"otel": newOtel,
}

// ended returns how the run ended, as the service knows it, or want if it knows no ends.
func ended(s service, want Status) Status {
	if s.status == nil {
		return want
	}
	return s.status()
}

// sinkOf returns the name of the sink of a service.
func sinkOf(service string) string { name, _, _ := strings.Cut(service, " "); return name }

// faults is what happens to the next requests, one by one: a status, or a word of the cases below.
type faults struct {
	mu   sync.Mutex
	next []string
	hold chan struct{} // hanging requests end when it is closed
}

func (f *faults) take() (what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.next) > 0 {
		what, f.next = f.next[0], f.next[1:]
	}
	return what
}

func (f *faults) left() int { f.mu.Lock(); defer f.mu.Unlock(); return len(f.next) }

// serve returns the address of a server with these faults.
func (f *faults) serve(t *testing.T, h http.Handler) string {
	f.hold = make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch what := f.take(); what {
		case "":
			h.ServeHTTP(w, r)
		case "hangs":
			select {
			case <-f.hold:
			case <-r.Context().Done():
			}
		case "loses the answer": // it has taken the request
			h.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case "loses the request":
			panic(http.ErrAbortHandler)
		default:
			code := 0
			_, _ = fmt.Sscan(what, &code)
			w.WriteHeader(code)
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(sync.OnceFunc(func() { close(f.hold) }))
	return s.URL
}

// followed opens a run with a sink whose pauses are short, and returns what it says.
func followed(t *testing.T, dir, name string, args map[string]any) (monitors []trinity.Monitor, said func() string) {
	t.Helper()
	var mu sync.Mutex
	var lines []string
	say := func(line string) { mu.Lock(); defer mu.Unlock(); lines = append(lines, line) }
	run := Run{Dir: dir, Project: "p", Name: "n", Say: say, Settings: map[string]any{"algorithm.repeat_times": 8, "model.model_path": "m"}}
	quickly(t)
	monitors, err := Open([]string{name}, args, run)
	if err != nil {
		t.Fatal(err)
	}
	return monitors, func() string { mu.Lock(); defer mu.Unlock(); return strings.Join(lines, "\n") }
}

// quickly shortens the pauses between attempts.
func quickly(t *testing.T) {
	old := firstPause
	firstPause = 1
	t.Cleanup(func() { firstPause = old })
}

func end(t *testing.T, monitors []trinity.Monitor, s Status) {
	t.Helper()
	if err := Close(monitors, s); err != nil {
		t.Error(err)
	}
}

// log logs the steps of a small run.
func logSteps(t *testing.T, monitors []trinity.Monitor, from, to int64) {
	for step := from; step <= to; step++ {
		for _, m := range monitors {
			logAll(t, m, exploreRecord(step, float64(step)/8), trainRecord(step, -1/float64(step)),
				rec("explorer", step, trinity.Metrics{"eval/held_out/accuracy/mean@4": float64(step) / 16, "time/eval": 2}))
		}
	}
}

// compare checks that a service has each point of the run's file once, and nothing else.
func compare(t *testing.T, dir string, s service) {
	t.Helper()
	table, err := rundir.ReadTable(dir, func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	want := points{}
	for r := range table.Records() {
		for name, v := range r.Metrics {
			if s.named != nil {
				name = s.named(name)
			}
			want.add(name, r.Step, v)
		}
	}
	got := s.points()
	for _, p := range slices.Sorted(maps.Keys(want)) {
		if got[p] != 1 {
			t.Errorf("the service has %q %d times", p, got[p])
		}
	}
	if len(got) != len(want) {
		t.Errorf("the service has %d points, want %d", len(got), len(want))
	}
}

func TestSinksSendEachRecordOnce(t *testing.T) {
	for name, begin := range services {
		for _, fault := range []string{"", "429", "500", "503", "loses the answer", "loses the request"} {
			t.Run(name+" "+fault, func(t *testing.T) {
				dir := t.TempDir()
				s := begin(t, dir, &faults{next: slices.Repeat([]string{fault, "", fault}, 5)})
				if s.local && fault != "" {
					t.Skip("files have no such faults")
				}
				monitors, said := followed(t, dir, sinkOf(name), s.args)
				logSteps(t, monitors, 1, 4)
				end(t, monitors, Stopped)
				compare(t, dir, s)
				if strings.Contains(said(), "trinity sync") {
					t.Errorf("said %q", said())
				}
				if got := ended(s, Stopped); got != Stopped {
					t.Errorf("the run is %q there", got)
				}
			})
		}
	}
}

// A run that was killed repeats the steps after its checkpoint, which the service may have.
func TestSinksSendNothingAgainAfterAKill(t *testing.T) {
	for name, begin := range services {
		for _, lost := range []bool{false, true} { // the last position
			t.Run(fmt.Sprintf("%s %v", name, lost), func(t *testing.T) {
				dir := t.TempDir()
				s, name := begin(t, dir, &faults{}), sinkOf(name)
				monitors, _ := followed(t, dir, name, s.args)
				logSteps(t, monitors, 1, 2)
				end(t, monitors, "")
				kept := filepath.Join(dir, "sent_"+name+".json")
				position, err := os.ReadFile(kept)
				if err != nil {
					t.Fatal(err)
				}
				monitors, _ = followed(t, dir, name, s.args)
				logSteps(t, monitors, 3, 4)
				end(t, monitors, "")
				if lost {
					if err := os.WriteFile(kept, position, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				monitors, _ = followed(t, dir, name, s.args)
				logSteps(t, monitors, 3, 6)
				end(t, monitors, Finished)
				compare(t, dir, s)
				if got := ended(s, Finished); got != Finished {
					t.Errorf("the run is %q there", got)
				}
			})
		}
	}
}

// The run goes on beside a service that does not answer, and trinity sync sends the rest.
func TestSinksOfASilentServiceDelayNothing(t *testing.T) {
	for name, begin := range services {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			f := &faults{next: slices.Repeat([]string{"hangs"}, 100)}
			s, name := begin(t, dir, f), sinkOf(name)
			if s.local {
				t.Skip("files are never silent")
			}
			args := maps.Clone(s.args)
			args["close_timeout"] = 0
			monitors, said := followed(t, dir, name, args)
			logSteps(t, monitors, 1, 3)
			end(t, monitors, Failed)
			if want := "trinity sync " + dir + " --to " + name; !strings.Contains(said(), want) || len(s.points()) > 0 {
				t.Errorf("said %q; want %q, and no points: %d", said(), want, len(s.points()))
			}
			if strings.Contains(said(), "the run goes on") {
				t.Errorf("said %q at the end of the run", said())
			}
			f.mu.Lock()
			f.next = nil
			f.mu.Unlock()
			copied := filepath.Join(t.TempDir(), "copy")
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			for _, want := range []int64{9, 0} {
				if sent, err := Sync(t.Context(), copied, name, s.args, nil); err != nil || sent != want {
					t.Errorf("sync sent %d records, %v; want %d", sent, err, want)
				}
			}
			compare(t, dir, s)
			if got := ended(s, Failed); got != Failed {
				t.Errorf("the run is %q there", got)
			}
		})
	}
}

// A service that refuses for good is left alone, with one line; the run's directory has everything.
func TestSinkSaysWhyAServiceRefuses(t *testing.T) {
	dir := t.TempDir()
	f := &faults{next: slices.Repeat([]string{"403"}, 1000)}
	s := newMLflow(t, dir, f)
	monitors, said := followed(t, dir, "mlflow", s.args)
	logSteps(t, monitors, 1, 3)
	end(t, monitors, Finished)
	if lines := strings.Split(said(), "\n"); len(lines) > 2 || !strings.Contains(said(), "403 Forbidden") {
		t.Errorf("said %q", lines)
	}
	if left := len(f.next); left < 990 {
		t.Errorf("it asked %d times", 1000-left)
	}
	if _, err := Sync(t.Context(), dir, "mlflow", s.args, nil); err == nil || !strings.Contains(err.Error(), "403 Forbidden") {
		t.Errorf("sync: %v", err)
	}
}

// A process follows the file alone; the next one goes on where it stopped.
func TestOneProcessFollowsForASink(t *testing.T) {
	dir := t.TempDir()
	s := newMLflow(t, dir, &faults{})
	first, _ := followed(t, dir, "mlflow", s.args)
	logSteps(t, first, 1, 2)
	for len(s.points()) == 0 { // it has the lock
		time.Sleep(time.Millisecond)
	}
	if _, err := Sync(t.Context(), dir, "mlflow", s.args, nil); err == nil || !strings.Contains(err.Error(), "the run n (process") {
		t.Errorf("sync beside the run: %v", err)
	}
	second, _ := followed(t, dir, "mlflow", s.args)
	logSteps(t, second, 3, 4)
	end(t, first, Finished)
	end(t, second, Finished)
	compare(t, dir, s)
}

// trinity sync asks nothing of a service that has the whole run.
func TestSyncOfAWholeRunSendsNothing(t *testing.T) {
	for name, begin := range services {
		t.Run(name, func(t *testing.T) {
			f, dir := &faults{}, filepath.Join(t.TempDir(), "monitor")
			s := begin(t, dir, f)
			if s.local {
				t.Skip("the service is files, which no request reaches")
			}
			monitors, _ := followed(t, dir, sinkOf(name), s.args)
			logSteps(t, monitors, 1, 2)
			end(t, monitors, Finished)
			f.mu.Lock()
			f.next = []string{"403"}
			f.mu.Unlock()
			if n, err := Sync(t.Context(), dir, sinkOf(name), s.args, nil); n != 0 || err != nil || f.left() != 1 {
				t.Errorf("sync: %d, %v, and the service got %d requests", n, err, 1-f.left())
			}
		})
	}
}

func TestSyncRefuses(t *testing.T) {
	dir := t.TempDir()
	quickly(t)
	away := map[string]any{"uri": "http://127.0.0.1:1"}
	file := filepath.Join(dir, rundir.MetricsFile)
	if err := os.WriteFile(file, []byte(`{"step":1,"role":"trainer","metrics":{"m":1}}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Sync(t.Context(), dir, "mlflow", away, nil); err == nil || !strings.Contains(err.Error(), "the rest once mlflow answers") {
		t.Errorf("a service that is away: %v", err)
	}
	for name, want := range map[string]string{"console": "follows no file", "nothing": "unknown monitor"} {
		if _, err := Sync(t.Context(), dir, name, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every run has the jsonl monitor. It stands before the sinks, which read each record from its file.
func TestSinksComeAfterTheFile(t *testing.T) {
	for _, c := range []struct {
		names []string
		args  map[string]any
		want  string
	}{
		{[]string{"otel"}, map[string]any{"close_timeout": 1}, "[jsonl otel] map[otel:map[close_timeout:1]]"},
		{[]string{"wandb", "jsonl", "otel", "console"}, nil, "[jsonl console wandb otel] map[]"},
		{[]string{"console", "prometheus"}, nil, "[console prometheus jsonl] map[]"},
		{[]string{"tensorboard"}, nil, "[tensorboard jsonl] map[]"},
		{[]string{"test_a"}, map[string]any{"level": 1}, "[test_a jsonl] map[test_a:map[level:1]]"},
		{nil, nil, "[jsonl] map[]"},
	} {
		names, args := complete(c.names, c.args)
		if got := fmt.Sprint(names, args); got != c.want {
			t.Errorf("%v: %s, want %s", c.names, got, c.want)
		}
	}
}

// pairedSink is a sink whose Close waits for that of another sink to begin.
type pairedSink struct {
	mlflow
	name        string
	mine, other chan struct{}
}

func (w *pairedSink) Close() error {
	close(w.mine)
	select {
	case <-w.other:
		return errors.New(w.name)
	case <-time.After(time.Minute):
		return errors.New("the other sink is not closed at the same time")
	}
}

func TestSinksCloseAtOnce(t *testing.T) {
	a, b := make(chan struct{}), make(chan struct{})
	first, second := &pairedSink{name: "first", mine: a, other: b}, &pairedSink{name: "second", mine: b, other: a}
	err := Close([]trinity.Monitor{first, second}, Failed)
	if err == nil || err.Error() != "first\nsecond" || second.Follower.status != Failed {
		t.Errorf("%v, status %q", err, second.Follower.status)
	}
}

// Another service of the same kind has none of the records that the position counts.
func TestSinksRefuseAnotherTarget(t *testing.T) {
	for name, begin := range services {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, name := begin(t, dir, &faults{}), sinkOf(name)
			monitors, _ := followed(t, dir, name, s.args)
			logSteps(t, monitors, 1, 2)
			end(t, monitors, Finished)
			other := begin(t, t.TempDir(), &faults{})
			if maps.Equal(s.args, other.args) {
				t.Skip("the service is files in the run's directory")
			}
			kept := filepath.Join(dir, "sent_"+name+".json")
			_, err := Sync(t.Context(), dir, name, other.args, nil)
			if err == nil || !strings.Contains(err.Error(), kept) || strings.Contains(err.Error(), "\n") {
				t.Errorf("sync to another service: %v", err)
			}
			if n, err := Sync(t.Context(), dir, name, s.args, nil); n != 0 || err != nil {
				t.Errorf("sync to the same service: %d, %v", n, err)
			}
			monitors, said := followed(t, dir, name, other.args)
			logSteps(t, monitors, 3, 3)
			end(t, monitors, Finished)
			if !strings.Contains(said(), kept) {
				t.Errorf("the run said %q", said())
			}
			if err := os.Remove(kept); err != nil {
				t.Fatal(err)
			}
			if n, err := Sync(t.Context(), dir, name, other.args, nil); n != 9 || err != nil {
				t.Errorf("sync without the position: %d, %v", n, err)
			}
			compare(t, dir, other)
		})
	}
}

func TestAPositionHasNoSecret(t *testing.T) {
	for address, want := range map[string]string{
		"http://me:pass@host:5000/a/?token=x": "http://host:5000/a", "https://host": "https://host", "http://host/": "http://host",
	} {
		if got := withoutSecrets(address); got != want {
			t.Errorf("%s is kept as %q, want %q", address, got, want)
		}
	}
}

// A run that ended goes on in another process: its service learns that end too, also if it is the same.
func TestSinksTellEachEnd(t *testing.T) {
	for name, begin := range services {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := begin(t, dir, &faults{})
			for try, steps := range []int64{1, 2, 2} { // the last one finds nothing to do
				monitors, _ := followed(t, dir, sinkOf(name), s.args)
				logSteps(t, monitors, int64(try+1), steps)
				end(t, monitors, Finished)
				if got := ended(s, Finished); got != Finished {
					t.Errorf("after step %d the run is %q there", steps, got)
				}
			}
			compare(t, dir, s)
		})
	}
}

// An offline run whose rows have numbers of an earlier version is written anew.
func TestSwanLabOfAnEarlierVersion(t *testing.T) {
	dir := t.TempDir()
	s := newSwanLab(t, dir, &faults{})
	monitors, _ := followed(t, dir, "swanlab", s.args)
	logSteps(t, monitors, 1, 2)
	end(t, monitors, Finished)
	files, err := filepath.Glob(filepath.Join(dir, "swanlab", "*.swanlab"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	old := frames([]byte(swanlabHeader), numbered(-1, 10), numbered(1, 10), numbered(1, 10), numbered(2, 10))
	if err := os.WriteFile(files[0], old, 0o644); err != nil {
		t.Fatal(err)
	}
	monitors, _ = followed(t, dir, "swanlab", s.args)
	logSteps(t, monitors, 3, 3)
	end(t, monitors, Finished)
	compare(t, dir, s)
	if got := ended(s, Finished); got != Finished {
		t.Errorf("the run is %q there", got)
	}
}
