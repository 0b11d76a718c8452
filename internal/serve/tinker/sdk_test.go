package tinker

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/trinitytest"
)

var update = flag.Bool("update", false, "write the table of the SDK's methods into docs/reference/tinker.md")

// The files of a tokenizer for the tiny model.
const (
	tinyTokenizer = `{"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":{"type":"Whitespace"},"post_processor":null,` +
		`"decoder":null,"model":{"type":"WordLevel","vocab":{"a":0,"b":1,"c":2,"d":3},"unk_token":"a"}}`
	tinyTokenizerConfig = `{"tokenizer_class":"PreTrainedTokenizerFast"}`
)

// sdkPlace is a folder in which Python runs the SDK against a service with a tiny model.
type sdkPlace struct{ python, dir, url string }

func newSDKPlace(t *testing.T) sdkPlace {
	t.Helper()
	p := sdkPlace{python: os.Getenv("TRINITY_TINKER_PYTHON"), dir: t.TempDir()}
	if p.python == "" {
		t.Skip("TRINITY_TINKER_PYTHON names no Python that has tinker")
	}
	p.url = serve(t, func(o *Options) {
		for _, b := range o.Bases {
			b.Vocab = 10
		}
	}).url
	if err := os.Mkdir(filepath.Join(p.dir, "tiny"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"tokenizer.json": tinyTokenizer, "tokenizer_config.json": tinyTokenizerConfig} {
		if err := os.WriteFile(filepath.Join(p.dir, "tiny", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// run returns what a script of testdata prints. The folder older, if it is not empty, has another version of the SDK.
func (p sdkPlace) run(t *testing.T, older, script string, args ...string) string {
	t.Helper()
	script, err := filepath.Abs(filepath.Join("testdata", script))
	if err == nil {
		_, err = os.Stat(script) // so that a changed script runs again
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), p.python, append([]string{script}, args...)...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "TINKER_BASE_URL="+p.url, "TINKER_API_KEY=tml-local", "HF_HUB_OFFLINE=1", "TINKER_TELEMETRY=0",
		"PYTHONPATH="+older)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s with %q: %v: %s", filepath.Base(script), older, err, errs.String())
	}
	return string(out)
}

// compareTable compares a table of the reference with what the test has found. -update writes it.
func compareTable(t *testing.T, begin, table string) {
	t.Helper()
	const path, end = "../../../docs/reference/tinker.md", "<!-- end -->\n"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(page), begin)
	if !ok {
		t.Fatalf("%s has no %s", path, begin)
	}
	_, tail, _ := strings.Cut(rest, end)
	want := head + begin + table + end + tail
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(page) {
		t.Errorf("%s does not say what the SDK met; -update writes it:\n%s", path, table)
	}
}

// Every public method of the unmodified SDK's clients is done, or refused with a sentence: as the reference says.
func TestSDK(t *testing.T) {
	p := newSDKPlace(t)
	table := sdkTable(t, p.run(t, "", "sdk.py"))
	compareTable(t, "<!-- sdk: written by go test ./internal/serve/tinker -run SDK -update -->\n", table)
}

// A loop over older versions of the SDK gets the numbers that it gets over the newest, and each public method that they have
// is done, or refused as it is there.
func TestOlderSDKs(t *testing.T) {
	folder := os.Getenv("TRINITY_TINKER_OLDER")
	if folder == "" {
		t.Skip("TRINITY_TINKER_OLDER names no folder with older versions of tinker; TRINITY_HEAVY=1 bash .ci/run makes it")
	}
	p := newSDKPlace(t)
	versions, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(versions) == 0 {
		t.Fatalf("TRINITY_TINKER_OLDER=%s has no versions (%v)", folder, err)
	}
	numbers := withoutFirst(p.run(t, "", "loop.py")) // the first line is the version
	newest := sdkMethods(t, p.run(t, "", "sdk.py"))
	table := "| `tinker` | methods | done | refused | that only it has |\n|---|---|---|---|---|\n"
	for _, older := range append(versions, "") {
		text := p.run(t, older, "loop.py")
		version, _, _ := strings.Cut(text, "\n")
		if got := withoutFirst(text); got+closes != numbers && got != numbers {
			t.Errorf("%s: the loop prints\n%s\nand that over the newest\n%s", version, got, numbers)
		}
		methods := sdkMethods(t, p.run(t, older, "sdk.py", "older"))
		done, only := 0, []string{}
		for _, m := range methods {
			find := func(name string) int {
				return slices.IndexFunc(newest, func(n sdkMethod) bool { return n.Client == m.Client && n.Method == name })
			}
			i, first := find(m.Method), strings.TrimSuffix(m.Method, "_async")
			if m.Refused == "" {
				done++
			}
			switch {
			case i < 0 && m.Refused == "" && first != m.Method && find(first) < 0: // the twin is in the list
			case i < 0 && m.Refused == "":
				only = append(only, "`"+m.Method+"`")
			case i < 0 || newest[i].Refused == "" && m.Refused != "":
				t.Errorf("%s: %s.%s is refused: %s", version, m.Client, m.Method, m.Refused)
			}
		}
		var v struct{ Result string }
		if err := json.Unmarshal([]byte(version), &v); err != nil {
			t.Fatal(err)
		}
		table += fmt.Sprintf("| %s | %d | %d | %d | %s |\n", v.Result, len(methods), done, len(methods)-done, strings.Join(only, ", "))
	}
	compareTable(t, "<!-- versions: written by go test ./internal/serve/tinker -run OlderSDKs -update -->\n", table)
}

// The calls of Trinity-RFT's trainer, whose loss is computed by the client (0.6.0) or by the service (newer), train alike. It
// deletes a checkpoint by a name that is none, is told so, and goes on.
func TestTrinityRFT(t *testing.T) {
	p := newSDKPlace(t)
	p.python = trinitytest.Python(t, "TRINITY_COOKBOOK_PYTHON", "tinker", "torch")
	type line struct {
		Call   string
		Result any
	}
	lines := map[string][]line{}
	for _, way := range []string{"custom", "server"} {
		for text := range strings.Lines(p.run(t, "", "trinity_rft.py", way)) {
			var x line
			if err := json.Unmarshal([]byte(text), &x); err != nil {
				t.Fatal(err)
			}
			lines[way] = append(lines[way], x)
			if told := fmt.Sprint(x.Result); x.Call == "delete_checkpoint" && !strings.Contains(told, "want weights/NAME or sampler_weights/NAME") {
				t.Errorf("%s: a checkpoint is deleted by a wrong name: %s", way, told)
			}
		}
	}
	if len(lines["custom"]) != 6 || len(lines["server"]) != 6 {
		t.Fatalf("the calls print %v", lines)
	}
	for i, custom := range lines["custom"] {
		if server := lines["server"][i]; custom.Call != server.Call || !alike(custom.Result, server.Result) {
			t.Errorf("line %d: the client's loss gives %v, the service's %v", i, custom, server)
		}
	}
}

// The trainer of trinity-rft 0.6.0 as it is trains, saves and resumes. On fresh replies its log-probabilities are the sampler's,
// and its distance to the reference grows from 0.
func TestTrinityRFTTrainer(t *testing.T) {
	p := newSDKPlace(t)
	p.python = trinitytest.Python(t, "TRINITY_COOKBOOK_PYTHON", "tinker", "torch", "trinity", "ray", "omegaconf", "tensorboard")
	step, last := 0, -1.
	for text := range strings.Lines(p.run(t, "", "trinity_rft_trainer.py", t.TempDir())) {
		if !strings.HasPrefix(text, "{") {
			continue // what the trainer logs
		}
		var x struct {
			Before            int
			Policy, Reference float64
		}
		if err := json.Unmarshal([]byte(text), &x); err != nil {
			t.Fatal(err)
		}
		if x.Before != step || x.Policy != 0 || x.Reference <= last || step == 0 && x.Reference != 0 {
			t.Errorf("step %d: %+v", step, x)
		}
		step, last = step+1, x.Reference
	}
	if step != 4 {
		t.Errorf("%d steps, want 4", step)
	}
}

// alike reports whether numbers differ by less than 1e-4, in lists of lists too.
func alike(a, b any) bool {
	switch a := a.(type) {
	case float64:
		b, ok := b.(float64)
		return ok && math.Abs(a-b) < 1e-4
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, alike)
	}
	return a == b
}

// closes is the last line of a loop. Older versions of the SDK have no close.
const closes = `{"call": "close", "result": null}` + "\n"

func withoutFirst(text string) string {
	_, rest, _ := strings.Cut(text, "\n")
	return rest
}

// sdkMethod is a line of sdk.py.
type sdkMethod struct {
	Client, Method, Refused string
	Untried                 bool // a Python without torch has no losses of its own
}

func sdkMethods(t *testing.T, lines string) []sdkMethod {
	t.Helper()
	var all []sdkMethod
	for text := range strings.Lines(lines) {
		var x sdkMethod
		if err := json.Unmarshal([]byte(text), &x); err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
	}
	return all
}

// sdkTable returns a row for each method, or one for two that only differ by _async.
func sdkTable(t *testing.T, lines string) string {
	t.Helper()
	all := sdkMethods(t, lines)
	b := strings.Builder{}
	b.WriteString("| client | method | |\n|---|---|---|\n")
	for _, x := range all {
		if x.Untried && *update {
			t.Fatalf("-update needs torch beside tinker, for %s", x.Method)
		}
		twin, first := x, x
		twin.Method += "_async"
		first.Method = strings.TrimSuffix(x.Method, "_async")
		if first != x && slices.Contains(all, first) {
			continue
		}
		method, result := "`"+x.Method+"`", "done"
		if slices.Contains(all, twin) {
			method += ", `_async`"
		}
		if x.Refused != "" {
			result = "refused: " + x.Refused
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", x.Client, method, result)
	}
	return b.String()
}
