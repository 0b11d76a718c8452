package tinker

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of the SDK's methods into docs/reference/tinker.md")

// The files of a tokenizer for the tiny model.
const (
	tinyTokenizer = `{"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":{"type":"Whitespace"},"post_processor":null,` +
		`"decoder":null,"model":{"type":"WordLevel","vocab":{"a":0,"b":1,"c":2,"d":3},"unk_token":"a"}}`
	tinyTokenizerConfig = `{"tokenizer_class":"PreTrainedTokenizerFast"}`
)

// Every public method of the unmodified SDK's clients is done, or refused with a sentence: as the reference says.
func TestSDK(t *testing.T) {
	python := os.Getenv("TRINITY_TINKER_PYTHON")
	if python == "" {
		t.Skip("TRINITY_TINKER_PYTHON names no Python that has tinker")
	}
	c, dir := serve(t, func(o *Options) {
		for _, b := range o.Bases {
			b.Vocab = 10
		}
	}), t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "tiny"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"tokenizer.json": tinyTokenizer, "tokenizer_config.json": tinyTokenizerConfig} {
		if err := os.WriteFile(filepath.Join(dir, "tiny", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	script, err := filepath.Abs("testdata/sdk.py")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TINKER_BASE_URL="+c.url, "TINKER_API_KEY=tml-local", "HF_HUB_OFFLINE=1", "TINKER_TELEMETRY=0")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	const path, end = "../../../docs/reference/tinker.md", "<!-- end -->\n"
	const begin = "<!-- sdk: written by go test ./internal/serve/tinker -run SDK -update -->\n"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(page), begin)
	if !ok {
		t.Fatalf("%s has no %s", path, begin)
	}
	_, tail, _ := strings.Cut(rest, end)
	want := head + begin + sdkTable(t, string(out)) + end + tail
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(page) {
		t.Errorf("%s does not say what the SDK met; -update writes it:\n%s", path, out)
	}
}

// sdkTable returns a row for each method, or one for two that only differ by _async.
func sdkTable(t *testing.T, lines string) string {
	t.Helper()
	type line struct {
		Client, Method, Refused string
		Untried                 bool // a Python without torch has no losses of its own
	}
	var all []line
	for text := range strings.Lines(lines) {
		var x line
		if err := json.Unmarshal([]byte(text), &x); err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
	}
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
