package reward

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// compileWASM compiles testdata/wasm once for all tests.
var compileWASM = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "trinity-wasm")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "score.wasm")
	cmd := exec.Command("go", "build", "-o", file, "./testdata/wasm")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
	cmd.Stderr = os.Stderr
	return file, cmd.Run()
})

func wasmModuleFile(t *testing.T) string {
	file, err := compileWASM()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// emptyModule is a file of a module whose _start does nothing. It compiles at once.
func emptyModule(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "empty.wasm")
	const signature, functions = "\x01\x04\x01\x60\x00\x00", "\x03\x02\x01\x00"
	const exports, code = "\x07\x0a\x01\x06_start\x00\x00", "\x0a\x04\x01\x02\x00\x0b"
	if err := os.WriteFile(file, []byte("\x00asm\x01\x00\x00\x00"+signature+functions+exports+code), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func newWASM(t *testing.T, args map[string]any) trinity.RewardFunc {
	all := map[string]any{"module": wasmModuleFile(t)}
	for k, v := range args {
		all[k] = v
	}
	return build(t, "wasm", all)
}

func TestAModuleScoresReplies(t *testing.T) {
	host, fn := newOpener(t), newWASM(t, nil)
	for answer, want := range answered {
		if got := describe(fn.Score(t.Context(), asked(host, "say "+answer))); !matches(got, want) {
			t.Errorf("%s: got %s, want %s", answer, got, want)
		}
	}
	for reply, want := range map[string]string{
		"row weight":     "0.25 map[]",
		"fail no weight": "error: exit_code(3); it said: no weight",
		"nothing":        "error: want {",
	} {
		if got := describe(fn.Score(t.Context(), asked(host, reply))); !matches(got, want) {
			t.Errorf("%s: got %s, want %s", reply, got, want)
		}
	}
	if len(host.open) != 1 {
		t.Errorf("%d modules are open, want 1", len(host.open))
	}
	if got := describe(fn.Score(t.Context(), asked(nil, "say 1"))); !strings.Contains(got, "only a run") {
		t.Errorf("without a host: %s", got)
	}
}

func TestAModuleReachesNothingOutside(t *testing.T) {
	host, fn := newOpener(t), newWASM(t, nil)
	first := describe(fn.Score(t.Context(), asked(host, "outside")))
	if !strings.Contains(first, "files:0 ") || !strings.Contains(first, "variables:0]") {
		t.Errorf("got %s, want no file and no variable", first)
	}
	if again := describe(fn.Score(t.Context(), asked(host, "outside"))); again != first {
		t.Errorf("the same question has two answers: %s and %s", first, again)
	}
}

func TestAModuleIsBounded(t *testing.T) {
	host := newOpener(t)
	for reply, c := range map[string]struct {
		args map[string]any
		want string
	}{
		"talk": {map[string]any{"timeout": 1}, "error: more than 1048576 bytes"},
		"hang": {map[string]any{"timeout": 0.2}, "error: no answer within timeout = 0.2 s"},
		"eat":  {map[string]any{"max_memory_mb": 32}, "error: out of memory"},
	} {
		fn := newWASM(t, c.args)
		if got := describe(fn.Score(t.Context(), asked(host, reply))); !matches(got, c.want) {
			t.Errorf("%s: got %s, want %s", reply, got, c.want)
		}
		if got := describe(fn.Score(t.Context(), asked(host, "say 1"))); got != "1 map[]" && c.args["timeout"] == nil {
			t.Errorf("after %s: got %s, want 1", reply, got)
		}
	}
}

func TestModulesThatCannotRun(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.wasm")
	library, importing := filepath.Join(t.TempDir(), "library.wasm"), filepath.Join(t.TempDir(), "importing.wasm")
	const header, signature, imports = "\x00asm\x01\x00\x00\x00", "\x01\x04\x01\x60\x00\x00", "\x02\x09\x01\x03env\x01f\x00\x00"
	const exports = "\x07\x0a\x01\x06_start\x00\x00"
	for file, text := range map[string]string{broken: "\x7fELF", library: header, importing: header + signature + imports + exports} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args map[string]any
		want string
	}{
		{nil, "module: name a file"},
		{map[string]any{"module": "no.wasm"}, "no.wasm"},
		{map[string]any{"module": broken}, "invalid magic number"},
		{map[string]any{"module": library}, "it exports no _start"},
		{map[string]any{"module": importing}, "it imports env.f"},
		{map[string]any{"module": library, "timeout": 0}, "timeout: must be more than 0"},
		{map[string]any{"module": library, "max_memory_mb": 5000}, "max_memory_mb: must be at least 1 and at most 4096"},
	} {
		_, err := registry.Rewards.Build("wasm", c.args)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %s", c.args, err, c.want)
		}
	}
}
