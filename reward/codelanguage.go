package reward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/sandbox"
)

// language says how programs of a language run.
type language struct {
	names   string // of code blocks
	file    string
	command []string
	env     []string
	// compile returns the executable of a program, or nil if it does not compile.
	compile func(context.Context, *codeRun, sandbox.Program) ([]byte, error)
}

var languages = map[string]language{
	"python":     {names: " python py python3 ", file: "main.py", command: []string{"python3", "main.py"}},
	"javascript": {names: " javascript js node ", file: "main.js", command: []string{"node", "main.js"}},
	"bash":       {names: " bash sh shell ", file: "main.sh", command: []string{"bash", "main.sh"}},
	"cpp": {names: " cpp c++ cc cxx ", file: "main.cpp", compile: func(ctx context.Context, c *codeRun, p sandbox.Program) ([]byte, error) {
		return c.build(ctx, p, "g++ -O2 -std=c++17 -o program main.cpp")
	}},
	"go": {names: " go golang ", file: "main.go", compile: func(ctx context.Context, c *codeRun, p sandbox.Program) ([]byte, error) {
		cache, err := c.goCache()
		if err != nil {
			return nil, &trinity.RolloutError{Kind: trinity.FailedSandbox, Err: err}
		}
		p.Env, p.Read = append(goEnv, "GOCACHE="+cache), []string{cache}
		return c.build(ctx, p, "go build -o program main.go")
	}},
}

// build runs a compiler in the sandbox: what it compiles may tell it to read files. The executable
// comes back as the compiler's standard output.
func (c *codeRun) build(ctx context.Context, p sandbox.Program, command string) ([]byte, error) {
	const most = 64 << 20
	p.Command = []string{"sh", "-c", command + " </dev/null >&2 && exec cat program"}
	p.Limits = sandbox.Limits{Memory: 2 << 30, File: most, Disk: 4 * most, Output: most, Processes: 128}
	r, err := c.run(ctx, p, c.args.CompileTimeout)
	switch {
	case err != nil:
		return nil, err
	case r.ExitCode == 127:
		return nil, &trinity.RolloutError{Kind: trinity.FailedSandbox, Err: fmt.Errorf("no compiler in the sandbox's PATH (%s): %s",
			sandbox.Path, strings.TrimSpace(string(r.Stderr)))}
	case r.ExitCode != 0 || r.TimedOut || r.Truncated:
		return nil, nil
	}
	return r.Stdout, nil
}

// goEnv makes builds in and outside of the sandbox equal.
var goEnv = []string{"GO111MODULE=off", "GOTOOLCHAIN=local", "GOFLAGS=-trimpath", "CGO_ENABLED=0", "GOTELEMETRY=off"}

// goCache returns a folder with Go's compiled standard library, which all rewards of the stage
// share. Without it every program would compile that itself, for 15 s.
func (c *codeRun) goCache() (string, error) {
	if c.host == nil {
		return "", errors.New("only a run can prepare Go's standard library")
	}
	opened, err := c.host.Open("reward code go", func(io.Writer) (io.Closer, error) {
		folder, err := durable.NewScratch("trinity-go-")
		if err != nil {
			return nil, err
		}
		if err := fillGoCache(folder.Dir); err != nil {
			return nil, errors.Join(err, folder.Close())
		}
		return folder, nil
	})
	if err != nil {
		return "", err
	}
	return opened.(*durable.Scratch).Dir, nil
}

// fillGoCache compiles the packages that programs import most. Nothing of a model takes part.
func fillGoCache(folder string) error {
	path := ""
	for _, dir := range filepath.SplitList(sandbox.Path) {
		if found, err := exec.LookPath(filepath.Join(dir, "go")); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		return errors.New("no go in the sandbox's PATH: " + sandbox.Path)
	}
	cmd := exec.Command(path, "build", "bufio", "bytes", "cmp", "container/heap", "container/list", "container/ring", "context",
		"encoding/base64", "encoding/binary", "encoding/hex", "encoding/json", "errors", "fmt", "hash/fnv", "io", "iter", "maps", "math",
		"math/big", "math/bits", "math/cmplx", "math/rand", "math/rand/v2", "os", "os/signal", "reflect", "regexp", "runtime",
		"runtime/debug", "slices", "sort", "strconv", "strings", "sync", "sync/atomic", "text/tabwriter", "text/template", "time", "unicode",
		"unicode/utf8", "unsafe")
	cmd.Env = append(os.Environ(), append(goEnv, "GOCACHE="+folder)...)
	cmd.Dir = folder
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("cannot compile Go's standard library: %w; %s", err, said.String())
	}
	return filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error { // a sandbox of root has another user
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(path, 0o755)
		}
		return os.Chmod(path, 0o644)
	})
}
