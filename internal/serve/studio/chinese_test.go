package studio

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// said are the files whose sentences the page shows, by patterns from the root of the repository.
var said = []string{
	"internal/serve/studio/*.go", "internal/serve/web/*.go", "internal/cli/studiotalk.go",
	"internal/report/compare.go", "internal/report/final.go", "internal/report/read.go",
	"internal/run/plan/*.go", "internal/run/place/*.go", "internal/run/settle/*.go",
	"internal/config/*.go", "internal/tags/*.go", "registry/*.go", "internal/rundir/*.go", "internal/trace/*.go", "internal/explorer/*.go",
	"engine/cpu/account.go", "engine/cpu/memory.go", "engine/cpu/plan.go", "engine/cpu/adamw.go",
	"engine/cpu/adamw8bit.go", "engine/cpu/muon.go", "engine/cpu/internal/sampler/memory.go", "engine/torch/memory.go",
	"engine/served/memory.go", "internal/run/*.go", "internal/run/feed/*.go", "internal/run/checkpoint/*.go",
	"internal/dataset/*.go", "internal/trainer/*.go", "internal/pipeline/*.go", "internal/run/learn/*.go", "internal/run/refine/*.go",
	"internal/run/record/*.go", "internal/serve/annotate/*.go", "internal/simulation/*.go", "internal/wait/*.go",
	"internal/database/*.go", "internal/database/dburl/*.go", "internal/machines/*.go",
}

// plugins are files of plug-ins: what their methods of these names return is shown beside a configuration.
var (
	plugins = []string{
		"algorithm/*.go", "algorithm/*/*.go", "workflow/*.go", "environment/*.go", "reward/*.go", "operator/*.go", "selector/*.go",
		"buffer/*.go", "weights/*.go", "monitor/*.go", "launcher/*.go", "engine/*/*.go",
	}
	methods = []string{"Validate", "Writes"}
)

// unsaid matches literals that are no sentences for people: programs, HTML, routes, mistakes in this program.
var unsaid = regexp.MustCompile(`^(<|\^|\[|GET |POST |event: |data: |default-src|import |config: |registry: |trinity studio$|--- |# %s: ` +
	`|https? |cpu: optimizer |SELECT |CREATE |DELETE |INSERT |CHARACTER |version https|You compare |Judge whether |Rate how ` +
	`|The reply |Newest value |text/plain)`)

// elsewhere are sentences that no literal of these files has: those of the system, and of libraries.
var elsewhere = []string{
	"no such file or directory", "file does not exist", "permission denied", "is a directory", "not a directory", "no space left on device",
	"connection refused", "context canceled", "context deadline exceeded", "unexpected EOF", "invalid argument", "file already exists",
	"about %s of %s that are %s", "about %s", "%s of checkpoints", "rollouts %s", "gradient %s",
	"reward function", "sample strategy", "task operator",
	"open %s", "stat %s", "lstat %s", "read %s", "mkdir %s", "write %s",
}

// zh/sentences.js has Chinese for every sentence of the files above, and for nothing else. What lacks is printed as lines to
// fill in.
func TestTheServerSpeaksChinese(t *testing.T) {
	chinese := entriesOf(t, "zh/sentences.js")
	all, needed := map[string]bool{}, map[string]string{} // by format; where it stands
	note := func(at, text string) {
		if all[text] = true; isSentence(text) && needed[text] == "" {
			needed[text] = at
		}
	}
	for _, file := range matching(t, said) {
		literals(t, file, nil, note)
	}
	for _, file := range matching(t, plugins) {
		literals(t, file, methods, note)
	}
	for _, text := range elsewhere {
		all[text] = true
	}
	for _, text := range slices.SortedFunc(maps.Keys(needed), func(a, b string) int { return strings.Compare(needed[a], needed[b]) }) {
		if _, ok := chinese[text]; !ok {
			t.Errorf("page/zh/sentences.js lacks Chinese for %s. The line is:\n  %s: \"\",", needed[text], quoted(text))
		}
	}
	for text, to := range chinese {
		if !all[text] {
			t.Errorf("page/zh/sentences.js: no source says %q any more: remove it, or write the sentence that takes its place", text)
		}
		if got, want := verbs(to), verbs(text); !maps.Equal(got, want) {
			t.Errorf("page/zh/sentences.js: %q has the verbs %v, and in Chinese %v", text, want, got)
		}
	}
}

// entriesOf returns a table of the page.
func entriesOf(t *testing.T, name string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("page", name))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	entry := regexp.MustCompile(`^  ("(?:[^"\\]|\\.)*"): ("(?:[^"\\]|\\.)*"),$`)
	for i, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, `  "`) {
			continue
		}
		found := entry.FindStringSubmatch(line)
		if found == nil {
			t.Fatalf("page/%s:%d is no entry", name, i+1)
		}
		key, err := strconv.Unquote(found[1])
		value, wrong := strconv.Unquote(found[2])
		if err != nil || wrong != nil || value == "" {
			t.Fatalf("page/%s:%d is no entry: %v %v", name, i+1, err, wrong)
		}
		if _, twice := out[key]; twice {
			t.Errorf("page/%s:%d: %q is there twice", name, i+1, key)
		}
		out[key] = value
	}
	return out
}

// quoted returns a text as both Go and JavaScript read it.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(text) + `"`
}

var (
	verb = regexp.MustCompile(`%(?:\[(\d)\])?[-+# 0]*\d*(?:\.\d+)?([a-zA-Z%])`)
	word = regexp.MustCompile(`[A-Za-z][a-z]+`)
)

// isSentence reports whether a literal has words in it that a person would want in Chinese.
func isSentence(text string) bool {
	return !unsaid.MatchString(text) && strings.Contains(text, " ") && len(word.FindAllString(verb.ReplaceAllString(text, ""), 2)) == 2
}

// matching returns the sources that match patterns from the root of the repository.
func matching(t *testing.T, patterns []string) (sources []string) {
	t.Helper()
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join("../../..", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s matches %d files: %v", pattern, len(files), err)
		}
		sources = append(sources, slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, "_test.go") })...)
	}
	return sources
}

// verbs returns the kinds of a format's verbs by their number.
func verbs(text string) map[int]string {
	out, n := map[int]string{}, 0
	for _, found := range verb.FindAllStringSubmatch(text, -1) {
		if found[2] == "%" {
			continue
		}
		if n++; found[1] != "" {
			n, _ = strconv.Atoi(found[1])
		}
		out[n] = found[2]
	}
	return out
}

// literals calls said for the texts of a file, or for those of its methods of some names. One that is joined of literals and
// values is a format, in which %s is a value. What stands around a sentence in a longer one is left off.
func literals(t *testing.T, file string, methods []string, said func(at, text string)) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch of := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.FuncDecl:
			return methods == nil || slices.Contains(methods, of.Name.Name)
		case *ast.GenDecl:
			return methods == nil
		case *ast.Field:
			return of.Tag == nil
		case *ast.CallExpr:
			name, ok := of.Fun.(*ast.Ident)
			return !ok || name.Name != "panic"
		case *ast.BasicLit, *ast.BinaryExpr:
			text, values, ok := joined(of.(ast.Expr))
			if !ok {
				return true
			}
			at := set.Position(n.Pos())
			place := fmt.Sprintf("%s:%d", strings.TrimPrefix(at.Filename, "../../../"), at.Line)
			said(place, strings.TrimRight(strings.TrimLeft(text, ",;:( \n"), " \n"))
			for _, value := range values {
				ast.Inspect(value, visit)
			}
			return false
		}
		return true
	}
	ast.Inspect(parsed, visit)
}

// joined returns the text of an expression of literals, with %s for each value in it, and these values. It is false without a
// literal.
func joined(of ast.Expr) (text string, values []ast.Expr, ok bool) {
	switch e := of.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, err := strconv.Unquote(e.Value)
			return text, nil, err == nil
		}
	case *ast.ParenExpr:
		return joined(e.X)
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			a, before, left := joined(e.X)
			b, after, right := joined(e.Y)
			return a + b, append(before, after...), left || right
		}
	}
	return "%s", []ast.Expr{of}, false
}
