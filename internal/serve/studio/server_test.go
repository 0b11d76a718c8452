package studio

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/monitor"
)

// site serves the runs below a new directory.
func site(t *testing.T, token string) (dir string, s *httptest.Server) {
	t.Helper()
	dir = t.TempDir()
	return dir, serve(t, dir, token)
}

func serve(t *testing.T, dir, token string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer((&Server{Dir: dir, Token: token, Version: "v1", Every: time.Millisecond}).Handler())
	t.Cleanup(s.Close)
	return s
}

// put writes a file of a run.
func put(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// add appends to a file of a run.
func add(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// line is a record as the jsonl monitor writes it.
func line(step int, role string, metrics string) string {
	at := time.Unix(1e9+int64(step), 0).UTC().Format("2006-01-02T15:04:05.000Z07:00")
	return fmt.Sprintf(`{"step":%d,"role":%q,"time":%q,"metrics":{%s}}`+"\n", step, role, at, metrics)
}

// get asks for a path below /api/v1/ and returns the status and the body.
func get(t *testing.T, s *httptest.Server, path string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// got decodes the answer to a request that must succeed.
func got[T any](t *testing.T, s *httptest.Server, path string) (reply T) {
	t.Helper()
	status, text := get(t, s, "/api/v1/"+path)
	if err := json.Unmarshal([]byte(text), &reply); err != nil || status != http.StatusOK {
		t.Fatalf("%s: status %d, %v: %.400s", path, status, err, text)
	}
	return reply
}

type listed struct {
	Runs    []Run
	Damaged []string
}

// series is the columns of a metric.
type series struct{ steps, times, values []float64 }

// columnsOf asks for metrics and decodes their columns.
func columnsOf(t *testing.T, s *httptest.Server, run, names, since string) (cursor string, reset bool, all map[string]series) {
	t.Helper()
	query := url.Values{"names": {names}}
	if since != "" {
		query.Set("since", since)
	}
	status, text := get(t, s, "/api/v1/runs/"+url.PathEscape(run)+"/metrics?"+query.Encode())
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, text)
	}
	n := int(binary.LittleEndian.Uint32([]byte(text)))
	var header struct {
		Cursor string
		Reset  bool
		Series []struct {
			Name string
			N    int
			As   *int
		}
	}
	if err := json.Unmarshal([]byte(text[4:4+n]), &header); err != nil || (4+n)%8 != 0 {
		t.Fatalf("%v, header of %d bytes", err, n)
	}
	all = map[string]series{}
	rest := text[4+n:]
	take := func(n int) (out []float64) {
		for range n {
			out = append(out, math.Float64frombits(binary.LittleEndian.Uint64([]byte(rest))))
			rest = rest[8:]
		}
		return out
	}
	for _, one := range header.Series {
		if one.As == nil {
			all[one.Name] = series{take(one.N), take(one.N), take(one.N)}
			continue
		}
		as := all[header.Series[*one.As].Name]
		all[one.Name] = series{as.steps, as.times, take(one.N)}
	}
	if rest != "" {
		t.Errorf("%d bytes too many", len(rest))
	}
	return header.Cursor, header.Reset, all
}

func equal(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) })
}

// A page gets a curve once, then what is new, and everything again after a file was cut back.
func TestMetricsFollowTheFile(t *testing.T) {
	dir, s := site(t, "")
	path := put(t, dir, "p/r/monitor/metrics.jsonl", line(1, "explorer", `"a":1,"b":"NaN"`)+line(1, "trainer", `"c":1e300`)+
		line(2, "explorer", `"a":2,"b":"-Infinity"`)+`{"step":3,"role":"expl`)
	names := got[struct {
		Names  []string
		Cursor string
	}](t, s, "runs/p%2Fr/names")
	if !slices.Equal(names.Names, []string{"a", "b", "c"}) {
		t.Errorf("names %q", names.Names)
	}
	at, reset, all := columnsOf(t, s, "p/r", "a,b,c,none", "")
	if !reset || at != names.Cursor || !equal(all["a"].values, []float64{1, 2}) || !equal(all["a"].steps, []float64{1, 2}) ||
		all["a"].times[1] != 1000*(1e9+2) || !equal(all["b"].values, []float64{math.NaN(), math.Inf(-1)}) || !equal(all["c"].values,
		[]float64{1e300}) ||
		all["none"].values != nil {
		t.Errorf("reset %v: %v", reset, all)
	}
	at2, reset, all := columnsOf(t, s, "p/r", "a,b", at)
	if at2 != at || reset || len(all["a"].values) != 0 {
		t.Errorf("nothing is new, but reset %v: %v", reset, all)
	}
	add(t, path, `orer","time":"2001-09-09T01:46:43.000Z","metrics":{"b":3,"d":4}}`+"\n")
	at, reset, all = columnsOf(t, s, "p/r", "a,b,d", at)
	if reset || len(all["a"].values) != 0 || !equal(all["b"].values, []float64{3}) || !equal(all["d"].values, []float64{4}) {
		t.Errorf("reset %v: %v", reset, all)
	}
	put(t, dir, "p/r/monitor/metrics.jsonl", line(1, "explorer", `"a":1`)+line(2, "explorer", `"a":5`)+line(3, "explorer", `"a":6`)+
		line(4, "explorer", `"a":7`)+line(5, "other", fmt.Sprintf(`"long":"%0500d"`, 0)))
	_, reset, all = columnsOf(t, s, "p/r", "a,d", at)
	if !reset || !equal(all["a"].values, []float64{1, 5, 6, 7}) || len(all["d"].values) != 0 {
		t.Errorf("the file is another one, but reset %v: %v", reset, all)
	}
}

// Metrics that come at the same steps have their steps and times once.
func TestStepsOfARoleComeOnce(t *testing.T) {
	dir, s := site(t, "")
	put(t, dir, "r/monitor/metrics.jsonl", line(1, "explorer", `"a":1,"b":2`)+line(2, "explorer", `"a":3,"b":4`)+line(2, "trainer", `"c":5`))
	_, text := get(t, s, "/api/v1/runs/r/metrics?names=a,b,c")
	if n := len(text) - 4 - int(binary.LittleEndian.Uint32([]byte(text))); n != 2*24+2*8+24 {
		t.Errorf("the columns of a, b and c have %d bytes", n)
	}
	if _, _, all := columnsOf(t, s, "r", "a,b,c", ""); !equal(all["b"].steps, []float64{1, 2}) || !equal(all["b"].values, []float64{2, 4}) {
		t.Errorf("b is %v", all["b"])
	}
}

// A resumed run replaces records as the jsonl monitor does. A cursor outlives the server.
func TestMetricsOfAResumedRun(t *testing.T) {
	dir, s := site(t, "")
	begin := func() []trinity.Monitor {
		t.Helper()
		mons, err := monitor.Open([]string{"jsonl"}, nil, monitor.Run{Dir: filepath.Join(dir, "r/monitor"), Name: "r",
			Parts: []string{"trainer"}})
		if err != nil {
			t.Fatal(err)
		}
		return mons
	}
	log := func(mons []trinity.Monitor, step int64, v float64) {
		t.Helper()
		r := trinity.Record{Step: step, Role: "trainer", Time: time.Now(), Metrics: trinity.Metrics{"actor/x": v, "<&>": 1}}
		if err := mons[0].Log(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	mons := begin()
	for step := range int64(5) {
		log(mons, step+1, float64(step))
	}
	at, _, _ := columnsOf(t, s, "r", "actor/x", "")
	other := serve(t, dir, "")
	log(mons, 6, 6)
	if _, reset, all := columnsOf(t, other, "r", "actor/x,<&>", at); reset || !equal(all["actor/x"].values, []float64{6}) ||
		len(all["<&>"].values) != 1 {
		t.Errorf("a new server: reset %v, %v", reset, all)
	}
	if err := monitor.Close(mons, ""); err != nil {
		t.Fatal(err)
	}
	mons = begin()
	log(mons, 4, 40)
	_, reset, all := columnsOf(t, s, "r", "actor/x", at)
	if !reset || !equal(all["actor/x"].values, []float64{0, 1, 2, 40}) {
		t.Errorf("after a resume: reset %v, %v", reset, all)
	}
}

// Several explorers have files of their own, and their values of a step are a mean.
func TestSeveralExplorersAreOneRun(t *testing.T) {
	dir, s := site(t, "")
	put(t, dir, "r/monitor/metrics.jsonl", line(1, "trainer", `"t":1`))
	put(t, dir, "r/monitor/alice/metrics.jsonl", line(1, "explorer", `"a":1`)+line(2, "explorer", `"a":3`))
	path := put(t, dir, "r/monitor/bob/metrics.jsonl", line(1, "explorer", `"a":4`))
	at, _, all := columnsOf(t, s, "r", "a,t", "")
	if !equal(all["a"].values, []float64{2.5, 3}) || !equal(all["t"].values, []float64{1}) {
		t.Errorf("%v", all)
	}
	add(t, path, line(2, "explorer", `"a":5`))
	if _, reset, all := columnsOf(t, s, "r", "a,t", at); reset || !equal(all["a"].values, []float64{4}) || !equal(all["a"].steps,
		[]float64{2}) {
		t.Errorf("reset %v: %v", reset, all)
	}
	if runs := got[listed](t, s, "runs").Runs; len(runs) != 1 || runs[0].ID != "r" {
		t.Errorf("%+v", runs)
	}
}

// What is wrong in a run is a line, and the rest is shown.
func TestBadFilesShowTheRest(t *testing.T) {
	dir, s := site(t, "")
	var many strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&many, `"m%04d":%d,`, i, i)
	}
	put(t, dir, "wide/monitor/metrics.jsonl", line(1, "trainer", strings.TrimSuffix(many.String(), ",")))
	put(t, dir, "mixed/monitor/metrics.jsonl", "no JSON\n{}\n"+strings.Repeat("x", 3<<20)+"\n"+line(3, "trainer", `"actor/final_loss":3`)+
		`{"metrics": {"actor/final_loss": "Infinity", "q\"\u00e4": 1}, "time": "2001-09-09T01:46:44Z", "role": "trainer", "step": 4}`+"\n"+
		`{"step":5,"role":"trainer","time":"2001-09-09T01:46:45.000Z","metrics":{"x":{"y":1}}}`+"\n"+
		`{"step":6,"role":"trainer","time":"2001-09-09T01:46:46.000Z","metrics":{"x":1},`+
		`"samples":[{"reward":9,"response":",\"x\":7,\"metrics\":{"}]}`+"\n")
	put(t, dir, "torn/monitor/about.json", "{")
	put(t, dir, "torn/monitor/config.yaml", "a: [")
	put(t, dir, "none/log/x", "")
	if err := os.MkdirAll(filepath.Join(dir, "empty/monitor/metrics.jsonl"), 0o755); err != nil {
		t.Fatal(err)
	}
	list := got[struct {
		Runs    []struct{ ID string }
		Damaged []string
	}](t, s, "runs")
	var ids []string
	for _, r := range list.Runs {
		ids = append(ids, r.ID)
	}
	slices.Sort(ids)
	damaged := strings.Join(list.Damaged, "\n")
	if !slices.Equal(ids, []string{"empty", "mixed", "torn", "wide"}) || !strings.Contains(damaged, "about.json is damaged") ||
		!strings.Contains(damaged, "config.yaml: ") || !strings.Contains(damaged, "metrics.jsonl is no regular file") {
		t.Errorf("%q; %s", ids, damaged)
	}
	names := got[struct{ Names, Damaged []string }](t, s, "runs/mixed/names")
	if !slices.Equal(names.Names, []string{"actor/final_loss", "q\"ä", "x"}) || len(names.Damaged) != 1 ||
		!strings.HasPrefix(names.Damaged[0], "3 lines") {
		t.Errorf("%q", names)
	}
	_, _, all := columnsOf(t, s, "mixed", "actor/final_loss,x,reward", "")
	if !equal(all["actor/final_loss"].values, []float64{3, math.Inf(1)}) || !equal(all["x"].values, []float64{1}) ||
		all["reward"].values != nil {
		t.Errorf("%v", all)
	}
	if n := len(got[struct{ Names []string }](t, s, "runs/wide/names").Names); n != 5000 {
		t.Errorf("%d names", n)
	}
	if status, text := get(t, s, "/api/v1/runs/empty/names"); status != 500 || !strings.Contains(text, "no regular file") {
		t.Errorf("%d: %s", status, text)
	}
}

// A run may vanish between two requests, and come again.
func TestARunIsDeleted(t *testing.T) {
	dir, s := site(t, "")
	put(t, dir, "r/monitor/metrics.jsonl", line(1, "trainer", `"a":1`)+line(2, "trainer", `"a":2`))
	at, _, _ := columnsOf(t, s, "r", "a", "")
	if err := os.RemoveAll(filepath.Join(dir, "r")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"runs/r", "runs/r/names", "runs/r/metrics?names=a", "runs/r/steps", "runs/r/live",
		"runs/r/steps/1/rollouts"} {
		if status, text := get(t, s, "/api/v1/"+path); status != 404 || !strings.Contains(text, `{"error":"there is no run \"r\""}`) {
			t.Errorf("%s: %d: %s", path, status, text)
		}
	}
	if runs := got[listed](t, s, "runs"); len(runs.Runs) != 0 || len(runs.Damaged) != 0 {
		t.Errorf("%+v", runs)
	}
	put(t, dir, "r/monitor/metrics.jsonl", line(1, "trainer", `"a":3`))
	if _, reset, all := columnsOf(t, s, "r", "a", at); !reset || !equal(all["a"].values, []float64{3}) {
		t.Errorf("reset %v, %v", reset, all)
	}
}

// No address leads out of the directory.
func TestPathsStayBelowTheDirectory(t *testing.T) {
	dir, s := site(t, "")
	put(t, dir, "in/monitor/metrics.jsonl", line(1, "trainer", `"a":1`))
	put(t, dir, "dirs/monitor/metrics.jsonl", line(1, "trainer", `"a":1`))
	outside := t.TempDir()
	put(t, outside, "run/monitor/metrics.jsonl", line(1, "trainer", `"secret":1`))
	put(t, outside, "run/monitor/config.yaml", "name: secret\n")
	put(t, outside, "run/trace/trained/step-1.parquet", "secret")
	for link, to := range map[string]string{
		"link": filepath.Join(outside, "run"), "half/monitor": filepath.Join(outside, "run/monitor"),
		"file/monitor/metrics.jsonl": filepath.Join(outside, "run/monitor/metrics.jsonl"),
		"file/monitor/config.yaml":   filepath.Join(outside, "run/monitor/config.yaml"),
		"file/trace/trained":         filepath.Join(outside, "run/trace/trained"),
		"dirs/trace":                 filepath.Join(outside, "run/trace"),
	} {
		path := filepath.Join(dir, filepath.FromSlash(link))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, path); err != nil {
			t.Skip(err)
		}
	}
	rel, err := filepath.Rel(dir, filepath.Join(outside, "run"))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"link", "half", rel, filepath.Join(outside, "run"), "in/../link", "../" + filepath.Base(dir) + "/in",
		"in/.", "./in",
		"in/", "/in", ".", "..", "", `in\`, "in\x00", "nowhere", "in/monitor"} {
		for _, escaped := range []string{url.PathEscape(id), strings.ReplaceAll(url.PathEscape(id), ".", "%2e")} {
			for _, path := range []string{"runs/" + escaped + "/names", "compare?run=in&run=" + escaped} {
				if status, text := get(t, s, "/api/v1/"+path); status == 200 {
					t.Errorf("%q: %s", id, text)
				}
			}
		}
	}
	for _, path := range []string{"runs", "runs/file", "runs/file/names", "runs/file/steps", "runs/file/steps/1/rollouts",
		"runs/dirs/steps", "runs/dirs/spans", "compare?run=in&run=file&metric=secret"} {
		if _, text := get(t, s, "/api/v1/"+path); strings.Contains(text, `"secret"`) || strings.Contains(text, "name: secret") ||
			strings.Contains(text, `"steps":[1]`) {
			t.Errorf("%s: %s", path, text)
		}
	}
}

// A configuration that another hand wrote shows no secret.
func TestSecretsAreHidden(t *testing.T) {
	dir, s := site(t, "")
	put(t, dir, "r/monitor/config.yaml",
		"# api_key: geheim4 and more\nname: r # mine, before: api_key=geheim5\n# was postgresql://me:geheim6@host/db\n"+
			"monitor:\n  monitor_args:\n    wandb: {api_key: geheim1}\nbuffer:\n  explorer_input:\n"+
			"    taskset:\n      path: postgresql://me:geheim2@host/db\ninference_model:\n- {api_key: geheim3, x: .nan}\n")
	status, text := get(t, s, "/api/v1/runs/r")
	if status != 200 || strings.Contains(text, "geheim") || !strings.Contains(text, "me:***@host") || !strings.Contains(text, "# mine") {
		t.Errorf("%d: %s", status, text)
	}
	put(t, dir, "c/monitor/config.yaml", "name: c\n# env_vars: {KEY: geheim}\n# the last line\n")
	if _, text := get(t, s, "/api/v1/runs/c"); strings.Contains(text, "geheim") || !strings.Contains(text, "# the last line") {
		t.Error(text)
	}
	run := got[struct {
		Config   string
		Settings map[string]any
	}](t, s, "runs/r")
	if run.Settings["name"] != "r" || run.Settings["inference_model.0.x"] != "NaN" {
		t.Errorf("%v", run.Settings)
	}
}

// The API needs the token where there is one; the page itself needs none.
func TestTokenAndHosts(t *testing.T) {
	_, s := site(t, "secret")
	for _, c := range []struct {
		path    string
		headers []string
		status  int
	}{
		{"/", nil, 200},
		{"/index.html", nil, 200},
		{"/nothing.js", nil, 404},
		{"/../server.go", nil, 404},
		{"/api/v1/runs", nil, 401},
		{"/api/v1/nothing", nil, 401},
		{"/api/v1/runs", []string{"Authorization", "Bearer wrong"}, 401},
		{"/api/v1/runs", []string{"Authorization", "Bearer secret"}, 200},
		{"/api/v1/runs", []string{"Authorization", "Bearer secret", "Host", "studio.example"}, 200},
		{"/api/v1/nothing", []string{"Authorization", "Bearer secret"}, 404},
	} {
		if status, text := get(t, s, c.path, c.headers...); status != c.status {
			t.Errorf("%v: %d: %s", c, status, text)
		}
	}
	_, open := site(t, "")
	if status, text := get(t, open, "/api/v1/runs", "Host", "studio.example"); status != 403 {
		t.Errorf("another host's name: %d: %s", status, text)
	}
	status, text := get(t, open, "/api/v1/about")
	if sum, err := pageSum(); status != 200 || err != nil || !strings.Contains(text, `"version":"v1"`) || !strings.Contains(text, sum) {
		t.Errorf("%d: %s", status, text)
	}
}

// The checksum of the page tells each of its files, and its name.
func TestPageSum(t *testing.T) {
	seen := map[string]bool{}
	for _, files := range []map[string]string{
		{"a.js": "x", "b.js": "y"}, {"a.js": "x", "b.js": "z"}, {"a.js": "x", "c.js": "y"}, {"a.js": "xy"},
	} {
		page := fstest.MapFS{}
		for name, text := range files {
			page["page/"+name] = &fstest.MapFile{Data: []byte(text)}
		}
		sum, err := sumOf(page)
		if err != nil || seen[sum] {
			t.Errorf("%v has the checksum %s, as others have; %v", files, sum, err)
		}
		seen[sum] = true
	}
}

// A browser keeps the page's files until they change.
func TestThePageIsRevalidated(t *testing.T) {
	_, s := site(t, "")
	resp, err := s.Client().Get(s.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	tag := resp.Header.Get("ETag")
	if tag == "" || resp.Header.Get("Cache-Control") != "no-cache" || resp.Header.Get("Cross-Origin-Resource-Policy") != "same-origin" ||
		!strings.Contains(resp.Header.Get("Content-Security-Policy"), "script-src 'self'") ||
		!strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
		t.Errorf("%v", resp.Header)
	}
	if status, _ := get(t, s, "/", "If-None-Match", tag); status != http.StatusNotModified {
		t.Errorf("status %d", status)
	}
}

// Keys of a later version are ignored.
func TestRunsOfLaterVersions(t *testing.T) {
	dir, s := site(t, "")
	put(t, dir, "r/monitor/about.json", `{"name":"r","planet":{"moons":[1]},"parts":{"trainer":{"status":"finished","mood":3}}}`)
	put(t, dir, "r/monitor/metrics.jsonl",
		`{"step":1,"weather":{},"role":"trainer","time":"2001-09-09T01:46:41.000Z","metrics":{"a":1},"z":[]}`+"\n")
	if a, err := rundir.ReadAbout(filepath.Join(dir, "r/monitor")); err != nil || a.Name != "r" || a.Parts["trainer"].Status != "finished" {
		t.Errorf("%+v, %v", a, err)
	}
	list := got[struct {
		Runs    []struct{ ID, Name, State string }
		Damaged []string
	}](t, s, "runs")
	if len(list.Runs) != 1 || len(list.Damaged) > 0 || list.Runs[0].Name != "r" || list.Runs[0].State != "finished" {
		t.Errorf("%+v", list)
	}
	if _, _, all := columnsOf(t, s, "r", "a", ""); !equal(all["a"].values, []float64{1}) {
		t.Errorf("%v", all)
	}
}

// Two studios on one directory do not disturb one another, and write nothing.
func TestTwoStudiosReadOnly(t *testing.T) {
	dir, s := site(t, "")
	put(t, dir, "r/monitor/metrics.jsonl", line(1, "trainer", `"a":1`))
	put(t, dir, "r/monitor/about.json", `{"name":"r"}`)
	other := serve(t, dir, "")
	before := filesIn(t, dir)
	for _, one := range []*httptest.Server{s, other, s} {
		for _, path := range []string{"runs", "runs/r", "runs/r/names", "runs/r/steps"} {
			if status, text := get(t, one, "/api/v1/"+path); status != 200 {
				t.Errorf("%s: %d: %s", path, status, text)
			}
		}
	}
	if after := filesIn(t, dir); !maps.Equal(before, after) {
		t.Errorf("files %v, before %v", after, before)
	}
}

func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
