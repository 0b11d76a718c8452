package cli_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts in testdata/script may use $TINY/model, $TINY/adapter, $QUICKSTART (the example) and
// $CONFIG (testdata/sft.yaml). A hub on loopback serves $HF_ENDPOINT.
func TestScriptsPass(t *testing.T) {
	models := tiny(t)
	hub := httptest.NewServer(http.HandlerFunc(serveHub(filepath.Join(models, "model"))))
	t.Cleanup(hub.Close)
	quickstart, err := filepath.Abs("../../examples/quickstart")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			config, err := os.ReadFile("testdata/sft.yaml")
			if err != nil {
				return err
			}
			env.Setenv("TINY", models)
			env.Setenv("QUICKSTART", quickstart)
			env.Setenv("HF_ENDPOINT", hub.URL)
			env.Setenv("HOME", filepath.Join(env.WorkDir, ".home")) // where the run that was sent last is noted
			env.Setenv("HF_HOME", filepath.Join(env.WorkDir, ".hf"))
			for _, name := range []string{"sft.jsonl", "train.jsonl"} {
				data, err := os.ReadFile(filepath.Join(quickstart, "data", name))
				if err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(env.WorkDir, name), data, 0o644); err != nil {
					return err
				}
			}
			text := strings.Replace(string(config), "model_path: model", "model_path: "+filepath.ToSlash(filepath.Join(models, "model")), 1)
			return os.WriteFile(filepath.Join(env.WorkDir, "sft.yaml"), []byte(text), 0o644)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"refuse": refuse, "note": note, "unchanged": unchanged, "keys": keys, "code": code,
		},
	})
}

// serveHub serves the model org/tiny like the Hugging Face hub.
func serveHub(dir string) http.HandlerFunc {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	return func(w http.ResponseWriter, r *http.Request) {
		if path, ok := strings.CutPrefix(r.URL.Path, "/org/tiny/resolve/"+commit+"/"); ok {
			w.Header().Set("X-Repo-Commit", commit)
			w.Header().Set("ETag", fmt.Sprintf("%q", strings.ReplaceAll(path, ".", "-")))
			http.ServeFile(w, r, filepath.Join(dir, filepath.Base(path)))
			return
		}
		entries, err := os.ReadDir(dir)
		if err != nil || !strings.HasPrefix(r.URL.Path, "/api/models/org/tiny/revision/main") {
			http.NotFound(w, r)
			return
		}
		var siblings []map[string]string
		for _, e := range entries {
			siblings = append(siblings, map[string]string{"rfilename": e.Name()})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"sha": commit, "siblings": siblings}) // the client reports a broken answer
	}
}

// refuse REGEXP COMMAND… fails unless the command fails with one line on standard error that begins
// with "trinity: " and matches.
func refuse(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: refuse REGEXP COMMAND…")
	}
	err := ts.Exec(args[1], args[2:]...)
	stderr := ts.ReadFile("stderr")
	switch {
	case err == nil:
		ts.Fatalf("%v succeeded", args[1:])
	case strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "trinity: "):
		ts.Fatalf("want one line that begins with \"trinity: \", got:\n%s", stderr)
	case !regexp.MustCompile(args[0]).MatchString(stderr):
		ts.Fatalf("want a line that matches %s, got: %s", args[0], stderr)
	}
}

// code N COMMAND… fails unless the command ends with the exit code N.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND…")
	}
	got, err := 0, ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	}
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("%v ended with exit code %d, want %s", args[1:], got, args[0])
	}
}

// note records every file below the work directory. The command unchanged fails unless the files
// and their contents are the same.
func note(ts *testscript.TestScript, _ bool, _ []string) { ts.Setenv("NOTED", listing(ts)) }

func unchanged(ts *testscript.TestScript, _ bool, _ []string) {
	if before, after := ts.Getenv("NOTED"), listing(ts); before != after {
		ts.Fatalf("files before:\n%s\nafter:\n%s", before, after)
	}
}

func listing(ts *testscript.TestScript) string {
	var lines []string
	root := ts.Getenv("WORK")
	ts.Check(filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			lines = append(lines, fmt.Sprintf("%s %d %s", path, info.Size(), info.ModTime()))
		}
		return err
	}))
	return strings.Join(lines, "\n")
}

// keys FILE N KEY… fails unless FILE has N lines, each a JSON object with exactly these keys.
func keys(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: keys FILE N KEY…")
	}
	lines := strings.Split(strings.TrimSuffix(ts.ReadFile(args[0]), "\n"), "\n")
	if fmt.Sprint(len(lines)) != args[1] {
		ts.Fatalf("want %s lines, got %d", args[1], len(lines))
	}
	for _, line := range lines {
		var object map[string]json.RawMessage
		ts.Check(json.Unmarshal([]byte(line), &object))
		for _, key := range args[2:] {
			if _, ok := object[key]; !ok {
				ts.Fatalf("no key %s in %s", key, line)
			}
		}
		if len(object) != len(args[2:]) {
			ts.Fatalf("want the keys %v, got %s", args[2:], line)
		}
	}
}
