package doctest

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// parsers are the packages that read a text by a grammar, and run programs that do.
var parsers = []string{
	"regexp", "encoding/xml", "database/sql", "modernc.org/sqlite", "github.com/dlclark/regexp2/v2", "github.com/expr-lang/expr",
	"go.starlark.net/starlark", "github.com/santhosh-tekuri/jsonschema/v6", "github.com/tetratelabs/wazero", "github.com/abadojack/whatlanggo",
	"golang.org/x/net/html", "github.com/trinity-go/trinity/internal/sandbox", "gopkg.in/yaml.v3", "go.yaml.in/yaml/v4",
}

// meetTexts are the folders whose code meets texts of a policy.
var meetTexts = []string{
	"environment", "reward", "reward/mathequal", "workflow", "operator", "operator/rows", "model/renderer", "internal/model/toolcall",
	"model/renderer/internal/jinja", "internal/model/tokenizer", "internal/serve/gateway", "internal/serve/openai",
}

var (
	bound    = regexp.MustCompile("([0-9][0-9,]*) ?(KiB|MiB|GiB)?[^|`;]{0,40}?\\(`([a-zA-Z]+)`(?: in ([a-z0-9_/]+\\.go))?")
	goFile   = regexp.MustCompile(`[a-z0-9_]+(?:/[a-z0-9_]+)+\.go`)
	isBinary = map[string]int64{"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
)

// The page of bounds says what the code does: each constant that it names has the value that it gives.
func TestBoundsAreThoseOfTheCode(t *testing.T) {
	text, err := os.ReadFile("../../docs/operate/bounds.md")
	if err != nil {
		t.Fatal(err)
	}
	rows, checked := 0, 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) == 5 && !strings.HasPrefix(strings.TrimSpace(cells[0]), "-") && strings.TrimSpace(cells[1]) != "in" {
			rows++
			for i, c := range cells {
				if strings.TrimSpace(c) == "" {
					t.Errorf("an empty cell %d: %s", i, line)
				}
			}
		}
		own := goFile.FindAllString(line, -1)
		for _, m := range bound.FindAllStringSubmatch(line, -1) {
			n, err := strconv.ParseInt(strings.ReplaceAll(m[1], ",", ""), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			files := own
			if m[4] != "" {
				files = []string{m[4]}
			}
			got, found := constantOf(t, m[3], files)
			switch want := n * isBinary[m[2]]; {
			case !found:
				t.Errorf("%s is in none of %v", m[3], files)
			case got >= 0 && got != want:
				t.Errorf("%s is %d; the page says %s %s", m[3], got, m[1], m[2])
			}
			checked++
		}
	}
	if rows < 25 || checked < 30 {
		t.Errorf("%d rows with %d bounds were read", rows, checked)
	}
}

// constantOf returns the value of a constant in one of the files, -1 if it is no whole number.
func constantOf(t *testing.T, name string, files []string) (value int64, found bool) {
	t.Helper()
	for _, file := range files {
		if strings.HasSuffix(file, ".py") {
			return pythonConstant(t, name, file)
		}
		tree, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", file), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, id := range spec.Names {
				if id.Name != name || found {
					continue
				}
				found, value = true, -1
				if i < len(spec.Values) {
					if tv, err := types.Eval(token.NewFileSet(), nil, token.NoPos, types.ExprString(spec.Values[i])); err == nil {
						if v, exact := constant.Int64Val(constant.ToInt(tv.Value)); exact {
							value = v
						}
					}
				}
			}
			return true
		})
	}
	return value, found
}

// pythonConstant returns the value of a constant that a line of a Python file gives, as 1 << 20.
func pythonConstant(t *testing.T, name, file string) (int64, bool) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", file))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + name + ` = ([0-9]+) << ([0-9]+)$`).FindStringSubmatch(string(text))
	if m == nil {
		return 0, false
	}
	n, _ := strconv.ParseInt(m[1], 10, 64)
	shift, _ := strconv.Atoi(m[2])
	return n << shift, true
}

// Every file that meets texts of a policy with a parser stands on the page.
func TestParsersOfPoliciesAreOnThePage(t *testing.T) {
	text, err := os.ReadFile("../../docs/operate/bounds.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := goFile.FindAllString(string(text), -1)
	for _, folder := range meetTexts {
		files, err := filepath.Glob(filepath.Join("../..", folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, imported := range tree.Imports {
				path, _ := strconv.Unquote(imported.Path.Value)
				if name := folder + "/" + filepath.Base(file); slices.Contains(parsers, path) && !slices.Contains(listed, name) {
					t.Errorf("%s imports %s: give its bounds of bytes, seconds and memory in docs/operate/bounds.md", name, path)
				}
			}
		}
	}
	for _, file := range listed {
		if _, err := os.Stat(filepath.Join("../..", file)); err != nil {
			t.Error(err)
		}
	}
}

// What one side of a path may send, the other side takes: the receiver's limit is not below the
// sender's. A body that is larger than the room of all bodies takes turns (package web).
func TestLimitsOfOnePathFit(t *testing.T) {
	for _, path := range []struct {
		what               string
		sender, senders    string
		receiver, receives string
		factor             int64 // of the sender's limit, when it is written for the receiver
	}{
		{"a row of a file, as a line of a command", "internal/dataset/dataset.go", "maxRow", "internal/cli/model.go", "maxLine", 1},
		{"a row of a file, as a line of verify", "internal/dataset/dataset.go", "maxRow", "internal/verify/file.go", "maxLine", 1},
		{"a line of metrics", "internal/rundir/columns.go", "maxLine", "internal/cachedir/saved.go", "maxHeader", 1},
		{"a chat, whichever dialect", "internal/serve/gateway/dialect.go", "maxMessages", "internal/serve/openai/server.go", "maxBody", 1},
		{"a chat, the other way round", "internal/serve/openai/server.go", "maxBody", "internal/serve/gateway/dialect.go", "maxMessages", 1},
		{"a reward of a program, over HTTP", "internal/wire/score/score.go", "MaxAnswer", "internal/serve/gateway/gateway.go", "maxControl", 1},
		{"spans of an explorer", "internal/serve/fleet/outbox.go", "maxBatch", "internal/serve/fleet/handle.go", "maxDelivery", 1},
		{"a part of a trace", "internal/trace/part.go", "maxPart", "internal/trace/part.go", "maxFrame", 1},
		{"a result of SQL, as the policy reads it", "environment/sql.go", "mostShown", "environment/sqlchild.go", "mostInResult", 1},
		{"a value of SQL in a result", "environment/sqlchild.go", "mostInValue", "environment/sqlchild.go", "mostInResult", 1},
		{"output of a member, as ASCII JSON", "python/trinity_worker/trinity_worker/join.py", "MOST", "internal/cluster/door.go", "maxBody", 12},
	} {
		most, ok := constantOf(t, path.senders, []string{path.sender})
		if least, found := constantOf(t, path.receives, []string{path.receiver}); !ok || !found || least < most*path.factor {
			t.Errorf("%s: %s in %s is %d times %d, and %s in %s is %d", path.what, path.senders, path.sender, path.factor, most,
				path.receives, path.receiver, least)
		}
	}
}
