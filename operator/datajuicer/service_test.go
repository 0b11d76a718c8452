package datajuicer

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity/trinitytest"
)

// The test binary is also the service that the tests start.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		serve(os.Args[2:])
		return
	}
	os.Exit(m.Run())
}

func serve(args []string) {
	set := flag.NewFlagSet("serve", flag.ExitOnError)
	host, port := set.String("host", "", ""), set.Int("port", 0, "")
	how := set.String("how", "", "")
	_ = set.Parse(args)
	switch *how {
	case "fails":
		fmt.Fprintln(os.Stderr, "ModuleNotFoundError: No module named 'trinity'")
		os.Exit(1)
	case "hangs":
		time.Sleep(time.Hour)
	}
	j := &trinitytest.Juicer{Edit: func(map[string]any) (map[string]float64, bool) { return nil, true }}
	_ = http.ListenAndServe(fmt.Sprintf("%s:%d", *host, *port), j.Handler())
}

func say(string) {}

func TestSessionProcessesTasks(t *testing.T) {
	j := trinitytest.NewJuicer(t, func(row map[string]any) (map[string]float64, bool) { return nil, row["n"] != 2.0 })
	s := &Service{URL: j.URL, Say: say}
	dir := t.TempDir()
	in := filepath.Join(dir, "in.jsonl")
	if err := os.WriteFile(in, []byte("{\"n\": 1}\n{\"n\": 2}\n{\"n\": 3}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	settings := Settings{Type: "task", Operators: []map[string]map[string]any{{"a_filter": {"min": 3}}}, Processes: 2,
		Inputs: []string{in}, OutputDir: dir, TopK: -1}
	x, err := s.Open(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	if rows, err := x.ProcessTask(t.Context()); err != nil || rows != 2 {
		t.Errorf("%d rows, %v", rows, err)
	}
	want := `{"inputs":["` + in + `"],"np":2,"operators":[{"a_filter":{"min":3}}],"output_dir":"` + dir +
		`","pipeline_type":"task","top_k":-1}`
	if sent, _ := json.Marshal(j.Created[0]); string(sent) != want {
		t.Errorf("the session has the settings %s\nwant %s", sent, want)
	}
	settings.Inputs[0] = "nowhere"
	if x, err = s.Open(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	if _, err := x.ProcessTask(t.Context()); err == nil || !strings.Contains(err.Error(),
		"/process_task: 500 Internal Server Error: Task processing failed: Traceback open nowhere") {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := x.ProcessTask(t.Context()); err == nil || !strings.Contains(err.Error(), "404 Not Found: Session ID not found.") {
		t.Errorf("after the end: %v", err)
	}
}

func TestMissingServiceIsAnError(t *testing.T) {
	port, err := freePort(0)
	if err != nil {
		t.Fatal(err)
	}
	s := &Service{URL: fmt.Sprintf("http://127.0.0.1:%d", port), Say: say}
	if _, err := s.Open(t.Context(), Settings{}); err == nil || !strings.Contains(err.Error(), s.URL) ||
		!strings.Contains(err.Error(), "auto_start") {
		t.Error(err)
	}
	j := trinitytest.NewJuicer(t, nil)
	s = &Service{URL: j.URL, Say: say}
	if _, err := s.Open(t.Context(), Settings{}); err == nil || !strings.Contains(err.Error(), "400 Bad Request: Failed to parse config") {
		t.Error(err)
	}
}

func TestOpenStartsOneService(t *testing.T) {
	s := &Service{Start: []string{os.Args[0], "serve"}, Wait: time.Minute, Say: say}
	x, err := s.Open(t.Context(), Settings{Operators: []map[string]map[string]any{{"a": nil}}})
	if err != nil {
		t.Fatal(err)
	}
	url, server := s.URL, s.server
	if second, err := s.Open(t.Context(), Settings{Operators: []map[string]map[string]any{{"b": nil}}}); err != nil ||
		s.server != server || second.id == x.id {
		t.Errorf("the second session: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if (&Service{URL: url}).healthy(t.Context()) == nil {
		t.Error("the service still runs")
	}
}

func TestDefaultCommandIsTrinityRFTsModule(t *testing.T) {
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\n[ \"$1 $2\" = '-m trinity.service.data_juicer.server.server' ] || exit 1\nshift "+
		"2\nexec %s serve \"$@\"\n", os.Args[0])
	if err := os.WriteFile(filepath.Join(dir, "python3"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	port, err := freePort(0)
	if err != nil {
		t.Fatal(err)
	}
	s := &Service{Port: port, Say: say}
	if _, err := s.Open(t.Context(), Settings{ConfigPath: "recipe.yaml"}); err != nil || s.URL != fmt.Sprintf("http://127.0.0.1:%d", port) {
		t.Errorf("%s: %v", s.URL, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestFailedStartIsReported(t *testing.T) {
	for how, want := range map[string]string{"fails": "the process ended; it said: ModuleNotFoundError: No module named " +
		"'trinity'", "hangs": "no answer within 300ms"} {
		s := &Service{Start: []string{os.Args[0], "serve", "--how", how}, Wait: 300 * time.Millisecond, Say: say}
		if how == "fails" {
			s.Wait = time.Minute
		}
		if _, err := s.Open(t.Context(), Settings{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", how, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	s := &Service{Start: []string{os.Args[0], "serve", "--how", "hangs"}, Say: say}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Open(ctx, Settings{}); err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("cancelled: %v", err)
	}
	t.Setenv("PATH", "")
	if _, err := (&Service{Say: say}).Open(t.Context(), Settings{}); err == nil || !strings.Contains(err.Error(), "no python3 in PATH") {
		t.Error(err)
	}
}

func TestTakenPortIsAnError(t *testing.T) {
	j := trinitytest.NewJuicer(t, nil)
	var port int
	if _, err := fmt.Sscanf(j.URL, "http://127.0.0.1:%d", &port); err != nil {
		t.Fatal(err)
	}
	if _, err := (&Service{Port: port, Start: []string{"x"}, Say: say}).Open(t.Context(), Settings{}); err == nil ||
		!strings.Contains(err.Error(), "service.data_juicer.port") {
		t.Error(err)
	}
}
